#!/usr/bin/env bash
# Runs tests on a server that aligns its blocks to a word only, with an unwinder that takes the block of a panic as aligned to
# 16; `make alloc` calls it. Systems with musl have both. Here the distribution's Redis is built from its source package with the C
# library's malloc and without malloc_usable_size, and LLVM's unwinder is preloaded: that of GCC takes any block. Both stay
# under target/servers; `make clean` removes them.
set -euo pipefail
cd "$(dirname "$0")/.."

place=$PWD/target/servers/word-aligned
server=$place/bin/redis-server

die() {
    echo "alloc: $*" >&2
    exit 1
}

# LLVM's, of whichever version the distribution has.
get_unwinder() { # folder
    local package
    package=$(apt-cache search --names-only '^libunwind-[0-9]+$' | cut -d ' ' -f 1 | sort -V | tail -n 1)
    [ -n "$package" ] || die "this distribution has no package libunwind-N (run apt-get update)"
    mkdir -p "$1/unwinder"
    (cd "$1/unwinder" && apt-get -qq -o APT::Sandbox::User=root download "$package" && dpkg -x "$package"_*.deb .)
    cp -L "$1"/unwinder/usr/lib/*/libunwind.so.1 "$1/libunwind.so.1"
}

build() {
    local work=$place.new
    rm -rf "$work"
    mkdir -p "$work/source"
    scripts/archive.sh "$work" source redis
    get_unwinder "$work"
    # Upstream's own: Debian's patches link jemalloc and other libraries of the system.
    tar -xf "$work"/redis_*.orig.tar.* -C "$work/source" --strip-components 1
    make -C "$work/source/src" -j "$(nproc)" redis-server \
        MALLOC=libc REDIS_CFLAGS=-DNO_MALLOC_USABLE_SIZE BUILD_TLS=no USE_SYSTEMD=no >"$work/build.log" 2>&1 ||
        { tail -n 20 "$work/build.log" >&2; die "the server was not built"; }
    if nm "$work/source/src/redis-server" | grep -q malloc_usable_size; then
        die "this Redis asks for the sizes of blocks nevertheless"
    fi
    rm -rf "$place"
    mkdir -p "$place/bin"
    mv "$work/source/src/redis-server" "$work/libunwind.so.1" "$place"
    cat >"$server" <<'EOF'
#!/bin/sh
place=$(dirname "$(dirname "$(readlink -f -- "$0")")") || exit 127
LD_PRELOAD=$place/libunwind.so.1${LD_PRELOAD:+:$LD_PRELOAD} exec "$place/redis-server" "$@"
EOF
    chmod 755 "$server"
    rm -rf "$work"
}

[ -x "$server" ] || { echo "alloc: building a server" >&2; build; }
"$server" --version

# Unquoted: CARGO may hold arguments, such as `cargo +stable`.
# shellcheck disable=SC2086
RLOCK_TEST_SERVER=$server ${CARGO:-cargo} test --locked --test lifecycle --quiet
