#!/bin/sh
# Checks the manifests and the roots of all crates; `make lint` calls it. A crate that is published has what a registry shows
# of it, and holds all of its files and no tests. Every crate forbids unsafe code, or stands in the list below.
set -eu
cd "$(dirname "$0")/.."

published='rlock-client rlock-cli'
# The root of the crate, and where its unsafe code is. This list only gets shorter.
unsafe='
src/lib.rs                          src/ffi speaks to the server
crates/rlock-testkit/src/lib.rs     process.rs: what runs between fork and exec
crates/rlock-testclock/src/lib.rs   takes the place of functions of C
crates/rlock-testmodule/src/lib.rs  a module of the server
'
failed=0
fault() {
    echo "crates: $*" >&2
    failed=1
}

for crate in $published; do
    manifest=crates/$crate/Cargo.toml
    # scripts/publish.sh adds the repository.
    for field in description license readme keywords categories include; do
        grep -qE "^$field(\.workspace)? *=" "$manifest" || fault "$manifest: no $field"
    done
    # CARGO may hold arguments, such as `cargo +stable`.
    # shellcheck disable=SC2086
    files=$(${CARGO:-cargo} package --quiet --locked --allow-dirty --list -p "$crate" 2>/dev/null)
    for file in LICENSE README.md src; do
        printf '%s\n' "$files" | grep -q "^$file" || fault "$crate: its package lacks $file"
    done
    if printf '%s\n' "$files" | grep -q '^tests/'; then fault "$crate: its package has tests"; fi
done
for manifest in Cargo.toml crates/*/Cargo.toml; do
    name=$(sed -n 's/^name = "\(.*\)"/\1/p' "$manifest" | head -n 1)
    case " $published " in *" $name "*) continue ;; esac
    grep -q '^publish = false' "$manifest" || fault "$manifest: neither published nor 'publish = false'"
done

for root in src/lib.rs crates/*/src/lib.rs crates/*/src/main.rs benches/src/main.rs clients/conformance/src/lib.rs \
    clients/conformance/src/bin/*.rs integration/*/src/main.rs model/src/main.rs; do
    [ -e "$root" ] || continue
    listed=$(printf '%s' "$unsafe" | grep -c "^$root " || true)
    forbids=$(grep -c '^#!\[forbid(unsafe_code)\]' "$root" || true)
    case $listed$forbids in
    00) fault "$root: add #![forbid(unsafe_code)]" ;;
    11) fault "$root: remove it from the list of crates with unsafe code" ;;
    esac
done
exit "$failed"
