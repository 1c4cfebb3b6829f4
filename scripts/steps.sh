#!/usr/bin/env bash
# For .ci/run and scripts/ci_full.sh, which source it: `step COMMAND...` runs a step and times it. At the end of the
# script a table shows the seconds of each, and those that it took of all cores. `steps_beside COMMAND...` runs several at once,
# each given as one word. The first step that fails ends the script; with steps_keep_going=1 the others run nevertheless, and the
# script fails at its end.

# What is built once from nothing has no use for the intermediate results, which take 10 GB. Whoever looks into a failure builds it anew:
# here the lines of backtraces are not worth the time that they take.
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0

# For the script to set.
steps_keep_going=
steps_table=
steps_failed=

step() {
    local times
    times=$(mktemp)
    steps_timed "$times" "$@"
    steps_note "$times" "$*"
}

# For steps that mostly wait, or that are nice. What each printed comes once it has ended.
steps_beside() {
    local logs command number=0
    logs=$(mktemp -d)
    for command in "$@"; do
        printf '\n=== begins: %s ===\n' "$command"
        steps_timed "$logs/times.$number" eval "$command" >"$logs/output.$number" 2>&1 &
        number=$((number + 1))
    done
    wait
    number=0
    for command in "$@"; do
        cat "$logs/output.$number"
        steps_note "$logs/times.$number" "$command"
        number=$((number + 1))
    done
    rm -rf "$logs"
}

# Runs a command in a shell of its own. What is written to the file: its exit code, its seconds, and what `times` says of it.
steps_timed() { # file command...
    (
        trap - EXIT
        file=$1 code=0 began=$SECONDS
        shift
        shown=$*
        printf '\n=== %s ===\n' "${shown#eval }"
        "$@" || code=$?
        echo "$code $((SECONDS - began))" >"$file"
        times >>"$file"
    )
}

steps_note() { # file of steps_timed, step
    local code seconds cores mark=''
    read -r code seconds <"$1"
    cores=$(tr 'ms' '  ' <"$1" | awk 'NR > 1 { sum += ($1 + $3) * 60 + $2 + $4 } END { printf "%d", sum }')
    rm -f "$1"
    if [ "$code" != 0 ]; then
        steps_failed+=${steps_failed:+, }$2
        mark='  FAILED'
    fi
    steps_table+=$(printf '%7s %7s  %s%s' "$seconds" "$cores" "$2" "$mark")$'\n'
    printf '=== %s s%s ===\n' "$seconds" "$mark"
    [ "$code" = 0 ] || [ -n "$steps_keep_going" ] || exit "$code"
}

steps_end() {
    local code=$?
    printf '\nseconds   cores  step\n%s' "$steps_table"
    if [ "$code" = 0 ] && [ -z "$steps_failed" ]; then
        printf '=== all passed in %s s ===\n' "$SECONDS"
    else
        printf '=== failed after %s s: %s ===\n' "$SECONDS" "${steps_failed:-$0}"
        exit "$((code ? code : 1))"
    fi
}
trap steps_end EXIT
