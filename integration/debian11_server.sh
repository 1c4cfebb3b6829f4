#!/usr/bin/env bash
# Builds the distribution's Redis in Debian 11, whose glibc is 2.31, and prints the path of a program that runs it there. As root, on Debian.
# Nothing is installed: Debian 11 is a folder, which takes the place of /usr for these programs alone.
#
#   integration/debian11_server.sh
set -euo pipefail
cd "$(dirname "$0")/.."

place=$PWD/target/servers-debian11
server=$place/bin/redis-server
if [ -x "$server" ]; then
    echo "$server"
    exit
fi

work=$place.new
rm -rf "$work" "$place"
mkdir -p "$work/tools" "$place/bin"

build() {
    scripts/archive.sh "$work" download mmdebstrap "$(dpkg --print-architecture)"
    dpkg -x "$work"/mmdebstrap_*.deb "$work/tools"
    # With the C library below /usr, as here.
    "$work/tools/usr/bin/mmdebstrap" --variant=minbase --include=gcc,libc6-dev,make \
        --setup-hook="$work/tools/usr/share/mmdebstrap/hooks/merged-usr/setup00.sh" bullseye "$place/root" \
        "$(cut -d ' ' -f 2 "$work/sources.list")"
    # shellcheck disable=SC2016 # of that shell
    printf '#!/bin/sh\nexec unshare --mount sh -c '\''mount --bind %s/usr /usr && exec "$@"'\'' sh "$@"\n' "$place/root" >"$place/bin/inside"
    chmod +x "$place/bin/inside"
    rm -f "$work"/*.deb
    scripts/archive.sh "$work" source redis
    (cd "$work" && dpkg-source --no-check -x redis_*.dsc source)
    "$place/bin/inside" make -C "$work/source/src" CC=gcc MALLOC=libc BUILD_TLS=no USE_SYSTEMD=no redis-server
    cp "$work/source/src/redis-server" "$place"
    printf '#!/bin/sh\nexec %s %s "$@"\n' "$place/bin/inside" "$place/redis-server" >"$server"
    chmod +x "$server"
    "$server" --version
}

# Not in a condition, in which bash ignores a failure: a process of its own.
(build) >"$work/log" 2>&1 &
wait $! || {
    tail -n 20 "$work/log" >&2
    rm -rf "$place"
    echo "Debian 11: its server was not built" >&2
    exit 1
}
rm -rf "$work"
echo "$server"
