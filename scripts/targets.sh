#!/usr/bin/env bash
# Builds the module for each architecture and C library of a release, and the command for each architecture, without need of a
# library; `make targets` calls it. Linker and C libraries are zig's, so this machine's do not matter.
#
#   scripts/targets.sh [TARGET]...          these, or all
#   scripts/targets.sh --again TARGET...    then their modules once more in an empty folder: the same bytes
#
# Their files are in target/targets/TARGET, checked for what they need of a machine.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=scripts/zigbuild.sh
. scripts/zigbuild.sh
again=
if [ "${1:-}" = --again ]; then
    again=$target/again
    shift
fi
targets=("$@")
[ $# != 0 ] || targets=({x86_64,aarch64}-unknown-linux-{gnu,musl})

# Fails unless FILE is for the architecture of TARGET, needs of its libraries only the C library, and no newer one than promised.
check() { # TARGET FILE
    local file=$target/targets/$1/$2 machine=X86-64 needed versions
    [[ $1 != aarch64-* ]] || machine=AArch64
    readelf -hW "$file" | grep -q "Machine:.*$machine" || die "$file is not for $machine"
    needed=$(readelf -dW "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort | xargs)
    versions=$(readelf -VW "$file" | sed -n 's/.*Name: GLIBC_\([0-9.]*\) .*/\1/p' | sort -uV | xargs)
    case $1/$2 in
    */rlock)
        if readelf -lW "$file" | grep -q INTERP; then die "$file needs a loader"; fi
        [ -z "$needed" ] || die "$file needs $needed"
        ;;
    *-musl/*) [ "$needed" = libc.so ] || die "$file needs $needed, not libc.so alone" ;;
    *)
        [[ " $needed " =~ ^(\ (libc|libm|libdl|libpthread|librt|ld-linux-x86-64|ld-linux-aarch64)\.so\.[0-9])+\ $ ]] || die "$file needs $needed"
        [ "$(printf '%s\n%s\n' "${versions##* }" $glibc | sort -V | tail -n 1)" = $glibc ] ||
            die "$file needs glibc ${versions##* }, more than $glibc"
        ;;
    esac
    [ "$2" = rlock ] || readelf --dyn-syms -W "$file" | grep -q 'GLOBAL.* RedisModule_OnLoad$' || die "$file has no RedisModule_OnLoad"
    say "$1/$2: $(stat -c %s "$file") bytes, needs ${needed:-no library}${versions:+, glibc ${versions##* }}"
}

# A module's bytes depend neither on its folder nor on what was built there earlier.
build_again() { # TARGET
    local first=$target/targets/$1/librlock.so target=$again
    rm -rf "$target"
    CARGO_TARGET_DIR=$target build "$1" librlock.so "$1" --release -p rlock-module
    cmp "$first" "$target/targets/$1/librlock.so" || die "$1/librlock.so has other bytes when it is built again"
    say "$1/librlock.so has the same bytes when it is built again, sha256 $(sha256sum "$first" | cut -d ' ' -f 1)"
    rm -rf "$target"
}

mkdir -p "$target/targets"
# Of what is linked into them beside crates.
(cd "$tools/ziglang" && tail -n +1 LICENSE lib/libunwind/LICENSE.TXT lib/libc/musl/COPYRIGHT) >"$target/targets/licences"

for name in "${targets[@]}"; do
    build "$name" librlock.so "$name" --release -p rlock-module
    check "$name" librlock.so
    [ -z "$again" ] || build_again "$name"
    [[ $name == *-musl ]] || continue
    # In place of the flags in .cargo/config.toml, which are the module's.
    RUSTFLAGS='-C target-feature=+crt-static' build "$name" rlock "$name" --release -p rlock-cli
    check "$name" rlock
done
