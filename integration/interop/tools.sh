#!/bin/sh
# Makes sure that the languages of `make interop` are there. What is missing is installed by package name where
# this machine's apt may do so; else it is named, and that is a failure.
set -eu

have() { command -v "$1" >/dev/null 2>&1; }

# The packages of Debian that bring what is missing.
missing() {
    have java && have javac || echo default-jdk-headless
    have mvn || echo maven
    have python3 || echo python3
    python3 -c 'import ensurepip' 2>/dev/null || echo python3-venv
    have node || echo nodejs
    have npm || echo npm
    have go || echo golang-go
}

packages=$(missing | xargs)
[ -n "$packages" ] || exit 0

as_root=
[ "$(id -u)" = 0 ] || as_root="sudo -n"
if have apt-get && $as_root true 2>/dev/null; then
    echo "interop: installing $packages" >&2
    # shellcheck disable=SC2086 # lists of words
    $as_root apt-get update >/dev/null || true
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y --no-install-recommends $packages >/dev/null || true
fi
packages=$(missing | xargs)
if [ -n "$packages" ]; then
    echo "interop: missing, and could not be installed: $packages" >&2
    exit 1
fi
