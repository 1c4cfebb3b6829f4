#!/bin/sh
set -eu
cd "$(dirname "$0")"
out=$(realpath -m "${CARGO_TARGET_DIR:-../../target}")/clients/go
mkdir -p "$out"
go build -o "$out/driver" ./conformance
