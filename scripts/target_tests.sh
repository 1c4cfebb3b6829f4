#!/usr/bin/env bash
# Runs the module's tests with each module that scripts/targets.sh built, on a server of its kind, and stores in docs/targets.tsv what
# passed: docs/INSTALL.md shows it (`rlock-docs targets`). `make target-tests` calls it.
#
#   scripts/target_tests.sh [TARGET]...    these, or all
#
# ROOMS='guard waiting' runs only these tests, SERVERS=debian11 those on this server: servers_of names them.
# arm64: Debian's server under qemu-user. musl: servers from source packages, built with musl. glibc: this machine's server, and Redis in
# Debian 11. The tests themselves are this machine's.
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

servers_of() { # TARGET
    case $1 in
    x86_64-*-gnu) echo here debian11 ;;
    x86_64-*-musl) echo musl-redis musl-valkey ;;
    aarch64-*-gnu) echo arm64 ;;
    aarch64-*-musl) echo musl-redis-aarch64 ;;
    *) die "no server for $1" ;;
    esac
}

skips_of() { # SERVER
    [ "$1" != here ] || return 0
    # They preload a library of this machine into the server, or load another module of this machine.
    echo --skip=histories:: --skip=kinds_clock:: --skip=another_module
    # musl unloads no library.
    [[ $1 != musl-* ]] || echo --skip=a_refused_module_is_gone_from_memory
    # A bound on processor time.
    case $1 in arm64 | *-aarch64) echo --skip=the_sweep_of_ties_takes_little_time ;; esac
}

get_server() { # SERVER; sets server and its description
    description=
    case $1 in
    here) server=$(command -v "${REDIS_SERVER:-redis-server}") ;;
    debian11)
        server=$(integration/debian11_server.sh)
        description=', in Debian 11'
        ;;
    musl-*)
        server=$(integration/musl_server.sh "${1#musl-}")
        description=', built with musl'
        ;;
    arm64)
        SERVERS_ARCH=arm64 SERVERS_RUN=qemu-aarch64-static integration/servers.sh target/servers-arm64 redis-7.0 >"$work/log"
        server=$(echo "$PWD"/target/servers-arm64/redis-7.0.*/bin/redis-server)
        ;;
    esac
    case $1 in arm64 | *-aarch64) description="$description, under qemu-user" ;; esac
    description="$("$server" --version | sed 's/^\([A-Z][a-z]*\) .* v=\([0-9.]*\) .*/\1 \2/')$description"
}

# Without PASSED they failed: no result is shown.
store() { # TARGET TESTS [PASSED]
    {
        head -n 1 $stored
        {
            # Of the same server in any version.
            tail -n +2 $stored | awk -F '\t' -v target="$1" -v server="$description" -v tests="$2" '
                function kind(server) { sub(/ [0-9.]+/, "", server); return server }
                !($1 == target && kind($2) == kind(server) && $3 == tests)'
            [ -z "${3:-}" ] || printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$description" "$2" "$3" "$(date -u +%F)" "$(git log -1 --format=%h)"
        } | sort
    } >"$work/stored"
    cp "$work/stored" $stored
    say "$1, $description: $2: ${3:-failed}${3:+ passed}"
}

# By TCP, by a name, and by TLS, which only packaged servers have.
run_command() { # TARGET SERVER
    case $2 in here | arm64) ;; *) return 0 ;; esac
    [ -e "$target/targets/${1%-gnu}-musl/rlock" ] || return 0
    if scripts/targets-test.sh "${1%%-*}" "$server"; then
        store "${1%-gnu}-musl" command 3
    else
        store "${1%-gnu}-musl" command
        failed="$failed $1:command"
    fi
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

# Some minutes under the emulator: other servers have `make chaos`. Rounds are what passes.
run_chaos() { # TARGET SERVER
    [ "$2" = arm64 ] || return 0
    scripts/programs.sh rlock-chaos
    if RLOCK_MODULE=$target/targets/$1/librlock.so RLOCK_TEST_SERVER=$server \
        timeout 1500 "$target/debug/rlock-chaos" --seconds 300 >"$work/log" 2>&1; then
        store "$1" chaos "$(grep -c '^round ' "$work/log")"
    else
        cat "$work/log"
        store "$1" chaos
        failed="$failed $1:chaos"
    fi
}

[ $# != 0 ] || set -- {x86_64,aarch64}-unknown-linux-{gnu,musl}
if [[ " $* " == *" aarch64-"* ]] && ! command -v qemu-aarch64-static >/dev/null; then
    apt-get install -y -qq --no-install-recommends qemu-user-static >/dev/null
fi
for name in "$@"; do
    # Like the kit's, in the dev profile.
    build "$name" librlock.so "faults/$name" -p rlock-module --features fault-injection
    # The kit's time limits are five times as long in the emulator.
    export RLOCK_TEST_PATIENCE=1
    [[ $name != aarch64-* ]] || RLOCK_TEST_PATIENCE=5
    for kind in ${SERVERS:-$(servers_of "$name")}; do
        get_server "$kind"
        for tests in ${ROOMS:-command guard $(rooms_of "$name") chaos}; do
            # shellcheck disable=SC2046 # a list of arguments
            case $tests in
            chaos | command) "run_$tests" "$name" "$kind" ;;
            guard) run_tests "$name" guard lifecycle guard:: blocks_are_aligned survives_a_panic ;;
            *) run_tests "$name" "$tests" "$tests" $(skips_of "$kind") ;;
            esac
        done
    done
done
"${CARGO:-cargo}" run --locked --quiet -p rlock-docs -- targets
[ -z "$failed" ] || die "tests failed:$failed"
