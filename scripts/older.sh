#!/bin/sh
# Builds the module of an older commit, and shows that a server goes on with it and back. `make older` calls it.
set -eu
cd "$(dirname "$0")/.."

# The last one before there were READ, WRITE, FAIR and PERMITS.
commit=9aae7f2
if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then
    echo "older: this clone has no commit $commit: git fetch --unshallow" >&2
    exit 1
fi
out=${CARGO_TARGET_DIR:-target}/older
mkdir -p "$out/source"
out=$(cd "$out" && pwd)
git archive "$commit" | tar -x -C "$out/source"

# Unquoted: CARGO may hold arguments, such as `cargo +stable`.
echo "older: building the module of $commit" >&2
# shellcheck disable=SC2086
(cd "$out/source" && CARGO_TARGET_DIR=$out ${CARGO:-cargo} build --quiet --release --locked -p rlock-module)
RLOCK_OLDER_MODULE=$out/release/librlock.so
[ -e "$RLOCK_OLDER_MODULE" ] || RLOCK_OLDER_MODULE=$out/release/librlock.dylib
export RLOCK_OLDER_MODULE
# shellcheck disable=SC2086
exec ${CARGO:-cargo} test --locked --test older -- --include-ignored
