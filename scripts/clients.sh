#!/usr/bin/env bash
# Runs the check.sh of each client's package, or of those named: lint, types, its own tests, the build of what users
# install, and a trial of that in a fresh project. With OLDEST=1 they also run their tests with the oldest drivers that they
# support. Each has at most CLIENT_SECONDS.
#
# Usage: scripts/clients.sh [CLIENT]...
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${CLIENT_SECONDS:-900}
[ $# -gt 0 ] || set -- clients/*/check.sh
for name in "$@"; do
    name=${name%/check.sh}
    check=clients/${name##*/}/check.sh
    # The Rust client is checked by `make test`.
    [ -e "$check" ] || continue
    echo "== $check"
    code=0
    timeout --kill-after=10 "$seconds" sh "$check" ${OLDEST:+oldest} || code=$?
    [ "$code" != 124 ] || echo "$check: not ready within $seconds s" >&2
    [ "$code" = 0 ] || exit "$code"
done
