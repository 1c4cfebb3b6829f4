#!/usr/bin/env bash
# Builds a server with musl in place of glibc, from the distribution's source package, and prints the server's path.
#
#   integration/musl_server.sh redis|valkey|redis-aarch64
#
# Redis is the distribution's; Valkey is that of Debian unstable. Only musl-tools is installed. For arm64 the compiler is zig's, and the
# server runs under qemu-user with the distribution's musl.
set -euo pipefail
cd "$(dirname "$0")/.."

name=${1%-*}
place=$PWD/target/servers-musl/$1
server=$place/bin/$name-server
if [ -x "$server" ]; then
    echo "$server"
    exit
fi

work=$place.new
rm -rf "$work" "$place"
mkdir -p "$work/bin" "$place/bin"

build_for_this_machine() {
    command -v musl-gcc >/dev/null || apt-get install -y -qq --no-install-recommends musl-tools
    build_with CC=musl-gcc
    cp "$work/source/src/$name-server" "$server"
}

# Linked dynamically: a static server loads no module.
build_for_arm64() {
    local tool root=$place/root
    # shellcheck source=scripts/zigbuild.sh
    . scripts/zigbuild.sh
    for tool in 'cc -target aarch64-linux-musl -dynamic' ar ranlib; do
        printf '#!/bin/sh\nexec %s %s "$@"\n' "$tools/ziglang/zig" "$tool" >"$work/bin/${tool%% *}"
    done
    chmod +x "$work"/bin/*
    build_with CC="$work/bin/cc" AR="$work/bin/ar" RANLIB="$work/bin/ranlib" uname_M=aarch64
    scripts/archive.sh "$work" download musl:arm64 arm64
    dpkg -x "$work"/musl_*.deb "$root"
    cp "$work/source/src/$name-server" "$place"
    printf '#!/bin/sh\nexec qemu-aarch64-static -L %s %s "$@"\n' "$root" "$place/$name-server" >"$server"
    chmod +x "$server"
    "$server" --version
}

build_with() { # VARIABLE...
    make -C "$work/source/src" "$@" MALLOC=libc BUILD_TLS=no USE_SYSTEMD=no "$name-server"
    readelf -dW "$work/source/src/$name-server" | grep -q 'NEEDED.*\[libc.so\]'
}

build() {
    local suite=
    [ "$name" = redis ] || suite=sid
    # shellcheck disable=SC2086 # one word or none
    scripts/archive.sh "$work" source "$name" $suite
    (cd "$work" && dpkg-source --no-check -x "$name"_*.dsc source)
    case $1 in
    *-aarch64) build_for_arm64 ;;
    *) build_for_this_machine ;;
    esac
}

# Not in a condition, in which bash ignores a failure: a process of its own.
(build "$1") >"$work/log" 2>&1 &
wait $! || {
    tail -n 20 "$work/log" >&2
    rm -rf "$place"
    echo "musl server: $1 was not built" >&2
    exit 1
}
rm -rf "$work"
echo "$server"
