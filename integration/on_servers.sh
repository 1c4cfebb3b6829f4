# Sourced by matrix.sh and cluster.sh: the servers of integration/servers.sh, and tests on them.
# shellcheck shell=bash

servers=$PWD/target/servers

say() { printf '\n=== %s ===\n' "$*"; }

# The newest server of a name such as redis-8.0.
binary_of() {
    awk -F '\t' -v name="$1" 'index($1, name ".") == 1 { print $6 }' "$servers/servers.tsv" | tail -n 1
}

# get_servers NAME...: a server that cannot be had is a failure, by its name.
get_servers() {
    local name missing=
    say "getting servers"
    # It says which it could not get; what is missing is found below.
    integration/servers.sh "$servers" "${@/%/*}" || true
    for name in "$@"; do
        [ -n "$(binary_of "$name")" ] || missing="$missing $name"
    done
    if [ -n "$missing" ]; then
        echo "${0##*/}: these servers could not be had:$missing" >&2
        exit 1
    fi
}

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# tests_of LABEL SERVER TEST...
tests_of() {
    local label=$1 began=$SECONDS outcome=passed
    RLOCK_TEST_SERVER=$(binary_of "$2")
    export RLOCK_TEST_SERVER
    shift 2
    # The tests of the words need no server.
    "${CARGO:-cargo}" test --workspace "$@" --locked --no-fail-fast --quiet -- --skip words:: >"$logs/$label" 2>&1 || outcome=failed
    echo "$outcome" >"$logs/$label.outcome"
    say "$label, $("$RLOCK_TEST_SERVER" --version | cut -d ' ' -f 1-3): $outcome after $((SECONDS - began)) s"
    if [ "$outcome" = failed ]; then cat "$logs/$label"; else grep '^test result' "$logs/$label" | sort | uniq -c | sort -rn | head -n 3; fi
}

# Waits until fewer tests than this run.
await_room() { while [ "$(jobs -rp | wc -l)" -ge "$1" ]; do wait -n || true; done; }

# failures_of LABEL...: is a failure if one of them, or $failed, is. Shows the end of what each printed once more: a long log may be
# kept by its end.
failures_of() {
    local label
    for label in "$@"; do
        [ "$(cat "$logs/$label.outcome" 2>/dev/null)" != passed ] || continue
        failed="${failed:-} $label;"
        say "the end of $label"
        tail -n 30 "$logs/$label" | cut -c -1000 || true
    done
    if [ -n "${failed:-}" ]; then
        echo "${0##*/}: tests failed:$failed" >&2
        exit 1
    fi
}
