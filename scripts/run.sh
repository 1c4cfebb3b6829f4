#!/bin/sh
# Starts a server with the module in the foreground, on $PORT; `make run` calls it.
# With --check: only sees to it that the port is free, before a long build.
set -eu

cd "$(dirname "$0")/.."
port=${PORT:-6399}
server=${REDIS_SERVER:-redis-server}
cli=${REDIS_CLI:-redis-cli}

number=$port
case $port in '' | *[!0-9]* | ??????*) number=0 ;; esac
if [ "$number" -lt 1 ] || [ "$number" -gt 65535 ]; then
    echo "run: PORT=$port is not a port number" >&2
    exit 1
fi

# Whatever answers there, or accepts and stays silent, holds the port: only a refused
# connection means that it is free.
limit=
if command -v timeout >/dev/null 2>&1; then limit="timeout 3"; fi
# shellcheck disable=SC2086 # a command and its argument, or nothing
case $($limit "$cli" -h 127.0.0.1 -p "$port" ping </dev/null 2>&1 || true) in
*"Could not connect"*refused*) ;;
*)
    echo "run: port $port is already taken. Stop what uses it, or take another one: make run PORT=$((port + 1))" >&2
    exit 1
    ;;
esac

if [ "${1:-}" = --check ]; then exit; fi

mkdir -p "${CARGO_TARGET_DIR:-target}/run"
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)

# A copy with the paths made absolute: `dir` keeps what the server writes out of the project's
# root, and the path of the module would be taken relative to it.
conf=$target/run/redis.conf
module=$target/release/librlock.so awk '
    $1 == "loadmodule" && (i = index($0, "librlock.so")) {
        print "loadmodule \"" ENVIRON["module"] "\"" substr($0, i + 11)
        next
    }
    { print }
' redis.conf >"$conf"
printf 'port %s\ndir "%s"\n' "$port" "$target/run" >>"$conf"

# By its name where the user's shell finds it, else by its path.
cli_path=$cli
short=${cli##*/}
if [ "$(PATH=${USER_PATH:-$PATH} command -v "$short" 2>/dev/null)" = "$cli" ]; then cli=$short; fi

# Ctrl-C reaches the server by itself. A hang-up it ignores, and so would outlive its terminal.
"$server" "$conf" &
pid=$!
stopped=
trap 'stopped=1' INT
trap 'stopped=1; kill "$pid" 2>/dev/null || true' HUP TERM

# Below the server's own log, and not before it answers: the last line is there to be copied.
answers() {
    # shellcheck disable=SC2086 # a command and its argument, or nothing
    case $($limit "$cli_path" -h 127.0.0.1 -p "$port" ping </dev/null 2>&1 || true) in
    '' | *"Could not connect"* | *LOADING*) return 1 ;;
    esac
}
while [ -z "$stopped" ] && kill -0 "$pid" 2>/dev/null; do
    if answers; then
        cat <<EOT

A server with rlock is ready on port $port; Ctrl-C stops it. In another terminal type:

    $cli -p $port RLOCK.ACQUIRE demo me 30000
EOT
        break
    fi
    sleep 0.1
done

# The first `wait` also has the status of a server that has ended before.
status=0
wait "$pid" || status=$?
while kill -0 "$pid" 2>/dev/null; do
    status=0
    wait "$pid" || status=$?
done
[ -z "$stopped" ] || status=0
exit "$status"
