#!/bin/sh
# Gathers what a release gives out in target/dist: the Debian package and its debug symbols, made already, a tarball
# for other systems, and the sums of all. `make dist` calls it.
set -eu
cd "$(dirname "$0")/.."

scripts/addresses.sh require

target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)
stage=$target/debian/stage
dist=$target/dist
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
name=rlock-$version-linux-$(uname -m)

rm -rf "$dist"
mkdir -p "$dist/$name"
# As they are in the package: without debug information, which has a package of its own.
cp "$stage/debian/rlock/usr/lib/redis/modules/librlock.so" "$stage/debian/rlock/usr/bin/rlock" "$dist/$name/"
cp -r LICENSE CHANGELOG.md docs/COMMANDS.md docs/FENCING.md docs/SAFETY.md docs/REDISSON.md docs/ERRORS.md docs/CHAOS.md docs/pictures "$stage/redis.conf" "$stage/third-party-licences" \
    "$stage/man" "$stage/completions" packaging/prometheus "$stage/grafana" docs/OPERATIONS.md "$dist/$name/"
# The same change gives the same tarball.
tar -C "$dist" --sort=name --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w \
    --mtime="@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}" -cf - "$name" | gzip -9n >"$dist/$name.tar.gz"
rm -r "${dist:?}/$name"
cp "$target"/debian/*.deb "$dist/"
cd "$dist"
sha256sum ./*.deb ./*.tar.gz | sed 's|\./||' >SHA256SUMS
cat SHA256SUMS
