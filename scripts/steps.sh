#!/usr/bin/env bash
# For .ci/run and scripts/ci_full.sh, which source it: `step COMMAND...` runs a step and times it. At the end of the
# script a table shows the seconds of each. The first step that fails ends the script; with steps_keep_going=1 the others
# run nevertheless, and the script fails at its end.

# What is built once from nothing has no use for the intermediate results, which take 10 GB.
export CARGO_INCREMENTAL=0

# For the script to set.
steps_keep_going=
steps_table=
steps_failed=

step() {
    local began=$SECONDS mark='' code=0
    printf '\n=== %s ===\n' "$*"
    "$@" || code=$?
    if [ "$code" != 0 ]; then
        steps_failed+=${steps_failed:+, }$*
        mark='  FAILED'
    fi
    steps_table+=$(printf '%6s  %s%s' "$((SECONDS - began))" "$*" "$mark")$'\n'
    printf '=== %s s%s ===\n' "$((SECONDS - began))" "$mark"
    [ "$code" = 0 ] || [ -n "$steps_keep_going" ] || exit "$code"
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
