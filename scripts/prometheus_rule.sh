#!/bin/sh
# Makes packaging/kubernetes/monitoring/prometheusrule.yaml from Prometheus' file of rules. With --check it says only whether they agree.
set -eu
cd "$(dirname "$0")/.."

rules=packaging/prometheus/rlock.rules.yml
made=packaging/kubernetes/monitoring/prometheusrule.yaml

rule() {
    echo "# Made from $rules by scripts/prometheus_rule.sh: change that file, and run the script."
    cat <<'END'
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: rlock
spec:
END
    # The comment at its top is about Prometheus' own file.
    sed -n '/^groups:/,$s/^\(.\)/  \1/p;/^$/p' "$rules"
}

case ${1:-} in
--check)
    rule | diff -u "$made" - >&2 || {
        echo "$made is not what $rules says: run scripts/prometheus_rule.sh" >&2
        exit 1
    }
    ;;
*) rule >"$made" ;;
esac
