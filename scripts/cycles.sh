#!/bin/sh
# Fails if modules of the core or of the module use each other in a circle; `make lint` calls it. Only the modules at the top
# count: a file and the folder of its name are one. Tests may use anything.
set -eu
cd "$(dirname "$0")/.."

# The lines `module other`, for each other module that a module names.
uses() {
    find "$1" -name '*.rs' ! -name '*tests.rs' ! -path '*/tests/*' | sort | while read -r file; do
        module=${file#"$1"/}
        module=${module%%/*}
        module=${module%.rs}
        [ "$module" != lib ] || continue
        sed '/^#\[cfg(test)\]/,$d' "$file" | tr '\n' ' ' | grep -oE 'crate::(\{[^}]*\}|[a-z_]+)' | sed 's/^crate:://' |
            tr -c 'a-z_\n' '\n' | sort -u | while read -r other; do
            if [ -n "$other" ] && [ "$other" != "$module" ] && { [ -e "$1/$other.rs" ] || [ -d "$1/$other" ]; }; then
                echo "$module $other"
            fi
        done
    done
}

failed=0
for source in crates/rlock-core/src src; do
    edges=$(uses "$source")
    # A list without a single edge would mean that this script is wrong.
    [ -n "$edges" ] || { echo "cycles: nothing is found in $source" >&2; exit 1; }
    if ! loop=$(printf '%s\n' "$edges" | tsort 2>&1 >/dev/null); then
        printf 'cycles: modules of %s use each other in a circle:\n%s\n' "$source" "$loop" >&2
        failed=1
    fi
done
exit "$failed"
