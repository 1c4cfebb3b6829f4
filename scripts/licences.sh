#!/bin/sh
# Prints the licences of the libraries that are compiled into the module and the command: whoever gets a copy
# has to get them too.
set -eu
cd "$(dirname "$0")/.."

sources=${CARGO_HOME:-$HOME/.cargo}/registry/src
# Unquoted: CARGO may hold arguments, such as `cargo +stable`.
# shellcheck disable=SC2086
crates=$(${CARGO:-cargo} tree --locked -p rlock-module -p rlock-cli -e normal,no-proc-macro --prefix none --no-dedupe \
    --format '{p}|{l}')

echo "The module and the command rlock contain these libraries, each under the licence named."
# Those with a path are our own.
echo "$crates" | grep -v -e ' (/' -e '^$' | sort -u | while IFS='|' read -r crate licence; do
    printf '\n===== %s: %s =====\n' "$crate" "$licence"
    find "$sources"/*/"${crate%% v*}-${crate##* v}" -maxdepth 2 -type f \
        \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'notice*' -o -path '*/LICENSES/*' \) \
        -exec printf '\n--- %s ---\n\n' {} \; -exec cat {} \; | sed "s|^--- $sources/[^/]*/|--- |"
done
