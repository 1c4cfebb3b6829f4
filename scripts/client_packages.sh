#!/bin/sh
# Builds the packages for PyPI, npm and Maven from a copy of the last commit with the project's addresses, and checks each as its registry
# does. `make client-packages` calls it. It uploads nothing. Addresses that are not set are made up. clients/go/check.sh packs that for Go.
set -eu
cd "$(dirname "$0")/.."

copy=$(realpath -m "${CARGO_TARGET_DIR:-target}")/client-packages
rm -rf "$copy"
mkdir -p "$copy"
git archive HEAD | tar -x -C "$copy"
tools=$(scripts/python_tools.sh build==1.6.1 hatchling==1.33.0 twine==7.0.0)
cd "$copy"
sed -i 's|^\(repository\) = ""|\1 = "https://host.invalid/owner/rlock"|; s|^\(maintainer\) = ""|\1 = "A Name <name@host.invalid>"|
    s|^\(security\) = ""|\1 = "security@host.invalid"|; s|^\(signing\) = ""|\1 = "RWQinvalid"|' packaging/addresses.toml
scripts/addresses.sh fill .

die() {
    echo "client packages: $*" >&2
    exit 1
}

python() {
    cd "$copy/clients/python"
    PYTHONPATH=$tools python3 -m build --no-isolation --outdir dist . >log 2>&1 || { cat log >&2; exit 1; }
    PYTHONPATH=$tools python3 -m twine check --strict dist/*
}

# npm says that it would publish what it does not: a package that is private, or whose files are missing.
npm_package() {
    cd "$copy/clients/javascript"
    npm ci --no-audit --no-fund --loglevel=error
    npm publish --dry-run --json >published.json 2>log || { cat log >&2; exit 1; }
    # shellcheck disable=SC2016 # expanded by node
    node -e '
        const manifest = require("./package.json"), published = require("./published.json")
        const packed = new Set((published.files ?? published[manifest.name].files).map((file) => "./" + file.path))
        const named = (value) => (typeof value === "object" ? Object.values(value).flatMap(named) : [value])
        const missing = [manifest.main, manifest.types, ...named(manifest.exports)].filter((file) => !packed.has(file) && file !== "./package.json")
        const unset = ["name", "version", "description", "license", "repository", "engines"].filter((field) => !manifest[field])
        if (missing.length + unset.length) throw `missing files: ${missing}; missing fields: ${unset}`
        if (manifest.private) console.log("npm: the package is private until the project owns its name: clients/names.toml")
        console.log(`npm: ${packed.size} files, ${published.size ?? published[manifest.name].size} bytes`)
    '
}

# The elements and files that Maven Central requires.
maven() {
    for name in java java-shedlock java-spring; do
        cd "$copy/clients/$name"
        mvn --quiet --batch-mode -P release -DskipTests install
        for element in name description url licenses/license/name developers/developer/name developers/developer/email scm/connection scm/url; do
            python3 - "$element" <<'END' || die "clients/$name/pom.xml has no $element"
import sys, xml.etree.ElementTree as tree
path = "/".join("{*}" + name for name in sys.argv[1].split("/"))
sys.exit(0 if tree.parse("pom.xml").findtext(path) else 1)
END
        done
        for kind in sources javadoc; do
            [ -s "$(echo target/*-$kind.jar)" ] || die "clients/$name: no jar of its $kind"
        done
        (cd target && echo maven: *.jar)
    done
}

(python)
(npm_package)
(maven)
