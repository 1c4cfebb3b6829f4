#!/bin/sh
# Checks the Python client: check.sh [oldest | driver]
#
# Builds the wheel, counts its lines, lints, checks types, and tests the wheel in a fresh environment against a server with the
# module; then installs it into a fresh project, as users do, and uses it there. With `oldest`, also the tests with the oldest
# redis-py on the oldest Python there is here, and with the newest ones on the newest Python. `driver` only makes the
# environment of the conformance suite's driver program.
# The module is target/release/librlock.so, the server $REDIS_SERVER or redis-server.
set -eu
cd "$(dirname "$0")"
out=$(realpath -m "${CARGO_TARGET_DIR:-../../target}")/clients/python
mkdir -p "$out"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "python3 3.10 or later is missing" >&2; exit 1; }
python3 -c 'import ensurepip' || { echo "python3-venv is missing" >&2; exit 1; }

# An environment with these packages, made again when they change.
environment() { # NAME PYTHON PACKAGE...
    name=$out/$1
    python=$2
    wanted=$(printf '%s ' "$("$python" --version)" "$@")
    shift 2
    [ "$(cat "$name/made" 2>/dev/null)" = "$wanted" ] && return
    "$python" -m venv --clear "$name"
    "$name/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
    echo "$wanted" >"$name/made"
}

environment tools python3 'redis>=5.0.1' 'hatchling>=1.21' 'build>=1.0' 'mypy>=1.8' 'pytest>=8' 'ruff>=0.6'
tools=$out/tools/bin
rm -rf "$out/dist"
"$tools/python" -m build --no-isolation --wheel --outdir "$out/dist" . >"$out/build.log" 2>&1 || { cat "$out/build.log"; exit 1; }

# An environment with the wheel and what the tests need.
with_wheel() { # NAME PYTHON REDIS
    environment "$1" "$2" "$3" 'pytest>=8' 'apscheduler>=3.10,<4' 'opentelemetry-sdk>=1.20'
    "$out/$1/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$out"/dist/*.whl
}
with_wheel newest python3 'redis>=5.0.1'
[ "${1:-}" != driver ] || exit 0

tests() { # NAME
    "$out/$1/bin/python" -c 'import platform, redis; print(f"Python {platform.python_version()}, redis-py {redis.__version__}")'
    "$out/$1/bin/python" -m pytest --quiet -p no:cacheprovider
}

"$tools/python" size.py 2526 400
"$tools/ruff" format --check --quiet .
"$tools/ruff" check --quiet .
MYPYPATH=src "$tools/mypy"
tests newest

# A fresh project: the wheel alone, its dependencies from where pip gets them, and a type checker, which a user may have.
rm -rf "$out/project"
python3 -m venv "$out/project"
"$out/project/bin/python" -m pip install --quiet --disable-pip-version-check "$out"/dist/*.whl 'mypy>=1.8'
cp examples/*.py trial.py "$out/project"
RLOCK_MODULE=$(realpath -m "${RLOCK_MODULE:-${CARGO_TARGET_DIR:-../../target}/release/librlock.so}")
export RLOCK_MODULE
(cd "$out/project" && bin/python trial.py && bin/python -m mypy --strict --no-error-summary ./*.py)

[ "${1:-}" = oldest ] || exit 0

# The first of these that works, on PATH or of pyenv; python3, if there is none.
python_of() { # VERSION...
    for version in "$@"; do
        for one in "python$version" "$(pyenv root 2>/dev/null)/versions/$version".*/bin/python; do
            "$one" -c 'import ensurepip' 2>/dev/null && echo "$one" && return
        done
    done
    echo python3
}
with_wheel oldest "$(python_of 3.10 3.11 3.12)" 'redis==5.0.1'
tests oldest
# Older than that: the package says what to do.
with_wheel too-old python3 'redis==4.6.0'
"$out/too-old/bin/python" -c 'import rlock_client' 2>&1 | grep -q 'this redis-py is too old; update it to 5.0.1 or later'
with_wheel newest-python "$(python_of 3.14 3.13 3.12)" 'redis>=5.0.1'
tests newest-python
