#!/bin/sh
# Makes a Debian package of the module and the command, which are built already, by debhelper; `make deb` calls it.
#
#   scripts/deb.sh target/release/librlock.so target/release/rlock
set -eu
cd "$(dirname "$0")/.."

module=$1
command=$2
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)
stage=$target/debian/stage
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# What changes in the package alone counts up the second number.
version=$version-1

if ! command -v dh >/dev/null 2>&1 || ! command -v dpkg-shlibdeps >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "deb: installing debhelper and dpkg-dev" >&2
        {
            apt-get update -qq || true
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends debhelper dpkg-dev
        } >&2
    else
        echo "deb: debhelper or dpkg-dev is missing: apt-get install debhelper dpkg-dev" >&2
        exit 1
    fi
fi

rm -rf "$target/debian"
mkdir -p "$stage"
cp -r packaging/debian "$stage/debian"
# A release has all addresses: `make dist` refuses otherwise. The name of any other package says that it is none.
maintainer=$(scripts/addresses.sh get maintainer)
maintainer=${maintainer:-A local build of rlock <not-a-release@rlock.invalid>}
repository=$(scripts/addresses.sh get repository)
sed -i "s|@MAINTAINER@|$maintainer|${repository:+; s|^Rules-Requires-Root:|Homepage: $repository\\n&|}" "$stage/debian/control"
cp -r CHANGELOG.md docs packaging/prometheus "$stage/"
# Files that only the sources have are named in the package, not linked.
sed -zi 's,\[\([^]]*\)\](\(\.\./[^)]*\|bench\)),\1,g' "$stage"/docs/*.md
sed -zi 's|\[\([^]]*\)\](\.\./\.\./[^)]*)|\1|g' "$stage"/docs/clients/*.md
cp "$module" "$stage/librlock.so"
cp "$command" "$stage/rlock"
chmod 0755 "$stage/librlock.so" "$stage/rlock"
sed 's|\./target/release/librlock\.so|/usr/lib/redis/modules/librlock.so|' redis.conf >"$stage/redis.conf"
scripts/licences.sh >"$stage/third-party-licences"

"$command" man --dir "$stage/man"
mkdir "$stage/grafana"
"$command" dashboard >"$stage/grafana/rlock.json"
for completions in bash/rlock zsh/_rlock fish/rlock.fish; do
    mkdir -p "$stage/completions/${completions%/*}"
    "$command" completions "${completions%/*}" >"$stage/completions/$completions"
done

# The files' times in the package are the change's, so that the same change gives the same package.
when=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
cat >"$stage/debian/changelog" <<EOT
rlock ($version) unstable; urgency=medium

  * What is new is in changelog.gz.

 -- $maintainer  $(LC_ALL=C date -u -R -d "@$when")
EOT

cd "$stage"
if ! RLOCK_DEB_DIR=$target/debian debian/rules binary >"$target/debian/log" 2>&1; then
    cat "$target/debian/log" >&2
    exit 1
fi
ls "$target"/debian/*.deb
