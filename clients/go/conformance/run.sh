#!/bin/sh
# The driver program that `check.sh driver` has built.
exec "${CARGO_TARGET_DIR:-../../target}/clients/go/driver"
