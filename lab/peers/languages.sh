#!/bin/sh
# Installs what `make bench ONLY=clients` measures: the clients of this repository and the libraries beside them, whose versions
# stand in node/package-lock.json, python/requirements.txt and go/go.mod. java.sh builds those for Java.
#
#     languages.sh TARGET    the environment for Python and the program in Go are made in this folder, whose path is absolute
set -eu
target=$1
cd "$(dirname "$0")"
sh ../../clients/javascript/check.sh driver
(cd node && npm ci --no-audit --no-fund --loglevel=error)
sh ../../clients/python/check.sh driver
wheels=$(realpath -m "${CARGO_TARGET_DIR:-../../target}")/clients/python/dist
python3 -m venv --clear "$target/python"
"$target/python/bin/python" -m pip install --quiet --disable-pip-version-check -r python/requirements.txt
"$target/python/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps "$wheels"/*.whl
mkdir -p "$target/go"
(cd go && go build -o "$target/go/peers" .)
