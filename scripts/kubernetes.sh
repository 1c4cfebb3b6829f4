#!/bin/sh
# Checks packaging/kubernetes: its rules are those of Prometheus, its kustomizations can be built, and each manifest is one that Kubernetes
# and Prometheus' operator take, without unknown fields. `make kubernetes` calls it. No cluster is asked, and no chart is rendered.
set -eu
cd "$(dirname "$0")/.."

# The oldest version of Kubernetes that is still maintained, and the newest.
versions='1.34.0 1.37.0'

command -v go >/dev/null 2>&1 || {
    echo "kubernetes: Go is missing: https://go.dev/dl" >&2
    exit 1
}
scripts/prometheus_rule.sh --check
tools=$(scripts/python_tools.sh kubernetes-validate==1.37.0)
made=$PWD/${CARGO_TARGET_DIR:-target}/kubernetes
rm -rf "$made"
mkdir -p "$made"
(cd scripts/kubernetes && go build -o "$made/check" .)
"$made/check" packaging/kubernetes "$made"
for version in $versions; do
    PYTHONPATH=$tools "$tools/bin/kubernetes-validate" --strict --no-warn -k "$version" "$made"/*.yaml >"$made/log" 2>&1 || {
        cat "$made/log" >&2
        exit 1
    }
done
echo "kubernetes: $(find "$made" -name '*.yaml' | wc -l) manifests are valid in Kubernetes $versions, and those of Prometheus' operator"
