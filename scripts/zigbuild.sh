# Sourced by targets.sh and target_tests.sh: builds for other targets, with zig's linker and C libraries in place of this machine's.
# shellcheck shell=bash

# That of RHEL 7; RHEL 8, Debian 10 and Ubuntu 18.04 have newer ones.
glibc=2.17

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export CARGO_TARGET_DIR=$target
tools=$(scripts/python_tools.sh cargo-zigbuild==0.24.1 ziglang==0.17.1)
export PATH=$tools/bin:$PATH CARGO_ZIGBUILD_ZIG_PATH=$tools/ziglang/zig CARGO_PROFILE_RELEASE_STRIP=true
# Headers of this machine: zig has its own.
unset BINDGEN_EXTRA_CLANG_ARGS

say() { printf 'targets: %4s s  %s\n' "$SECONDS" "$*"; }
die() {
    printf 'targets: %s\n' "$*" >&2
    exit 1
}

# Builds FILE with these arguments of cargo, and copies it to PLACE.
build() { # TARGET FILE PLACE ARGUMENT...
    local name=$1 file=$2 place=$3 folder=debug
    shift 3
    [[ " $* " != *' --release '* ]] || folder=release
    if [ ! -d "$(rustc --print target-libdir --target "$name")" ]; then
        rustup --quiet target add "$name" || die "no standard library of Rust for $name: install rustup (https://rustup.rs)"
    fi
    say "building $place/$file"
    set -- --target "$name$([[ $name != *-gnu ]] || echo ".$glibc")" "$@"
    # In a folder that zig is not below: to one above it zig gives relative paths, which bindgen does not find. CARGO may hold
    # arguments, such as `cargo +stable`.
    # shellcheck disable=SC2086
    (cd scripts && ${CARGO:-cargo} zigbuild --quiet --locked "$@")
    install -D -m 0755 "$target/$name/$folder/$file" "$target/targets/$place/$file"
}
