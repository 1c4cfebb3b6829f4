#!/bin/sh
# Checks the manifests of all crates; `make lint` calls it. A crate that is published has what a registry shows of it, and holds
# all of its files and no tests. The compiler refuses unsafe code but in src/ffi and in what tests load into servers.
set -eu
cd "$(dirname "$0")/.."

published='rlock-machine rlock-links rlock-client rlock-multi rlock-cli'
# The only files that allow unsafe code: for src/ffi, what it defines in the module's root, and what tests load into servers.
unsafe='src/ffi/load.rs src/lib.rs tests/fixtures/bare.rs tests/fixtures/clock.rs tests/fixtures/reacts.rs '
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

# A workspace of its own beside this one says by itself that unsafe code is forbidden. Where no Rust is, the manifest is a template.
for manifest in $(git ls-files '*Cargo.toml'); do
    [ -n "$(git ls-files "${manifest%Cargo.toml}*.rs")" ] || continue
    tr '\n' ' ' <"$manifest" | grep -qE '\[lints\] workspace = true|unsafe_code = "forbid"' ||
        fault "$manifest: neither the workspace's lints nor 'unsafe_code = \"forbid\"'"
done
grep -q '^unsafe_code = "deny"' Cargo.toml || fault "Cargo.toml: no 'unsafe_code = \"deny\"' for the module"
named=$(git grep -lw unsafe_code -- '*.rs' | tr '\n' ' ')
[ "$named" = "$unsafe" ] || fault "unsafe code belongs in src/ffi. These say otherwise: $named, instead of $unsafe"
exit "$failed"
