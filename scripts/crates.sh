#!/bin/sh
# Checks the manifests and the roots of all crates; `make lint` calls it. A crate that is published has what a registry shows
# of it, and holds all of its files and no tests. Every program and library outside the module's package forbids unsafe code.
# In that package, only src/ffi and what tests load into servers have any.
set -eu
cd "$(dirname "$0")/.."

published='rlock-client rlock-multi rlock-cli'
# The only folders with unsafe code, and why. This list only gets shorter.
unsafe='
src/ffi/           speaks to the server
tests/fixtures/    take the place of functions of C, or pass on the very string that the server passed
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

may_be_unsafe() { printf '%s' "$unsafe" | awk -v file="$1" '$1 != "" && index(file, $1) == 1 { found = 1 } END { exit !found }'; }

# Whether a file belongs to the module's package: no folder between has a manifest.
of_the_module() {
    folder=$1
    while [ "$folder" != "${folder%/*}" ]; do
        folder=${folder%/*}
        [ ! -e "$folder/Cargo.toml" ] || return 1
    done
}

files_named() { find . \( -name target -o -name .deps -o -name .git -o -name node_modules \) -prune -o -name "$1" -print; }

# Each library, program, test, benchmark, example and build script has a root. Fuzzing and some benchmarks are outside the workspace.
# Where no Rust is, the manifest is a template.
roots=$(for manifest in $(files_named Cargo.toml); do
    [ -n "$(find "${manifest%/*}" -name target -prune -o -name '*.rs' -print | head -n 1)" ] || continue
    # shellcheck disable=SC2086
    ${CARGO:-cargo} metadata --no-deps --format-version=1 --manifest-path "$manifest" || echo '"src_path":"?"'
done | grep -o '"src_path":"[^"]*"' | sed "s|^\"src_path\":\"||; s|^$PWD/||; s|\"\$||" | sort -u)
for root in $roots; do
    if may_be_unsafe "$root" || of_the_module "$root"; then continue; fi
    grep -qs '^#!\[forbid(unsafe_code)\]' "$root" || fault "$root: add #![forbid(unsafe_code)]"
done
for file in $(files_named '*.rs'); do
    file=${file#./}
    if may_be_unsafe "$file" || ! of_the_module "$file"; then continue; fi
    if sed 's|//.*||' "$file" | grep -qw unsafe; then fault "$file: unsafe code belongs in src/ffi"; fi
done
for folder in $(printf '%s' "$unsafe" | awk '{ print $1 }'); do
    lines=$(find "$folder" -name '*.rs' -exec sed 's|//.*||' {} + | grep -cw unsafe || true)
    [ "$lines" != 0 ] || fault "$folder: remove it from the list of folders with unsafe code"
done
exit "$failed"
