#!/bin/sh
# Writes what the module and the command consist of, as CycloneDX, into FOLDER. scripts/dist.sh calls it. cargo-cyclonedx is built into
# .deps once, if it is not installed.
#
#   scripts/sbom.sh FOLDER
set -eu
folder=$(realpath -m "$1")
cd "$(dirname "$0")/.."

version=0.5.9
tools=$PWD/.deps/tools
export PATH="$tools/bin:$PATH"
if ! command -v cargo-cyclonedx >/dev/null 2>&1; then
    echo "sbom: building cargo-cyclonedx $version" >&2
    # It runs for seconds. CARGO may hold arguments, such as `cargo +stable`.
    # shellcheck disable=SC2086
    ${CARGO:-cargo} install --quiet --debug --locked --root "$tools" --version "$version" cargo-cyclonedx
fi

# It writes beside the manifests.
copy=$(realpath -m "${CARGO_TARGET_DIR:-target}")/sbom
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
mkdir -p "$folder"
for run in first second; do
    rm -rf "$copy"
    mkdir -p "$copy"
    git archive HEAD | tar -x -C "$copy"
    for package in . crates/rlock-cli; do
        (cd "$copy/$package" && cargo-cyclonedx cyclonedx --quiet --format json --spec-version 1.5 --no-build-deps --target x86_64-unknown-linux-gnu --override-filename sbom)
    done
    release=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
    for part in module:. command:crates/rlock-cli; do
        file=$folder/rlock-$release-${part%%:*}.cdx.json
        # Without this machine's paths.
        sed "s|$copy|rlock|g" "$copy/${part#*:}/sbom.json" >"$copy/sbom"
        [ $run = first ] || cmp "$copy/sbom" "$file"
        mv "$copy/sbom" "$file"
        python3 - "$file" <<'END'
import json, sys
components = json.load(open(sys.argv[1]))["components"]
without = [part["name"] for part in components if not part.get("purl") or not part.get("licenses")]
assert components and not without, f"without an address or a licence: {without}"
END
    done
done
rm -rf "$copy"
