#!/bin/sh
# Checks the Python client: check.sh [oldest | driver]
#
# Builds the wheel, lints, checks types, and tests the wheel in a fresh environment against a server with the module; with
# `oldest`, also with the oldest redis-py. `driver` only makes the environment of the conformance suite's driver program.
# The module is target/release/librlock.so, the server $REDIS_SERVER or redis-server.
set -eu
cd "$(dirname "$0")"
out=$(realpath -m "${CARGO_TARGET_DIR:-../../target}")/clients/python
mkdir -p "$out"
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
rm -rf "$out/dist"
"$tools/python" -m build --no-isolation --wheel --outdir "$out/dist" . >"$out/build.log" 2>&1 || { cat "$out/build.log"; exit 1; }

# An environment with the wheel, as users have it.
with_wheel() { # NAME REDIS
    environment "$1" "$2" 'pytest>=8'
    "$out/$1/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$out"/dist/*.whl
}
with_wheel newest 'redis>=5.0.1'
[ "${1:-}" != driver ] || exit 0

"$tools/ruff" format --check --quiet .
"$tools/ruff" check --quiet .
MYPYPATH=src "$tools/mypy"
"$out/newest/bin/python" -m pytest --quiet -p no:cacheprovider
if [ "${1:-}" = oldest ]; then
    with_wheel oldest 'redis==5.0.1'
    "$out/oldest/bin/python" -m pytest --quiet -p no:cacheprovider
fi
