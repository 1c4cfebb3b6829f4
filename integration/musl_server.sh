#!/usr/bin/env bash
# Builds the distribution's Redis with musl in place of glibc, from its source package, and prints the server's path. Only
# musl-tools is installed.
#
#   integration/musl_server.sh
set -euo pipefail
cd "$(dirname "$0")/.."

place=$PWD/target/servers-musl
server=$place/bin/redis-server
if [ -x "$server" ]; then
    echo "$server"
    exit
fi

die() {
    printf 'musl server: %s\n' "$*" >&2
    exit 1
}

work=$place.new
rm -rf "$work" "$place"
mkdir -p "$work"
build() {
    scripts/redis_source.sh "$work" &&
        (cd "$work" && dpkg-source --no-check -x redis_*.dsc source) &&
        make -C "$work/source/deps" CC=musl-gcc hiredis linenoise lua hdr_histogram &&
        make -C "$work/source/src" CC=musl-gcc MALLOC=libc BUILD_TLS=no USE_SYSTEMD=no redis-server redis-cli &&
        readelf -dW "$work/source/src/redis-server" | grep -q 'NEEDED.*\[libc.so\]'
}
command -v musl-gcc >/dev/null || apt-get install -y -qq --no-install-recommends musl-tools >/dev/null || die "musl-gcc is missing: apt-get install musl-tools"
build >"$work/log" 2>&1 || {
    tail -n 20 "$work/log" >&2
    die "the server was not built"
}
mkdir -p "$place/bin"
cp "$work/source/src/redis-server" "$work/source/src/redis-cli" "$place/bin/"
rm -rf "$work"
echo "$server"
