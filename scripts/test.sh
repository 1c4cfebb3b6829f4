#!/usr/bin/env bash
# Builds every test of the workspace, and runs them in lanes beside each other: most of them wait for leases and
# servers, and one after the other would take twice as long. What fails is shown as a whole at the end, and the last line
# sums all of it up.
#
#   scripts/test.sh
set -euo pipefail
cd "$(dirname "$0")/.."

run_cargo() { "${CARGO:-cargo}" "$@"; }

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
# In each of six lanes: more than there are cores, for the same reason. The longest lane has one more.
threads=${RUST_TEST_THREADS:-2}

# Test targets are selected by name, wherever they are: all of the workspace is selected in each lane, so that nothing
# is built twice with other features.
names_in() {
    local file
    for file in "$@"; do
        # A room of tests has their names in main.rs.
        file=${file%/main.rs}
        file=${file##*/}
        printf '%s\n' "${file%.rs}"
    done | sort -u
}
clients=$(names_in crates/rlock-{client,multi}/tests/*.rs crates/rlock-{client,multi}/tests/*/main.rs)
commands=$(names_in crates/rlock-cli/tests/*/main.rs)
# That of the documentation compiles a new project: another lane has time for that.
module=$(names_in tests/*/main.rs | grep -vxF docs)
servers=$(names_in integration/*.rs integration/*/main.rs)
known=$(printf '%s\n' "$clients" "$commands" "$module" "$servers")
others=$(names_in tests/*/main.rs crates/*/tests/*.rs crates/*/tests/*/main.rs clients/*/tests/*.rs | grep -vxF "$known")

lane() { # name threads arguments...
    local name=$1
    local -x RUST_TEST_THREADS=$2
    shift 2
    {
        local code=0
        run_cargo test --workspace --locked --no-fail-fast "$@" 2>&1 || code=$?
        echo "$code" >"$logs/$name.code"
    } | tee "$logs/$name" |
        grep --line-buffered -E '^ +(Running|Doc-tests) |^test result|^test .* FAILED$' || true
}

# shellcheck disable=SC2046 # a list of arguments
selected() { printf -- '--test %s ' $(cat); }

began=$SECONDS
# The module that servers load, in its own profile, beside the tests: much of either is built by one core alone.
"${MAKE:-make}" --no-print-directory build &
module_built=$!
run_cargo test --workspace --locked --no-run || {
    echo "test: the tests do not build" >&2
    exit 1
}
wait "$module_built" || {
    echo "test: the module does not build" >&2
    exit 1
}
# shellcheck disable=SC2046 # lists of arguments
{
    lane clients $((threads + 1)) $(selected <<<"$clients") &
    lane commands "$threads" $(selected <<<"$commands") &
    lane module "$threads" $(selected <<<"$module") &
    lane servers "$threads" $(selected <<<"$servers") &
    lane others "$threads" $(selected <<<"$others") &
    # The module's own library has no tests: it would call a server that is not there.
    {
        lane units "$threads" --exclude rlock-module --lib --bins
        lane docs "$threads" --doc
    } &
}
wait

sources=()
broken=
for name in clients commands module servers others units docs; do
    sources+=("$logs/$name")
    if [ "$(cat "$logs/$name.code" 2>/dev/null)" != 0 ]; then
        broken="$broken $logs/$name"
        printf '\n=== what failed of the %s ===\n' "$name"
        sed -n '/^failures:$/,/^test result/p; /^error/p' "$logs/$name"
    fi
done
echo
awk -v seconds="$((SECONDS - began))" -v broken="$broken" -f scripts/test_sum.awk "${sources[@]}"
