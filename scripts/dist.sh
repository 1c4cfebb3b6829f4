#!/bin/sh
# Gathers what a release gives out in target/dist: the packages, which are made already, a tarball for each target, and the sums of all.
# `make dist` calls it. With DRAFT=1 it does not need the project's addresses, and adds a file DRAFT.
set -eu
cd "$(dirname "$0")/.."

[ -n "${DRAFT:-}" ] || scripts/addresses.sh require

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
cd "$dist"
sha256sum rlock* >SHA256SUMS
cat SHA256SUMS
echo "dist: skipped: two images, which docker build makes, and the crates: scripts/publish.sh"
