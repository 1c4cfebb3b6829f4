#!/bin/sh
# Shows that nothing is left behind: a million contended cycles, and the module in valgrind. `make leaks`
# calls it.
set -eu
cd "$(dirname "$0")/.."

# Debian's valgrind needs the C library's symbols, which are a package of their own.
if ! valgrind --version >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "leaks: installing valgrind" >&2
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends valgrind libc6-dbg >&2
    else
        echo "leaks: valgrind is missing: install it by the system's package manager" >&2
        exit 1
    fi
fi

export RLOCK_LEAK_CYCLES="${RLOCK_LEAK_CYCLES:-1000000}"
# Unquoted: CARGO may hold arguments, such as `cargo +stable`.
# shellcheck disable=SC2086
exec ${CARGO:-cargo} test --locked --test leaks -- --include-ignored --nocapture --test-threads 1
