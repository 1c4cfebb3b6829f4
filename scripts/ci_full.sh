#!/usr/bin/env bash
# What .ci/run does, and then what takes longer than a change should wait for; `make ci-full` calls it. A step that fails
# does not keep the others from running: the table at the end shows which did.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=scripts/steps.sh
. scripts/steps.sh
steps_keep_going=1

# CARGO may hold arguments, such as `cargo +stable`.
# shellcheck disable=SC2086
run_cargo() { ${CARGO:-cargo} "$@"; }
histories() { RLOCK_EVERY=1 RLOCK_HISTORIES=3000 run_cargo test --locked --test waiting histories; }
# The matrix has got these servers.
hand_offs() {
    local server
    for server in target/servers/redis-8.6.*/bin/redis-server target/servers/valkey-9.1.*/bin/valkey-server; do
        make cost ONLY=hand_offs SERVER="$PWD/$server" || return
    done
}
longer() { RLOCK_WAIT_SECONDS=60 RLOCK_OUTAGE_SECONDS=15 run_cargo "$@"; }

step ./.ci/run
# The model and the fuzzer compute, all others mostly wait: for servers, leases and fail-overs.
# .ci/run has the distribution's server.
on_servers() { make matrix EXCEPT=redis-7.0 && make interop ONLY=long && make clients LONG=1; }
steps_beside on_servers histories 'nice -n 19 make model DEEPER=1'
# .ci/run has leases of 6 s.
step make cluster PART=clients
step make cluster PART=clients LEASE=30
step make cluster ONLY='redis-8.6'
steps_beside 'nice -n 19 make fuzz SECONDS=600' 'make chaos SECONDS=600' 'make clients MIXED=600' \
    'longer test --workspace --locked --test locks --test faults --test servers --test several -- lock:: faults:: cluster_faults:: red_history::'
step make jobs STARTS=1000
step make lab
step make bench ONLY=fleet QUICK=1
step make docs
step make mutants
step make msrv
step make deny
step make kubernetes
step make images
step make client-packages
step make dist DRAFT=1
step make target-tests
step scripts/targets.sh --again x86_64-unknown-linux-gnu
step make leaks
step make alloc
step make cost
step hand_offs
step make older
