#!/bin/sh
# Installs what `make bench ONLY=systems` compares with, each by the name of its package: the servers into TARGET, or from the
# system where they are there already.
#
#     install.sh TARGET redis | dflockd | etcd | zookeeper | postgresql
#
# Versions stand in etcd/go.mod and zookeeper/pom.xml; integration/servers.sh knows those of Redis and Valkey.
set -eu
target=$1
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../../.." && pwd)

# Go, Java and Maven: what the machine lacks is installed.
with_tools() { sh "$top/integration/interop/tools.sh" "$@"; }

unpack() { # PACKAGE FOLDER: with what it depends on and the system lacks; to install it would start a server.
    mkdir -p "$2"
    list() { apt-get install --simulate --no-install-recommends "$1" | sed -n 's/^Inst \([^ ]*\) .*/\1/p'; }
    packages=$(list "$1") || { apt-get update -qq && packages=$(list "$1"); }
    # shellcheck disable=SC2086 # a list of names
    (cd "$2" && apt-get download -qq $packages && for package in *.deb; do dpkg-deb -x "$package" .; done)
}

mkdir -p "$target"
case $2 in
redis)
    bash "$top/integration/servers.sh" "$target/../servers" redis-8.6 valkey-9.1 >&2
    ;;
dflockd)
    # Not every network's Go registry has it.
    command -v dflockd >/dev/null || {
        echo "no dflockd on PATH; its module is github.com/mtingers/dflockd" >&2
        exit 1
    }
    ;;
etcd)
    with_tools go build -C "$here/etcd" -o "$target/etcd" go.etcd.io/etcd/server/v3
    with_tools go build -C "$here/etcd" -o "$target/etcd-worker" .
    ;;
zookeeper)
    with_tools mvn --quiet --batch-mode -f "$here/zookeeper/pom.xml" "-Dout=$target/zookeeper" compile
    ;;
postgresql)
    ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || ls "$target"/postgresql/usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 ||
        unpack postgresql "$target/postgresql" >&2
    ;;
*)
    echo "install.sh: unknown system $2" >&2
    exit 1
    ;;
esac
