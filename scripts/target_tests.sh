#!/usr/bin/env bash
# Runs the module's tests with each module that scripts/targets.sh built, on a server of its kind, and stores in docs/targets.tsv what
# passed: docs/INSTALL.md shows it (`rlock-docs targets`). `make target-tests` calls it.
#
#   scripts/target_tests.sh [TARGET]...    these, or all that a server can be had for
#
# arm64: Debian's server under qemu-user. musl: the distribution's Redis, built with musl. The tests themselves are this machine's.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=scripts/zigbuild.sh
. scripts/zigbuild.sh
stored=docs/targets.tsv
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=

# The emulator makes everything slower, so that the other rooms' bounds on time say nothing.
rooms_of() { # TARGET
    case $1 in
    aarch64-*) echo acquire lifecycle permits sessions waiting ;;
    *) echo acl acquire events fair foreign kinds lifecycle permits read_write sessions stalls waiting ;;
    esac
}

skips_of() { # TARGET
    [ "$1" != "$(uname -m)-unknown-linux-gnu" ] || return 0
    # They preload a library of this machine into the server, or load another module of this machine.
    echo --skip=histories:: --skip=kinds_clock:: --skip=another_module
    # musl unloads no library.
    [[ $1 != *-musl ]] || echo --skip=a_refused_module_is_gone_from_memory
}

get_server() { # TARGET; sets server and its description
    description=
    case $1 in
    x86_64-*-gnu) server=$(command -v "${REDIS_SERVER:-redis-server}") ;;
    x86_64-*-musl)
        server=$(integration/musl_server.sh)
        description=', built with musl'
        ;;
    aarch64-*-gnu)
        command -v qemu-aarch64-static >/dev/null || apt-get install -y -qq --no-install-recommends qemu-user-static >/dev/null
        SERVERS_ARCH=arm64 SERVERS_RUN=qemu-aarch64-static integration/servers.sh target/servers-arm64 redis-7.0 >"$work/log"
        server=$(echo "$PWD"/target/servers-arm64/redis-7.0.*/bin/redis-server)
        description=', under qemu-user'
        ;;
    *) die "no server for $1" ;;
    esac
    description="Redis $("$server" --version | sed 's/.* v=\([0-9.]*\) .*/\1/')$description"
}

# Without PASSED they failed: no result is shown.
store() { # TARGET TESTS [PASSED]
    {
        head -n 1 $stored
        {
            tail -n +2 $stored | awk -F '\t' -v target="$1" -v tests="$2" '!($1 == target && $3 == tests)'
            [ -z "${3:-}" ] || printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$description" "$2" "$3" "$(date -u +%F)" "$(git log -1 --format=%h)"
        } | sort
    } >"$work/stored"
    cp "$work/stored" $stored
    say "$1, $description: $2: ${3:-failed}${3:+ passed}"
}

run_tests() { # TARGET TESTS ROOM ARGUMENT...
    local place=$target/targets
    # An unwinder that loops would never end.
    if RLOCK_MODULE=$place/$1/librlock.so RLOCK_FAULT_MODULE=$place/faults/$1/librlock.so RLOCK_TEST_SERVER=$server \
        timeout 3000 "${CARGO:-cargo}" test --locked --quiet -p rlock-module --test "$3" -- "${@:4}" >"$work/log" 2>&1; then
        # The last one: some tests run others.
        store "$1" "$2" "$(sed -n 's/^test result: .* \([0-9]*\) passed; .*/\1/p' "$work/log" | tail -n 1)"
    else
        cat "$work/log"
        store "$1" "$2"
        failed="$failed $1:$2"
    fi
}

[ $# != 0 ] || set -- x86_64-unknown-linux-gnu x86_64-unknown-linux-musl aarch64-unknown-linux-gnu
for name in "$@"; do
    # Like the kit's, in the dev profile.
    build "$name" librlock.so "faults/$name" -p rlock-module --features fault-injection
    get_server "$name"
    # The kit's time limits are five times as long in the emulator.
    export RLOCK_TEST_PATIENCE=1
    [[ $name != aarch64-* ]] || RLOCK_TEST_PATIENCE=5
    if [[ $name == *-gnu && -e $target/targets/${name%-gnu}-musl/rlock ]]; then
        # By TCP, by a name, and by TLS.
        if scripts/targets-test.sh "${name%%-*}" "$server"; then store "${name%-gnu}-musl" command 3; else failed="$failed $name:command"; fi
    fi
    run_tests "$name" guard lifecycle guard:: blocks_are_aligned survives_a_panic
    for room in $(rooms_of "$name"); do
        # shellcheck disable=SC2046 # a list of arguments
        run_tests "$name" "$room" "$room" $(skips_of "$name")
    done
done
"${CARGO:-cargo}" run --locked --quiet -p rlock-docs -- targets
[ -z "$failed" ] || die "tests failed:$failed"
