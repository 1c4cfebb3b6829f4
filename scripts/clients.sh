#!/usr/bin/env bash
# Runs the check.sh of each client's package, or of those named: lint, types, its own tests, the build of what users
# install, and a trial of that in a fresh project. With OLDEST=1 they also run their tests with the oldest drivers that they
# support. Each has at most CLIENT_SECONDS. All run beside each other, since their tests mostly wait; the output of each
# comes once it has ended.
#
# Usage: scripts/clients.sh [CLIENT]...
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${CLIENT_SECONDS:-900}
[ $# -gt 0 ] || set -- clients/*/check.sh
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

check() { # NAME
    local check=clients/$1/check.sh code=0 began=$SECONDS
    timeout --kill-after=10 "$seconds" sh "$check" ${OLDEST:+oldest} >"$logs/$1" 2>&1 || code=$?
    [ "$code" != 124 ] || echo "$check: not ready within $seconds s" >>"$logs/$1"
    printf '== %s, %s s\n%s\n' "$check" "$((SECONDS - began))" "$(cat "$logs/$1")"
    echo "$code" >"$logs/$1.code"
}

chosen=()
for name in "$@"; do
    name=${name%/check.sh}
    name=${name##*/}
    # The Rust client is checked by `make test`.
    [ -e "clients/$name/check.sh" ] || continue
    chosen+=("$name")
    echo "== clients/$name/check.sh begins"
    check "$name" &
done
wait

failed=
for name in ${chosen+"${chosen[@]}"}; do
    [ "$(cat "$logs/$name.code" 2>/dev/null)" = 0 ] || failed="$failed $name"
done
if [ -n "$failed" ]; then
    echo "clients: check.sh failed:$failed" >&2
    exit 1
fi
