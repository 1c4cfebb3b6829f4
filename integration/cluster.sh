#!/usr/bin/env bash
# Runs what needs many servers at a time, and long waits for fail-overs: a primary, two replicas and three sentinels;
# clusters of three primaries and three replicas; chaos in clusters whose slots move as a whole. On the oldest and the newest
# Redis, and the newest Valkey. A server that cannot be had is a failure, by its name.
#
#   integration/cluster.sh               all of them
#   integration/cluster.sh 'valkey-*'    only those whose name matches
#
# The servers are those of integration/matrix.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

servers=$PWD/target/servers
wanted="redis-7.0 redis-8.6 valkey-9.1"
# Those that take longest first.
targets="sentinels shard_changes shards shard_moves"
only=${1:-*}

say() { printf '\n=== %s ===\n' "$*"; }

say "getting servers"
# It says which it could not get; what is missing of those wanted is found below.
integration/servers.sh "$servers" || true

# The newest server of a name such as redis-8.6.
binary_of() {
    awk -F '\t' -v name="$1" 'index($1, name ".") == 1 { print $6 }' "$servers/servers.tsv" | tail -n 1
}

chosen=()
missing=
for name in $wanted; do
    # shellcheck disable=SC2254 # a pattern is wanted
    case $name in
    $only)
        chosen+=("$name")
        [ -n "$(binary_of "$name")" ] || missing="$missing $name"
        ;;
    esac
done
if [ -n "$missing" ] || [ ${#chosen[@]} = 0 ]; then
    echo "cluster: these servers could not be had:${missing:- $only}" >&2
    exit 1
fi

selected=()
for target in $targets; do
    selected+=(--test "$target")
done
say "building the tests"
"${CARGO:-cargo}" test --workspace "${selected[@]}" --locked --no-run --quiet

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
# They mostly wait.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-8}"

tests_of() { # target server
    local label="$1 on $2" began=$SECONDS outcome=passed
    RLOCK_TEST_SERVER=$(binary_of "$2")
    export RLOCK_TEST_SERVER
    "${CARGO:-cargo}" test --workspace --test "$1" --locked --quiet >"$logs/$label" 2>&1 || outcome=failed
    echo "$outcome" >"$logs/$label.outcome"
    say "$label: $outcome after $((SECONDS - began)) s"
    if [ "$outcome" = failed ]; then cat "$logs/$label"; fi
}

for target in $targets; do
    for name in "${chosen[@]}"; do
        while [ "$(jobs -rp | wc -l)" -ge 4 ]; do wait -n || true; done
        tests_of "$target" "$name" &
    done
done
wait

failed=
# The same round each time: its slots move as a whole half of the time, where the server can.
for name in "${chosen[@]}"; do
    case $name in redis-8.6 | valkey-9.1) ;; *) continue ;; esac
    say "chaos in a cluster of $name"
    RLOCK_TEST_SERVER=$(binary_of "$name") "${CARGO:-cargo}" run --quiet --locked -p rlock-chaos -- \
        --seconds 10 --seed 120 --round 1 || failed="$failed; chaos on $name"
done
for target in $targets; do
    for name in "${chosen[@]}"; do
        label="$target on $name"
        [ "$(cat "$logs/$label.outcome" 2>/dev/null)" = passed ] || failed="$failed; $label"
    done
done
if [ -n "$failed" ]; then
    echo "cluster: tests failed${failed/;/:}" >&2
    exit 1
fi
say "every test passed on ${#chosen[@]} servers after $SECONDS s"
