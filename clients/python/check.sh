#!/bin/sh
# Checks the Python client: check.sh [oldest]
#
# Lints, types, tests against a server with the module, then builds the wheel and tries it in a fresh environment; with
# `oldest`, also with the oldest redis-py. The module is target/release/librlock.so, the server $REDIS_SERVER or redis-server.
set -eu
cd "$(dirname "$0")"
out=$(realpath -m "${CARGO_TARGET_DIR:-../../target}")/clients/python
python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "python3 3.10 or later is missing" >&2; exit 1; }
python3 -c 'import ensurepip' || { echo "python3-venv is missing" >&2; exit 1; }

# An environment with these packages, made again when they change.
environment() { # NAME PACKAGE...
    name=$out/$1
    shift
    [ "$(cat "$name/made" 2>/dev/null)" = "$*" ] && return
    python3 -m venv --clear "$name"
    "$name/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
    echo "$*" >"$name/made"
}

environment tools 'redis>=5.0.1' 'hatchling>=1.21' 'build>=1.0' 'mypy>=1.8' 'pytest>=8' 'ruff>=0.6'
tools=$out/tools/bin
"$tools/ruff" format --check --quiet .
"$tools/ruff" check --quiet .
MYPYPATH=src "$tools/mypy"

rm -rf "$out/dist"
"$tools/python" -m build --no-isolation --wheel --outdir "$out/dist" . >"$out/build.log" 2>&1 || { cat "$out/build.log"; exit 1; }

# The tests use the wheel, as users do.
test_with() { # NAME REDIS
    environment "$1" "$2" 'pytest>=8'
    "$out/$1/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$out"/dist/*.whl
    "$out/$1/bin/python" -m pytest --quiet -p no:cacheprovider
}
test_with newest 'redis>=5.0.1'
[ "${1:-}" != oldest ] || test_with oldest 'redis==5.0.1'
