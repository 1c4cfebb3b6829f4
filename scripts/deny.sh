#!/bin/sh
# Checks the crates that the project uses: licences, versions, sources, and known vulnerabilities (deny.toml). `make deny`
# calls it. cargo-deny is built into .deps once, if it is not installed.
set -eu
cd "$(dirname "$0")/.."

version=0.20.2
tools=$PWD/.deps/tools
export PATH="$tools/bin:$PATH"
if ! command -v cargo-deny >/dev/null 2>&1; then
    echo "deny: building cargo-deny $version" >&2
    # CARGO may hold arguments, such as `cargo +stable`.
    # shellcheck disable=SC2086
    ${CARGO:-cargo} install --quiet --locked --root "$tools" --version "$version" cargo-deny
fi

cargo-deny --locked check licenses bans sources
# From a git repository on the network, and not from the registry that the crates come from.
if cargo-deny fetch db; then
    cargo-deny --locked check --disable-fetch advisories
else
    echo "deny: known vulnerabilities are NOT checked: RustSec's database could not be fetched" >&2
fi
