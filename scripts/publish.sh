#!/bin/sh
# Publishes crates from a copy of the last commit that has the project's addresses in it. It takes any arguments of
# cargo publish, such as
#
#     scripts/publish.sh --dry-run -p rlock-machine -p rlock-links -p rlock-client -p rlock-multi -p rlock-cli
set -eu
cd "$(dirname "$0")/.."

scripts/addresses.sh require
[ ! -e "${CARGO_TARGET_DIR:-target}/dist/DRAFT" ] || {
    echo "publish: ${CARGO_TARGET_DIR:-target}/dist is a draft: run make dist without DRAFT" >&2
    exit 1
}
copy=${CARGO_TARGET_DIR:-target}/publish
rm -rf "$copy"
mkdir -p "$copy"
git archive HEAD | tar -x -C "$copy"
scripts/addresses.sh fill "$copy"
cd "$copy"
# CARGO may hold arguments, such as `cargo +stable`.
# shellcheck disable=SC2086
exec ${CARGO:-cargo} publish --locked "$@"
