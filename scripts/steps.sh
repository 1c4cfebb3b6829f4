#!/usr/bin/env bash
# For .ci/run and scripts/ci_full.sh, which source it: `step COMMAND...` runs a step and times it. At the end of the
# script, or when a step has failed, a table shows the seconds of each.

# What is built once from nothing has no use for the intermediate results, which take 10 GB.
export CARGO_INCREMENTAL=0

steps_table=
steps_current=

step() {
    local began=$SECONDS
    steps_current=$*
    printf '\n=== %s ===\n' "$*"
    "$@"
    steps_table+=$(printf '%6s  %s' "$((SECONDS - began))" "$*")$'\n'
    steps_current=
    printf '=== %s s ===\n' "$((SECONDS - began))"
}

steps_end() {
    local code=$?
    printf '\nseconds  step\n%s' "$steps_table"
    if [ "$code" = 0 ]; then
        printf '=== all passed in %s s ===\n' "$SECONDS"
    else
        printf '=== failed after %s s: %s ===\n' "$SECONDS" "${steps_current:-$0}"
    fi
}
trap steps_end EXIT
