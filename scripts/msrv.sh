#!/bin/sh
# Builds what users build, the module, the client and the command, with the oldest Rust that Cargo.toml promises. `make msrv`
# calls it. rustup installs that version if it is missing.
set -eu
cd "$(dirname "$0")/.."

want=$(sed -n 's/^rust-version *= *"\([0-9.]*\)".*/\1/p' Cargo.toml | head -n 1)
command -v rustup >/dev/null 2>&1 || {
    echo "msrv: rustup is missing, and with it a way to get Rust $want: https://rustup.rs" >&2
    exit 1
}
rustup run "$want" rustc --version >/dev/null 2>&1 ||
    rustup toolchain install "$want" --profile minimal --no-self-update >&2
# A folder of its own: in the other one each version would build everything anew.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/msrv"
exec rustup run "$want" cargo check --quiet --locked -p rlock-module -p rlock-client -p rlock-multi -p rlock-cli
