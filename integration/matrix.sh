#!/usr/bin/env bash
# Runs every test of the module on every server that rlock supports, with one build of it, and the refusal
# to load on one that is too old. Those of the client and the command are run by `make test` alone. A server that cannot be
# had is a failure, by its name.
#
#   integration/matrix.sh                 all of them
#   integration/matrix.sh 'valkey-*'      only those whose name matches
#   integration/matrix.sh '*' redis-7.0   all but those
#
# The servers are Debian's packages, unpacked under target/servers; nothing is installed.
set -euo pipefail
cd "$(dirname "$0")/.."

servers=$PWD/target/servers
wanted="redis-7.0 redis-8.0 redis-8.6 valkey-8.0 valkey-8.1 valkey-9.1 redict-7.3"
too_old="redis-6.0"
only=${1:-*}
except=${2:-}

say() { printf '\n=== %s ===\n' "$*"; }

say "getting servers"
# It says which it could not get; what is missing of those wanted is found below.
integration/servers.sh "$servers" || true

# The newest server of a name such as redis-8.0.
binary_of() {
    awk -F '\t' -v name="$1" 'index($1, name ".") == 1 { print $6 }' "$servers/servers.tsv" | tail -n 1
}

missing=
for name in $wanted $too_old; do
    [ -n "$(binary_of "$name")" ] || missing="$missing $name"
done
if [ -n "$missing" ]; then
    echo "matrix: these servers could not be had:$missing" >&2
    exit 1
fi

# The soak test is long enough on one server; here it shows that nothing differs.
export RLOCK_SOAK_SECONDS="${RLOCK_SOAK_SECONDS:-5}"
RLOCK_TEST_OLD_SERVER=$(binary_of "$too_old")
export RLOCK_TEST_OLD_SERVER

# All of the workspace is selected either way, so that nothing is built twice with other features.
module_tests=()
for file in tests/*.rs integration/*.rs; do
    file=${file##*/}
    module_tests+=(--test "${file%.rs}")
done

export RUST_TEST_THREADS="${RUST_TEST_THREADS:-4}"
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# Tests of one server, three at a time, and more of each than there are cores: they mostly wait.
tests_of() {
    local began=$SECONDS outcome=passed
    RLOCK_TEST_SERVER=$(binary_of "$1")
    export RLOCK_TEST_SERVER
    "${CARGO:-cargo}" test --workspace "${module_tests[@]}" --locked --no-fail-fast --quiet >"$logs/$1" 2>&1 || outcome=failed
    echo "$outcome" >"$logs/$1.outcome"
    say "$("$RLOCK_TEST_SERVER" --version | cut -d ' ' -f 1-3): $outcome after $((SECONDS - began)) s"
    if [ "$outcome" = failed ]; then cat "$logs/$1"; else grep '^test result' "$logs/$1" | sort | uniq -c | sort -rn | head -n 3; fi
}

say "building the tests"
"${CARGO:-cargo}" test --workspace "${module_tests[@]}" --locked --no-run --quiet

chosen=()
for name in $wanted; do
    # shellcheck disable=SC2254 # a pattern is wanted
    case $name in $except) continue ;; $only) chosen+=("$name") ;; esac
done
for name in "${chosen[@]}"; do
    while [ "$(jobs -rp | wc -l)" -ge 3 ]; do wait -n || true; done
    tests_of "$name" &
done
wait

failed=
for name in "${chosen[@]}"; do
    [ "$(cat "$logs/$name.outcome" 2>/dev/null)" = passed ] || failed="$failed $name"
done
if [ -n "$failed" ]; then
    echo "matrix: tests failed on$failed" >&2
    exit 1
fi
say "every test passed on ${#chosen[@]} servers"
