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
for contender in rlock redsync rueidislock; do
    (cd go && go build -ldflags "-s -w" -o "$target/go/$contender" main.go "of$contender.go")
done
(cd go && go build -ldflags "-s -w" -o "$target/go/nothing" main.go)

# What each library installs with its driver, in bytes.
fresh=$target/installed
bytes() { # NAME FILE...
    name=$1
    shift
    echo "$name $(du -sbc "$@" | awk 'END { print $1 }')"
}
node() { # NAME PACKAGE...
    mkdir -p "$fresh/$1"
    echo '{}' >"$fresh/$1/package.json"
    name=$1
    shift
    npm install --prefix "$fresh/$name" --no-audit --no-fund --loglevel=error --prefer-offline "$@" >&2
    bytes "$name" "$fresh/$name/node_modules"
}
python() { # NAME PACKAGE...
    "$target/python/bin/python" -m pip install --quiet --disable-pip-version-check --target "$fresh/$1" "$2" "$3"
    bytes "$1" "$fresh/$1"
}
go_bytes() { # NAME PROGRAM
    echo "$1 $(($(stat -c %s "$target/go/$2") - $(stat -c %s "$target/go/nothing")))"
}
version() { sed -n "s/.*\"$1\": \"\(.*\)\".*/$1@\1/p" node/package.json; }
rm -rf "$fresh"
mkdir -p "$fresh"
packed=$(npm pack ../../clients/javascript --ignore-scripts --silent --pack-destination "$fresh")
{
    python python "$(cat python/requirements.txt)" "$(ls "$wheels"/*.whl)"
    python redis-py "$(cat python/requirements.txt)" "$(cat python/requirements.txt)"
    node javascript "$(version ioredis)" "$fresh/$packed"
    for library in redlock redlock-universal redis-semaphore; do
        node "$library" "$(version ioredis)" "$(version "$library")"
    done
    go_bytes go rlock
    go_bytes redsync redsync
    go_bytes rueidislock rueidislock
    bytes java "$target/java/rlock/lib" "$target/java/rlock/classes"
    bytes redisson "$(find "$target/java" -path '*/redisson-*/lib' -prune | sort -V | tail -n 1)"
} >"$target/installed.txt"
