#!/bin/sh
# Makes sure that .deps has a folder with these packages of PyPI, and prints its name: for PYTHONPATH.
#
# Usage: scripts/python_tools.sh NAME==VERSION...
set -eu
cd "$(dirname "$0")/.."

# Another set is another folder.
place=$PWD/.deps/python-$(printf '%s\n' "$@" | cksum | cut -d ' ' -f 1)
if [ ! -e "$place" ]; then
    echo "python tools: getting $*" >&2
    python3 -m pip --version >/dev/null 2>&1 || {
        echo "python tools: pip is missing: install python3-pip" >&2
        exit 1
    }
    rm -rf "$place.part"
    python3 -m pip install --quiet --disable-pip-version-check --target "$place.part" "$@" >&2
    mv "$place.part" "$place"
fi
echo "$place"
