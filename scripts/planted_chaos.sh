#!/bin/sh
# Plants one bug after the other, and shows whether `make chaos` finds it: by which rule, and after how many rounds.
#
#     scripts/planted_chaos.sh [BUG...]    all bugs, or these; remakes their rows of the table in docs/CHAOS.md
#
# ROUNDS says for how long each is looked for: 8 rounds of 10 s of the run SEED=1, first the one that found it the last
# time. On a busy machine more bugs are missed: what nobody could have noticed in time is no violation.
set -eu
cd "$(dirname "$0")/.."

doc=docs/CHAOS.md
rounds=${ROUNDS:-8}
seed=${SEED:-1}
mkdir -p "${CARGO_TARGET_DIR:-target}/planted"
out=$(cd "${CARGO_TARGET_DIR:-target}/planted" && pwd)
log=$out/chaos-$$.log
rows=$out/chaos-rows-$$

say() { printf 'planted: %s\n' "$*" >&2; }
die() {
    say "$@"
    exit 1
}

bugs=$(sed -n 's/^ *(Self::[A-Za-z]*, "\([a-z-]*\)"),$/\1/p' crates/rlock-core/src/bugs.rs)
[ -n "$bugs" ] || die "there are no bugs in crates/rlock-core/src/bugs.rs"
wanted=${*:-$bugs}

say "building the module with bugs to plant, and the harness"
# CARGO may hold arguments, such as `cargo +stable`.
# shellcheck disable=SC2086
CARGO_TARGET_DIR=$out CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
    CARGO_PROFILE_RELEASE_DEBUG=0 ${CARGO:-cargo} build --quiet --release --locked -p rlock-module --features planted-bugs
# shellcheck disable=SC2086
${CARGO:-cargo} build --quiet --locked -p rlock-chaos
module=$out/release/librlock.so
[ -e "$module" ] || module=$out/release/librlock.dylib
chaos=${CARGO_TARGET_DIR:-target}/debug/rlock-chaos

# One round; true if it found a violation. One that fails otherwise has not found it.
found() {
    code=0
    RLOCK_PLANTED_BUG=$bug RLOCK_MODULE=$module RUST_BACKTRACE=0 timeout 150 "$chaos" --seconds 10 --seed "$seed" --round "$1" >"$log" 2>&1 || code=$?
    [ "$code" = 0 ] || [ -n "$(rules)" ] || say "round $1 with $bug ends with $code: $(tail -n 1 "$log")"
    [ "$code" != 0 ] && [ -n "$(rules)" ]
}

# The rules that the last round found violated, the most frequent first.
rules() { sed -n 's/^  VIOLATION of \([a-z-]*\) .*/\1/p' "$log" | sort | uniq -c | sort -rn | awk '{ printf "%s%s", sep, $2; sep = ", " }'; }

# Why a bug cannot be seen by clients, or hardly.
why_not() {
    case $1 in
    publish-before-write | edge-publish-before-write) echo 'the server sends both at once: no client sees what came first' ;;
    foreign-writer-no-moment) echo 'its turn comes by the count of those who read all the same' ;;
    foreign-writer-too-early) echo 'natives are kept waiting a moment too early, which excludes nobody wrongly' ;;
    foreign-writer-behind-dead) echo 'one reader more comes before a turn, of a hundred' ;;
    keep-streak) echo 'what is left in memory, and a turn that comes too early, excludes nobody wrongly' ;;
    esac
}

# All the rounds that count below are clean without a bug. CONTROL=0 leaves that out, where another run has just shown it.
bug=none
round=0
while [ "$round" -lt "${CONTROL:-$rounds}" ]; do
    if found "$round" || [ "$code" != 0 ]; then
        cat "$log" >&2
        die "round $round fails without a bug"
    fi
    round=$((round + 1))
done

# The row of a bug as it was found now, or else as it stands in the table.
row() {
    mark="| \`$1\` |"
    grep -hF -- "$mark" "$rows" || sed -n '/^<!-- planted -->$/,/^<!-- end of planted -->$/p' "$doc" | grep -F -- "$mark" ||
        printf '%s not run | |\n' "$mark"
}

# Remakes the table, so that what was found so far stands there however this ends.
table() {
    {
        sed '/^<!-- planted -->$/q' "$doc"
        printf '\n| bug | found by | in round |\n|---|---|---|\n'
        for each in $bugs; do row "$each"; done
        printf '\n'
        sed -n '/^<!-- end of planted -->$/,$p' "$doc"
    } >"$rows-doc"
    cp "$rows-doc" "$doc"
}

# The rounds to try: the one that found it the last time comes first.
rounds_of() {
    last=$(row "$1" | sed -n 's/.* | \([0-9][0-9]*\) |$/\1/p')
    [ -z "$last" ] || echo "$((last - 1))"
    seq 0 "$((rounds - 1))" | grep -vxe "$((${last:-0} - 1))"
}

: >"$rows"
caught=0 count=0
for bug in $wanted; do
    cell="– $(why_not "$bug") |"
    for round in $(rounds_of "$bug"); do
        if found "$round"; then
            cell="$(rules) | $((round + 1))"
            caught=$((caught + 1))
            break
        fi
    done
    count=$((count + 1))
    # shellcheck disable=SC2016 # for Markdown
    printf '| `%s` | %s |\n' "$bug" "$cell" >>"$rows"
    say "$count: $bug: $cell"
    table
done
say "found $caught of $count"
cat "$rows"
