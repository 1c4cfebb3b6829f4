#!/usr/bin/env bash
# For .ci/run and scripts/ci_full.sh, which source it: `step COMMAND...` runs a step and times it. At the end of the
# script a table shows the seconds of each. `steps_beside COMMAND...` runs several at once, each given as one word. The first
# step that fails ends the script; with steps_keep_going=1 the others run nevertheless, and the script fails at its end.

# What is built once from nothing has no use for the intermediate results, which take 10 GB.
export CARGO_INCREMENTAL=0

# For the script to set.
steps_keep_going=
steps_table=
steps_failed=

step() {
    local began=$SECONDS code=0
    printf '\n=== %s ===\n' "$*"
    "$@" || code=$?
    steps_note "$((SECONDS - began))" "$code" "$*"
}

# For steps that mostly wait, or that are nice. What each printed comes once it has ended.
steps_beside() {
    local logs pid command code began=$SECONDS
    local -A commands=()
    logs=$(mktemp -d)
    for command in "$@"; do
        printf '\n=== begins: %s ===\n' "$command"
        (
            code=0
            eval "$command" || code=$?
            echo "$((SECONDS - began))" >"$logs/$BASHPID.seconds"
            exit "$code"
        ) >"$logs/output.${#commands[@]}" 2>&1 &
        commands[$!]="${#commands[@]} $command"
    done
    for pid in "${!commands[@]}"; do
        code=0
        wait "$pid" || code=$?
        command=${commands[$pid]#* }
        printf '\n=== %s ===\n' "$command"
        cat "$logs/output.${commands[$pid]%% *}"
        steps_note "$(cat "$logs/$pid.seconds")" "$code" "$command"
    done
    rm -rf "$logs"
}

steps_note() { # seconds, exit code, step
    local mark=''
    if [ "$2" != 0 ]; then
        steps_failed+=${steps_failed:+, }$3
        mark='  FAILED'
    fi
    steps_table+=$(printf '%6s  %s%s' "$1" "$3" "$mark")$'\n'
    printf '=== %s s%s ===\n' "$1" "$mark"
    [ "$2" = 0 ] || [ -n "$steps_keep_going" ] || exit "$2"
}

steps_end() {
    local code=$?
    printf '\nseconds  step\n%s' "$steps_table"
    if [ "$code" = 0 ] && [ -z "$steps_failed" ]; then
        printf '=== all passed in %s s ===\n' "$SECONDS"
    else
        printf '=== failed after %s s: %s ===\n' "$SECONDS" "${steps_failed:-$0}"
        exit "$((code ? code : 1))"
    fi
}
trap steps_end EXIT
