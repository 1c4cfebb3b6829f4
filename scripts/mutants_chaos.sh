#!/bin/sh
# Applies one mutant after the other, and shows whether `make chaos` finds it: by which rule, and after how many rounds.
#
#     scripts/mutants_chaos.sh [NAME...]    all mutants of the module, or these; remakes their rows of the table in docs/CHAOS.md
#
# ROUNDS is the number of rounds for each: 8 rounds of 10 s of the run SEED=1, first the one that found it the last
# time. On a busy machine more mutants are missed: what no client could have noticed in time is no violation.
set -eu
cd "$(dirname "$0")/.."

mutants_tool=mutants_chaos
# shellcheck source=scripts/mutant_tree.sh
. scripts/mutant_tree.sh
mutants=$(of_module "$mutants")

doc=docs/CHAOS.md
rounds=${ROUNDS:-8}
seed=${SEED:-1}
rows=$out/chaos-rows
list=$(wanted "$@")

say "building the harness"
# shellcheck disable=SC2086
${CARGO:-cargo} build --quiet --locked -p rlock-chaos
chaos=${CARGO_TARGET_DIR:-target}/debug/rlock-chaos

# The harness loads a server until clients notice: the module is optimised as in a release.
build_module() {
    export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=0
    build_or_die build --release --locked -p rlock-module
    built_module release
}

# One round; true if it found a violation. One that fails otherwise has not found it.
found() {
    code=0
    RLOCK_MODULE=$module RUST_BACKTRACE=0 timeout 150 "$chaos" --seconds 10 --seed "$seed" --round "$1" >"$log" 2>&1 || code=$?
    [ "$code" = 0 ] || [ -n "$(rules)" ] || say "round $1 with $name ends with $code: $(tail -n 1 "$log")"
    [ "$code" != 0 ] && [ -n "$(rules)" ]
}

# The rules that the last round found violated, the most frequent first.
rules() { sed -n 's/^  VIOLATION of \([a-z-]*\) .*/\1/p' "$log" | sort | uniq -c | sort -rn | awk '{ printf "%s%s", sep, $2; sep = ", " }'; }

# Why a mutant cannot be seen by clients, or hardly.
why_not() {
    case $1 in
    publish-before-write | edge-publish-before-write) echo 'the server sends both at once' ;;
    foreign-writer-no-moment) echo 'the count of readers opens its turn too' ;;
    foreign-writer-too-early) echo 'natives only wait a moment too early' ;;
    foreign-writer-behind-dead) echo 'one reader in a hundred passes a turn' ;;
    edge-arriving-key-opened) echo 'a lease of a reader would have to end while its slot is copied, and be renewed before that' ;;
    hot-denial-admits) echo 'RLOCK.HOT decides nothing for clients' ;;
    keep-streak) echo 'it leaves memory, and opens a turn too early' ;;
    esac
}

# All the rounds that count below are clean without a mutant. CONTROL=0 leaves that out, where another run has just shown it.
copy_tree
build_module
name=none
round=0
while [ "$round" -lt "${CONTROL:-$rounds}" ]; do
    if found "$round" || [ "$code" != 0 ]; then
        cat "$log" >&2
        die "round $round fails without a mutant"
    fi
    round=$((round + 1))
done

# The row of a mutant as it was found now, or else as it stands in the table.
row() {
    # shellcheck disable=SC2016 # for Markdown
    grep -F -- "| \`$1\` |" "$rows" || table_row "$doc" "$1" || printf '| `%s` | not run |\n' "$1"
}

# Remakes the table, so that what was found so far stands there however this ends.
table() {
    for each in $mutants; do row "$each"; done | remake_table "$doc" '| mutant | found by (in round) |
|---|---|'
}

# The rounds to try: the one that found it the last time comes first.
rounds_of() {
    last=$(row "$1" | sed -n 's/.* (\([0-9][0-9]*\)) |$/\1/p')
    [ -z "$last" ] || echo "$((last - 1))"
    seq 0 "$((rounds - 1))" | grep -vxe "$((${last:-0} - 1))"
}

: >"$rows"
caught=0 count=0
for name in $list; do
    use_server "$(server_of "$name")"
    mutate "$name"
    build_module
    why=$(why_not "$name")
    cell="–${why:+ $why}"
    for round in $(rounds_of "$name"); do
        if found "$round"; then
            cell="$(rules) ($((round + 1)))"
            caught=$((caught + 1))
            break
        fi
    done
    count=$((count + 1))
    # shellcheck disable=SC2016 # for Markdown
    printf '| `%s` | %s |\n' "$name" "$cell" >>"$rows"
    say "$count: $name: $cell"
    table
done
restore_tree
say "found $caught of $count"
cat "$rows"
