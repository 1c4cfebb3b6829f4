#!/usr/bin/env bash
# Makes .rpm and .apk for both architectures, and .deb for arm64, of the files in Debian's package and those of scripts/targets.sh, by nfpm;
# `make packages` calls it. Each is made twice, identical, and listed; those of this machine's architecture are installed into an empty
# root, the .apk excepted. They are in target/packages.
set -euo pipefail
cd "$(dirname "$0")/.."

version=2.45.2
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
place=$target/packages
tools=$target/nfpm-$version
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { printf 'packages: %s\n' "$*"; }
die() {
    printf 'packages: %s\n' "$*" >&2
    exit 1
}

get_tools() {
    command -v rpm >/dev/null 2>&1 || apt-get install -y -qq --no-install-recommends rpm >/dev/null 2>&1 || die "rpm is missing: apt-get install rpm"
    # The shell in the root into which a package is installed.
    if [ ! -x "$tools/bin/busybox" ]; then
        (cd "$tools" && apt-get download -qq -o APT::Sandbox::User=root busybox-static && dpkg-deb -x busybox-static_*.deb .) >&2
    fi
    if [ ! -x "$tools/nfpm" ]; then
        command -v go >/dev/null 2>&1 || die "Go is missing: https://go.dev/dl"
        say "building nfpm $version"
        GOBIN=$tools GOFLAGS=-p=2 go install "github.com/goreleaser/nfpm/v2/cmd/nfpm@v$version"
    fi
}

# The files of the package, in the folder where nfpm runs.
stage() { # TARGET KIND
    rm -rf "${work:?}"/*
    cp -a "$target/debian/stage/debian/rlock" "$work/tree"
    mv "$work/tree/DEBIAN" "$work/debian"
    mv "$work/tree/etc/default/rlock-exporter" "$work"
    rm -r "$work/tree/etc"
    cp -r packaging/nfpm "$work"
    cp "$target/targets/$1/librlock.so" "$work/tree/usr/lib/redis/modules/"
    cp "$target/targets/${1%-*}-musl/rlock" "$work/tree/usr/bin/"
    gzip -9n <"$target/targets/licences" >>"$work/tree/usr/share/doc/rlock/third-party-licences.gz"
    [ "$2" != deb ] || return 0
    rm -r "$work/tree/usr/share/lintian" "$work"/tree/usr/share/doc/rlock/{README,changelog}.Debian*
    mv "$work"/tree/usr/share/zsh/{vendor-completions,site-functions}
    if [ "$2" = rpm ]; then
        mv "$work/tree/lib/systemd" "$work/tree/usr/lib/systemd"
        sed -i 's/ file:.*README.Debian$//' "$work"/tree/usr/lib/systemd/system/*
    fi
    rm -r "$work/tree/lib"
}

pack() { # TARGET KIND
    local name
    stage "$1" "$2"
    export ARCH=${1%%-*} VERSION MAINTAINER HOMEPAGE
    [ "$ARCH" = aarch64 ] && ARCH=arm64 || ARCH=amd64
    find "$work" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    for _ in first second; do
        name=$(cd "$work" && "$tools/nfpm" package -f nfpm/nfpm.yaml -p "$2" -t "$place" | sed -n 's/^created package: //p')
        if [ -e "$work/first" ]; then
            cmp "$work/first" "$name" || die "two runs differ: $name"
        fi
        cp "$name" "$work/first"
    done
    say "${name##*/}: $(stat -c %s "$name") bytes"
}

# A package's files with their modes, as tar lists them.
listed() { tar -tvf - | awk '{ print $1, $6 }' | sort -k 2; }

# The files of arm64's package are those of debhelper's, but for the lists that each tool adds.
look_into_debs() {
    local package
    for package in "$target"/debian/rlock_*.deb "$place"/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | listed | grep -v '/$' >"$work/list"
        if [ -e "$work/list.first" ]; then diff "$work/list.first" "$work/list" || die "these files differ in ${package##*/}"; fi
        cp "$work/list" "$work/list.first"
    done
}

# Nothing here could install them.
look_into_apks() {
    local package
    for package in "$place"/*.apk; do
        tar -tzf "$package" 2>/dev/null >"$work/list"
        for file in .PKGINFO .post-install .pre-deinstall usr/bin/rlock usr/lib/redis/modules/librlock.so; do
            grep -qx "$file" "$work/list" || die "${package##*/} has no $file"
        done
        say "${package##*/}: has what it should, not installed"
    done
}

try_rpms() {
    local package root=$work/root
    for package in "$place"/*.rpm; do
        rpm -K --nosignature "$package" | grep -q 'digests OK$' || die "${package##*/}: rpm -K finds wrong digests"
        rpm -qp --nosignature --qf '%{NAME} %{VERSION}-%{RELEASE} %{ARCH} %{LICENSE} %{BUILDHOST}\n' "$package"
    done
    package=$(echo "$place"/*."$(uname -m)".rpm)
    if [ "$(id -u)" != 0 ]; then
        say "skipped: not root, so ${package##*/} is not installed into a root folder"
        return
    fi
    mkdir -p "$root/bin" "$root/dev" "$root/etc/redis"
    cp "$tools/bin/busybox" "$root/bin/sh"
    ln -s sh "$root/bin/grep"
    local rpm=(rpm --root "$root" --nosignature --nodeps --force-debian)
    "${rpm[@]}" -i "$package" | grep -q 'no server loads the module yet' || die "the installation does not say what to do"
    cmp "$root/usr/lib/redis/modules/librlock.so" "$target/targets/$(uname -m)-unknown-linux-gnu/librlock.so"
    "${rpm[@]}" -V rlock || die "files differ from those in ${package##*/}"
    [ "$(chroot "$root" /usr/bin/rlock --version)" = "rlock $VERSION" ] || die "the installed command does not run"
    echo 'loadmodule /usr/lib/redis/modules/librlock.so' >"$root/etc/redis/redis.conf"
    "${rpm[@]}" -e rlock 2>&1 | grep -q 'redis.conf still loads the module' || die "the removal does not warn"
    [ -z "$(find "$root" -name '*rlock*')" ] || die "left after the removal: $(find "$root" -name '*rlock*')"
    say "${package##*/}: installed into a root folder, tried and removed"
}

mkdir -p "$tools"
get_tools
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
field() { dpkg-deb -f "$target"/debian/rlock_*.deb "$1"; }
VERSION=$(field Version | sed 's/-[^-]*$//') MAINTAINER=$(field Maintainer) HOMEPAGE=$(field Homepage)
rm -rf "$place"
mkdir -p "$place"
for arch in x86_64 aarch64; do
    pack $arch-unknown-linux-gnu rpm
    pack $arch-unknown-linux-musl apk
done
pack aarch64-unknown-linux-gnu deb
look_into_debs
look_into_apks
try_rpms
