#!/bin/sh
# Applies one mutant after the other, and shows whether `make chaos` finds it: by which rule, and after how many rounds.
#
#     scripts/mutants_chaos.sh [NAME...]    all mutants of the module, or these; stores them in mutants/chaos.tsv, and remakes the list in
#                                           docs/CHAOS.md: those that it does not find
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
stored=mutants/chaos.tsv
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
    keep-streak) echo 'the count stays in memory, and opens a yield window too early' ;;
    *) echo 'other tests find it' ;;
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

# A mutant, the rules that found it and the round, or `-` and the reason: as it was found now, or else as it is stored.
row() {
    awk -F '\t' -v name="$1" '$1 == name { print; found = 1; exit } END { exit !found }' "$rows" "$stored" ||
        printf '%s\t-\tnot run\n' "$1"
}

# Stores the rows and remakes the list, so that what was found so far stands there however this ends.
store() {
    for each in $mutants; do row "$each"; done >"$out/chaos"
    cmp -s "$out/chaos" "$stored" || cp "$out/chaos" "$stored"
    numbers=$(awk -F '\t' '$3 ~ /^[0-9]/ { found++ } END { printf "%d of %d", found, NR }' "$stored")
    awk -F '\t' '
        $3 !~ /^[0-9]/ { if (!($3 in names)) reasons[++count] = $3; names[$3] = names[$3] sep[$3] "`" $1 "`"; sep[$3] = ", " }
        END { for (n = 1; n <= count; n++) printf "- %s: %s\n", reasons[n], names[reasons[n]] }' "$stored" |
        remake_list "$doc" "Found: $numbers. The others, and why:
"
}

# The rounds to try: the one that found it the last time comes first.
rounds_of() {
    last=$(row "$1" | awk -F '\t' '$3 ~ /^[0-9]/ { print $3 }')
    [ -z "$last" ] || echo "$((last - 1))"
    seq 0 "$((rounds - 1))" | grep -vxe "$((${last:-0} - 1))"
}

: >"$rows"
caught=0 count=0
for name in $list; do
    use_server "$(server_of "$name")"
    mutate "$name"
    build_module
    cell=$(printf -- '-\t%s' "$(why_not "$name")")
    for round in $(rounds_of "$name"); do
        if found "$round"; then
            cell=$(printf '%s\t%d' "$(rules)" "$((round + 1))")
            caught=$((caught + 1))
            break
        fi
    done
    count=$((count + 1))
    printf '%s\t%s\n' "$name" "$cell" >>"$rows"
    say "$count: $name: $cell"
    store
done
restore_tree
say "found $caught of $count"
cat "$rows"
