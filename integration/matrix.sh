#!/usr/bin/env bash
# Runs every test of the module on every server that rlock supports, with one build of it, and the refusal
# to load on one that is too old; and on those that CLIENTS names, the tests of the client and the command. A server that
# cannot be had is a failure, by its name.
#
#   integration/matrix.sh                           all of them
#   integration/matrix.sh 'valkey-* redis-8.6'      only those whose name matches one of these
#   integration/matrix.sh '*' 'redis-7.0'           all but those
#   CLIENTS='valkey-9.1' integration/matrix.sh
#   WITHOUT='stalls' integration/matrix.sh          all but these tests of the module
#
# The servers are Debian's packages, unpacked under target/servers; nothing is installed.
set -euo pipefail
cd "$(dirname "$0")/.."

. integration/on_servers.sh

wanted="redis-7.0 redis-8.0 redis-8.6 valkey-8.0 valkey-8.1 valkey-9.1 redict-7.3"
too_old="redis-6.0"
# Patterns of this script, not of files.
set -f
read -ra only <<<"${1:-*}"
read -ra except <<<"${2:-}"
set +f

matches() { # name patterns...
    local name=$1 pattern
    shift
    for pattern in "$@"; do
        # shellcheck disable=SC2053 # a pattern is wanted
        [[ $name != $pattern ]] || return 0
    done
    return 1
}

chosen=()
for name in $wanted; do
    if matches "$name" "${only[@]}" && ! matches "$name" "${except[@]}"; then chosen+=("$name"); fi
done
read -ra clients <<<"${CLIENTS:-}"

get_servers "${chosen[@]}" "$too_old" "${clients[@]}"
RLOCK_TEST_OLD_SERVER=$(binary_of "$too_old")
export RLOCK_TEST_OLD_SERVER

# All of the workspace is selected either way, so that nothing is built twice with other features. A name that several
# crates have selects the tests of each.
# A test's name is that of its file, or of the room that its main.rs stands in.
arguments_of() { # FILE...
    local file
    for file in "$@"; do
        file=${file%/main.rs}
        file=${file##*/}
        file=${file%.rs}
        case " ${WITHOUT:-} " in *" $file "*) continue ;; esac
        printf -- '--test\n%s\n' "$file"
    done
}
mapfile -t module_tests < <(arguments_of tests/*/main.rs integration/*.rs integration/*/main.rs)
mapfile -t client_tests < <(arguments_of crates/rlock-{client,multi}/tests/*.rs crates/rlock-{client,multi,cli}/tests/*/main.rs)

export RUST_TEST_THREADS="${RUST_TEST_THREADS:-4}"

say "building the tests"
"${CARGO:-cargo}" test --workspace "${module_tests[@]}" ${CLIENTS:+"${client_tests[@]}"} --locked --no-run --quiet

labels=("${chosen[@]}" "${clients[@]/#/clients-}")
# The clients' wait longest: they run beside all others.
for name in "${clients[@]}"; do
    tests_of "clients-$name" "$name" "${client_tests[@]}" &
done
# Tests of three servers at a time, those of the clients among them, and more of each than there are cores: they mostly wait.
for name in "${chosen[@]}"; do
    await_room 3
    tests_of "$name" "$name" "${module_tests[@]}" &
done
wait

failures_of "${labels[@]}"
say "every test passed on ${#chosen[@]} servers"
