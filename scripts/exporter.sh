#!/bin/sh
# Checks what is for Prometheus and Grafana: the rules, their copy for Kubernetes and their tests, the configuration, and the
# exporter scraped by a real Prometheus. `make exporter` calls it. Debian's package `prometheus` has both programs; where they are
# not installed, the package is unpacked into .deps: to install it would start a server.
set -eu
cd "$(dirname "$0")/.."

unpacked=$PWD/.deps/prometheus
if ! command -v prometheus >/dev/null 2>&1 || ! command -v promtool >/dev/null 2>&1; then
    if [ ! -x "$unpacked/usr/bin/promtool" ]; then
        echo "exporter: unpacking the package prometheus" >&2
        mkdir -p "$unpacked"
        get() { (cd "$unpacked" && apt-get download -qq prometheus && dpkg-deb -x prometheus_*.deb .) >&2; }
        if ! command -v apt-get >/dev/null 2>&1 || ! { get || { apt-get update -qq >&2 && get; }; }; then
            echo "exporter: prometheus and promtool are missing: install Prometheus" >&2
            exit 1
        fi
    fi
    PATH=$unpacked/usr/bin:$PATH
    export PATH
fi

scripts/prometheus_rule.sh --check
promtool check rules packaging/prometheus/rlock.rules.yml
promtool test rules packaging/prometheus/rlock.rules.test.yml
promtool check config packaging/prometheus/prometheus.yml
# CARGO may hold arguments, such as `cargo +stable`.
# shellcheck disable=SC2086
exec ${CARGO:-cargo} test --quiet --locked --workspace --test prometheus
