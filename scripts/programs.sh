#!/bin/sh
# Builds programs of the workspace in the dev profile: programs.sh NAME...
#
# Beside an example, and so with the features of the tests: with those of its own package, most crates that a program needs would be
# compiled once more.
set -eu
cd "$(dirname "$0")/.."
# CARGO may hold arguments, such as `cargo +stable`.
# shellcheck disable=SC2086,SC2046
exec ${CARGO:-cargo} build --quiet --locked --workspace --example clock $(printf -- '--bin %s ' "$@")
