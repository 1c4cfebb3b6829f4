#!/bin/sh
# Runs a test that needs valgrind, and installs that. `make leaks` and `make cost` call it: in_valgrind.sh TEST [PART OF A NAME]
set -eu
cd "$(dirname "$0")/.."

# Debian's valgrind needs the C library's symbols, which are a package of their own.
if ! valgrind --version >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "$1: installing valgrind" >&2
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends valgrind libc6-dbg >&2
    else
        echo "$1: valgrind is missing: install it by the system's package manager" >&2
        exit 1
    fi
fi

# Unquoted: CARGO may hold arguments, such as `cargo +stable`.
# shellcheck disable=SC2086
exec ${CARGO:-cargo} test --locked --test "$1" -- --include-ignored --nocapture --test-threads 1 ${2:+"$2"}
