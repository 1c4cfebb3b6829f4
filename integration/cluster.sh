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

. integration/on_servers.sh

wanted="redis-7.0 redis-8.6 valkey-9.1"
# Those that take longest first.
targets="sentinels shard_changes shards shard_moves"
only=${1:-*}

chosen=()
for name in $wanted; do
    # shellcheck disable=SC2254 # a pattern is wanted
    case $name in $only) chosen+=("$name") ;; esac
done
[ ${#chosen[@]} -gt 0 ] || get_servers "$only"
get_servers "${chosen[@]}"

selected=()
for target in $targets; do
    selected+=(--test "$target")
done
say "building the tests"
"${CARGO:-cargo}" test --workspace "${selected[@]}" --locked --no-run --quiet

# They mostly wait.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-8}"

labels=()
for target in $targets; do
    for name in "${chosen[@]}"; do
        await_room 4
        labels+=("$target on $name")
        tests_of "$target on $name" "$name" --test "$target" &
    done
done
wait

failed=
# The same round each time: its slots move as a whole half of the time, where the server can.
for name in "${chosen[@]}"; do
    case $name in redis-8.6 | valkey-9.1) ;; *) continue ;; esac
    say "chaos in a cluster of $name"
    RLOCK_TEST_SERVER=$(binary_of "$name") "${CARGO:-cargo}" run --quiet --locked -p rlock-chaos -- \
        --seconds 10 --seed 120 --round 1 || failed="$failed chaos on $name;"
done
failures_of "${labels[@]}"
say "every test passed on ${#chosen[@]} servers after $SECONDS s"
