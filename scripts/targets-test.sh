#!/usr/bin/env bash
# Loads the module for glibc that scripts/targets.sh built into a server, and reaches it by the static command: run by root, in a folder
# as its root that has neither libraries nor a resolver. `make targets` calls it for this machine's architecture and server.
#
#   scripts/targets-test.sh [ARCHITECTURE SERVER]
set -euo pipefail
cd "$(dirname "$0")/.."

arch=${1:-$(uname -m)}
server=${2:-${REDIS_SERVER:-redis-server}}
targets=$(realpath -m "${CARGO_TARGET_DIR:-target}")/targets
module=$targets/$arch-unknown-linux-gnu/librlock.so
command=$targets/$arch-unknown-linux-musl/rlock
work=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill "$pid"; rm -rf "$work"' EXIT

die() {
    printf 'targets: %s\n' "$*" >&2
    cat "$work/log" >&2
    exit 1
}

# On two free ports; sets port, that without TLS.
start() {
    for _ in $(seq 20); do
        port=$((RANDOM % 20000 + 20000))
        "$server" --port "$port" --tls-port "$((port + 1))" --bind 127.0.0.1 --dir "$work" --save '' \
            --tls-cert-file "$work/server.crt" --tls-key-file "$work/server.key" --tls-ca-cert-file "$work/ca.crt" \
            --tls-auth-clients no --loadmodule "$module" >"$work/log" 2>&1 &
        pid=$!
        for _ in $(seq 300); do
            kill -0 "$pid" 2>/dev/null || break
            ! grep -q 'Ready to accept connections' "$work/log" || return 0
            sleep 0.1
        done
    done
    die "no server starts with $module"
}

# What the environment says of certificates is true of the machine's root alone.
answers() { # URL [ARGUMENT]...
    local run=(${emulator:+"$emulator"} "$command")
    [ "$(id -u)" != 0 ] || run=(env -u SSL_CERT_FILE -u SSL_CERT_DIR chroot "$work/root" ${emulator:+/emulator} /rlock)
    "${run[@]}" --url "$@" ping || die "the static command does not reach the server by $1"
}

mkdir -p "$work/root/etc"
cp "$command" "$work/root"
emulator=
if [ "$arch" != "$(uname -m)" ]; then
    emulator=$(command -v "qemu-$arch-static") || die "qemu-$arch-static is missing: apt-get install qemu-user-static"
    cp "$emulator" "$work/root/emulator"
fi
echo '127.0.0.1 localhost' >"$work/root/etc/hosts"
scripts/certificates.sh "$work"
cp "$work/ca.crt" "$work/root"
start
call() { "${REDIS_CLI:-redis-cli}" -p "$port" "$@" | xargs; }
[ "$(call RLOCK.ACQUIRE lock alice 30000)" = '1 30000 0' ] || die "ACQUIRE fails"
[ "$(call RLOCK.RELEASE lock alice)" = 1 ] || die "RELEASE fails"
# Where ca.crt is, in either root.
cd "$work"
answers "redis://127.0.0.1:$port"
answers "redis://localhost:$port"
answers "rediss://localhost:$((port + 1))" --cacert ca.crt
