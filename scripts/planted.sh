#!/bin/sh
# Plants one bug after the other into rlock-core, and shows which proof finds it: the model, the unit tests,
# the random histories against the oracle, or the random queues against a plain list. `make planted` calls it.
# A bug that nothing finds is a failure: proof is missing there.
set -eu
cd "$(dirname "$0")/.."

out=${CARGO_TARGET_DIR:-$PWD/target}/planted
mkdir -p "$out"
cargo() { CARGO_TARGET_DIR=$out ${CARGO:-cargo} "$@"; }

cargo build --quiet --release --locked -p rlock-model --features planted-bugs
cargo test --release --locked --no-run -p rlock-core --features planted-bugs 2>"$out/built" || { cat "$out/built" >&2; exit 1; }
programs=$(sed -n 's/.*Executable.*(\(.*\))$/\1/p' "$out/built")
[ -n "$programs" ] || { echo "planted: cargo built no tests" >&2; exit 1; }

# Run with a bug planted; true if it was found. A failing history is of no use to anybody later. A run that
# does not end has not found it.
found() {
    code=0
    PROPTEST_DISABLE_FAILURE_PERSISTENCE=1 RLOCK_PLANTED_BUG=$bug timeout 300 "$@" >"$out/log" 2>&1 || code=$?
    [ "$code" != 0 ] && [ "$code" != 124 ]
}

# Without a bug everything passes, or finding one means nothing.
bug=none
for program in "$out/release/rlock-model --deeper=-2" $programs; do
    # shellcheck disable=SC2086
    if found $program; then
        cat "$out/log" >&2
        echo "planted: $program fails without a bug" >&2
        exit 1
    fi
done

missed=''
# Names have no blanks.
# shellcheck disable=SC2013
for bug in $(sed -n 's/^ *(Self::[A-Za-z]*, "\([a-z-]*\)"),$/\1/p' crates/rlock-core/src/bugs.rs); do
    by=''
    found "$out/release/rlock-model" --deeper=-2 && by="$by model"
    for program in $programs; do
        # Tests read files by paths from their package's folder.
        if (cd crates/rlock-core && found "$program"); then
            name=$(basename "$program")
            by="$by ${name%-*}"
        fi
    done
    printf '%-24s %s\n' "$bug" "${by:- NOT FOUND}"
    [ -n "$by" ] || missed="$missed $bug"
done
[ -z "$missed" ] || { echo "planted: nothing finds$missed" >&2; exit 1; }
