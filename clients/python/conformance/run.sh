#!/bin/sh
# The driver program, in the environment that `check.sh driver` has made.
exec "${CARGO_TARGET_DIR:-../../target}/clients/python/newest/bin/python" conformance/driver.py
