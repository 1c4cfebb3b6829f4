#!/bin/sh
# Gathers what a release gives out in target/dist: the packages, which are made already, a tarball for each target, and the sums of all.
# `make dist` calls it. KEY is the file of the release's secret key, by which minisign signs the sums. With DRAFT=1 it needs neither that
# nor the project's addresses, and adds a file DRAFT.
set -eu
cd "$(dirname "$0")/.."

[ -n "${DRAFT:-}" ] || scripts/addresses.sh require
public=$(scripts/addresses.sh get signing)

target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)
stage=$target/debian/stage
dist=$target/dist
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

# The same change gives the same tarball.
pack() { # NAME
    tar -C "$dist" --sort=name --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w \
        --mtime="@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}" -cf - "$1" | gzip -9n >"$dist/$1.tar.gz"
    rm -r "${dist:?}/$1"
}

# A draft has a key of its own, which is gone afterwards.
sign() {
    command -v minisign >/dev/null 2>&1 || apt-get install -y -qq --no-install-recommends minisign >/dev/null
    if [ -n "${DRAFT:-}" ]; then
        KEY=$dist/draft.key
        minisign -G -W -p draft.pub -s "$KEY" >/dev/null
        public=$(tail -n 1 draft.pub)
    fi
    minisign -S -s "$KEY" -m SHA256SUMS -t "rlock $version" >/dev/null
    minisign -Q -V -P "$public" -m SHA256SUMS
    rm -f draft.key
}

rm -rf "$dist"
mkdir -p "$dist"
[ -z "${DRAFT:-}" ] || echo "rlock $version as of $(git log -1 --format=%h): not a release, never to be published" >"$dist/DRAFT"
for built in "$target"/targets/*-linux-*; do
    triple=${built##*/}
    name=rlock-$version-linux-${triple##*-}-${triple%%-*}
    echo "dist: packing $name"
    mkdir "$dist/$name"
    cp "$built/librlock.so" "$target/targets/${triple%-*}-musl/rlock" "$dist/$name/"
    cp -r LICENSE CHANGELOG.md docs/COMMANDS.md docs/FENCING.md docs/SAFETY.md docs/REDISSON.md docs/ERRORS.md docs/CHAOS.md docs/pictures "$stage/redis.conf" \
        "$stage/man" "$stage/completions" packaging/prometheus "$stage/grafana" docs/OPERATIONS.md "$dist/$name/"
    cat "$stage/third-party-licences" "$target/targets/licences" >"$dist/$name/third-party-licences"
    pack "$name"
done
cp "$target"/debian/*.deb "$target"/packages/* "$dist/"
scripts/sbom.sh "$dist"
cd "$dist"
sha256sum rlock* >SHA256SUMS
cat SHA256SUMS
sign
echo "dist: skipped: two images, which docker build makes, and the crates: scripts/publish.sh"
