#!/bin/sh
# Compares the manifests of the clients with clients/names.toml, and finds names that stand nowhere there; `make lint` calls it.
set -eu
cd "$(dirname "$0")/.."

name() { sed -n "s/^$1 *= *\"\(.*\)\" *\$/\1/p" clients/names.toml; }
failed=0
fault() {
    echo "names: $*" >&2
    failed=1
}
# A manifest has this line, whatever is before and after it.
has() { grep -qF -- "$2" "$1" || fault "$1: no line with $2"; }

go=$(name go)
maven=$(name maven)
has clients/go/go.mod "module $go"
for artifact in java java-shedlock java-spring; do
    has "clients/$artifact/pom.xml" "<groupId>$maven</groupId>"
done
has clients/javascript/package.json "\"name\": \"$(name npm)\""
has clients/javascript/package.json '"private": true'
has clients/python/pyproject.toml "name = \"$(name pypi)\""
has clients/python/pyproject.toml '"Private :: Do Not Upload"'
for crate in $(name crates); do
    has "crates/$crate/Cargo.toml" "name = \"$crate\""
    has "crates/$crate/Cargo.toml" 'publish = false'
done

# Names under which users would fetch other packages. Projects of integration and lab are installed nowhere.
strays() { # WHAT PATTERN ALLOWED
    found=$(git grep -nIE -e "$2" -- . ':!scripts/names.sh' | grep -vE -e "$3" || true)
    [ -z "$found" ] || fault "$1:
$found"
}
strays "another path of the Go module than $go" '[a-z0-9-]+\.[a-z]+/([A-Za-z0-9_.-]+/)*rlock[A-Za-z0-9_-]*/client|rlock\.[a-z]+/client' \
    "(^|[^A-Za-z0-9./-])$go"
strays "another group of Maven than $maven" '<groupId>[^<]*rlock[^<]*<' "<groupId>$maven<"
# docs/RELEASING.md tells what a release will be.
strays 'an installation by name, from a registry' \
    '(pip3?|npm|yarn|pnpm|cargo|uv) (install|add|i) ([^|&]* )?rlock[-_](client|cli|multi)( |`|$)' '--path |^docs/RELEASING.md:'
exit "$failed"
