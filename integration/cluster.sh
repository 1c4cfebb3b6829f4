#!/usr/bin/env bash
# Runs what needs many servers at a time, and long waits for fail-overs: a primary, two replicas and three sentinels;
# clusters of three primaries and three replicas; chaos in clusters whose slots move as a whole; planned fail-overs under the clients of
# all languages, and the least rights of each. On the oldest and the newest Redis, and the newest Valkey. A server that cannot be had is a
# failure, by its name. What is missing of the languages is installed, or named.
#
#   integration/cluster.sh               all of them
#   integration/cluster.sh 'valkey-*'    only those whose name matches
#   LEASE=30 integration/cluster.sh '*' clients
#                                        only the clients of all languages, in planned fail-overs with leases of 30 s
#
# The servers are those of integration/matrix.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

. integration/on_servers.sh

wanted="redis-7.0 redis-8.6 valkey-9.1"
# Those that take longest first.
targets="jobs sentinels shard_changes shards shard_moves"
only=${1:-*} part=${2:-}

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
[ "$part" != clients ] || targets=
say "building the tests"
[ -z "$targets" ] || "${CARGO:-cargo}" test --workspace "${selected[@]}" --locked --no-run --quiet
scripts/programs.sh rlock-conformance rlock-conformance-driver rlock-chaos
programs=${CARGO_TARGET_DIR:-target}/debug
conformance=$programs/rlock-conformance
integration/interop/tools.sh "$conformance" --build

# They mostly wait.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-8}"

# clients_on NAME LABEL OPTION...
clients_on() {
    local name=$1 label="$2 on $1" began=$SECONDS outcome=passed
    shift 2
    RLOCK_TEST_SERVER=$(binary_of "$name") integration/interop/tools.sh "$conformance" --built "$@" >"$logs/$label" 2>&1 || outcome=failed
    echo "$outcome" >"$logs/$label.outcome"
    say "$label: $outcome after $((SECONDS - began)) s"
    if [ "$outcome" = failed ]; then cat "$logs/$label"; else grep '^moves:' "$logs/$label" || true; fi
}

labels=()
for target in $targets; do
    for name in "${chosen[@]}"; do
        await_room 4
        labels+=("$target on $name")
        tests_of "$target on $name" "$name" --test "$target" &
    done
done
wait

# They have bounds of some seconds, so nothing else runs beside them.
for name in "${chosen[@]}"; do
    labels+=("planned fail-overs on $name")
    clients_on "$name" "planned fail-overs" --moves all --lease "${LEASE:-3}" &
done
wait
for name in "${chosen[@]}"; do
    # `make clients` has the distribution's server.
    case $name in redis-7.0) continue ;; esac
    labels+=("least rights on $name")
    clients_on "$name" "least rights" --scenario 7-rights &
done
wait

failed=
# The same round each time: its slots move as a whole half of the time, where the server can.
for name in "${chosen[@]}"; do
    [ -n "$targets" ] || continue
    case $name in redis-8.6 | valkey-9.1) ;; *) continue ;; esac
    say "chaos in a cluster of $name"
    RLOCK_TEST_SERVER=$(binary_of "$name") "$programs/rlock-chaos" \
        --seconds 10 --seed 120 --round 1 || failed="$failed chaos on $name;"
done
failures_of "${labels[@]}"
say "every test passed on ${#chosen[@]} servers after $SECONDS s"
