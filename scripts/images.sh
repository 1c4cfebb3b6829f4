#!/usr/bin/env bash
# Builds the images of the server and the exporter from the unchanged Dockerfile, starts them as packaging/compose.yml says, and tries
# them; `make images` calls it, as root on Debian 12. Their base images are stand-ins, made of Debian's packages, this machine's Rust and the
# server of integration/servers.sh: the real ones stay untested. Docker's daemon is started for this run only, with all its data in
# target/images; it changes neither bridges nor firewall, and the containers run in a network without the machine's.
set -euo pipefail
cd "$(dirname "$0")/.."

place=$PWD/${CARGO_TARGET_DIR:-target}/images
servers=$PWD/target/servers
export PATH=$place/tools/usr/sbin:$place/tools/usr/bin:$PATH
export DOCKER_HOST=unix://$place/docker.sock
# The builder that needs no plugin.
export DOCKER_BUILDKIT=0
# A password for this run alone, in containers that only this machine reaches.
export EXPORTER_PASSWORD=secret

say() { printf 'images: %4s s  %s\n' "$SECONDS" "$*"; }
die() {
    printf 'images: %s\n' "$*" >&2
    exit 1
}

# Runs a command that takes long: its output goes to a log, whose last line shows every ten seconds how far it is.
quietly() { # LOG COMMAND...
    local log=$place/$1.log pid
    shift
    "$@" >"$log" 2>&1 <&0 &
    pid=$!
    while ! timeout 10 tail --pid="$pid" -f /dev/null; do
        # Without Docker's colours.
        say "  $(sed 's/\x1b\[[0-9]*m//g' "$log" | tr -d '\r' | grep . | tail -n 1 | cut -c 1-100)"
    done
    wait "$pid" || { tail -n 30 "$log" >&2; die "failed: $*"; }
}

# Unpacked and not installed: an installed package would start its daemon, now and with every boot.
get_tools() {
    [ -e "$place/tools" ] && return
    command -v apt-get >/dev/null 2>&1 || die "the stand-ins are made of Debian's packages: run this on Debian 12"
    say "getting Docker"
    rm -rf "$place/tools.part"
    mkdir "$place/tools.part"
    (
        cd "$place/tools.part" || exit
        get() { apt-get download -qq -o APT::Sandbox::User=root docker.io containerd runc libdevmapper1.02.1 mmdebstrap; }
        get || { apt-get update -qq && get; } || exit
        for package in *.deb; do dpkg-deb -x "$package" . && rm "$package" || exit; done
    ) >&2 || die "no packages of Docker: the lines above say why"
    mv "$place/tools.part" "$place/tools"
}

start_daemon() {
    say "starting Docker's daemon"
    # Else it takes the machine's settings, and writes a key beside them.
    echo "{\"deprecated-key-path\": \"$place/key.json\"}" >"$place/daemon.json"
    LD_LIBRARY_PATH=$(echo "$place"/tools/lib/*-linux-gnu) \
        dockerd --config-file "$place/daemon.json" --data-root "$place/data" --exec-root "$place/exec" \
        --pidfile "$place/docker.pid" --host "$DOCKER_HOST" --group root --bridge=none --iptables=false --ip6tables=false \
        --ip-forward=false --ip-masq=false --cgroup-parent /rlock-images >"$place/dockerd.log" 2>&1 &
    for _ in $(seq 150); do
        ! docker version >/dev/null 2>&1 || return 0
        kill -0 $! 2>/dev/null || break
        sleep 0.2
    done
    tail -n 20 "$place/dockerd.log" >&2
    die "dockerd does not run on this machine: the lines above say why"
}

# Docker's programs and debian.tar stay for the next run.
clean() {
    local jobs
    # shellcheck disable=SC2046 # a list of names
    docker rm -f $(docker ps -aq 2>/dev/null) >/dev/null 2>&1 || true
    jobs=$(jobs -p)
    # shellcheck disable=SC2086 # a list of processes
    [ -z "$jobs" ] || { kill $jobs 2>/dev/null || true; wait; }
    umount "$place"/exec/netns/* 2>/dev/null || true
    rmdir /sys/fs/cgroup{,/*}/rlock-images 2>/dev/null || true
    rm -rf "$place"/{data,exec,configs,docker.pid,docker.sock,daemon.json,key.json,stand-in.tar}
}

# The base image whose name begins so.
base() { sed -n "s,^\(FROM\|ARG SERVER\)[ =]\($1[^ ]*\).*,\2,p" Dockerfile | head -n 1; }

debian() {
    if [ ! -e "$place/debian.tar" ]; then
        say "unpacking Debian"
        quietly debian mmdebstrap --format=tar --variant=minbase --include=ca-certificates bookworm "$place/debian.tar.part"
        mv "$place/debian.tar.part" "$place/debian.tar"
    fi
    cp "$place/debian.tar" "$place/stand-in.tar"
}

# Adds files of FOLDER to the next stand-in, in /opt/stand-in.
with() { # FOLDER FILE...
    tar -C "$1" --dereference --transform 's,^,opt/stand-in/,' --owner 0 --group 0 -rf "$place/stand-in.tar" "${@:2}"
}

# Makes an image of it, with these settings.
stand_in() { # NAME SETTING...
    local name=$1 setting
    local -a changes=()
    say "making a stand-in of $name"
    for setting in 'ENV PATH=/opt/stand-in/bin:/usr/sbin:/usr/bin:/sbin:/bin' "${@:2}"; do changes+=(--change "$setting"); done
    docker import "${changes[@]}" "$place/stand-in.tar" "$name" >/dev/null
    rm "$place/stand-in.tar"
}

stand_in_rust() {
    local name version root authorities
    name=$(base rust) version=${name#*:} version=${version%%-*}
    root=$(rustup run "$version" rustc --print sysroot) || die "Rust $version is missing: rustup toolchain install $version --profile minimal"
    # Those of a company's proxy too, which cargo needs.
    authorities=$(readlink -f "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}")
    debian
    with "$root" bin lib
    with "$(dirname "$authorities")" "$(basename "$authorities")"
    stand_in "$name" "ENV CARGO_HTTP_CAINFO=/opt/stand-in/$(basename "$authorities")"
    quietly stand-in docker build --network host -t "$name" - <<END
FROM $name
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
END
}

# Like the real one it does not run the server as root, and takes arguments that begin with - as the server's.
stand_in_server() {
    local name found
    name=$(base valkey)
    quietly servers integration/servers.sh "$servers" "valkey-${name#*:}"
    found=$(printf '%s\n' "$servers/valkey-${name#*:}".* | head -n 1)
    debian
    with "$found" bin lib libexec
    stand_in "$name" 'VOLUME /data' 'WORKDIR /data' \
        'ENTRYPOINT ["sh", "-c", "chown 999:999 . && exec setpriv --reuid 999 --regid 999 --clear-groups valkey-server \"$@\"", "sh"]'
}

build() { # NAME
    say "building the image of the $1"
    quietly "$1" docker build --network host --target "$1" -t "rlock-$1" .
}

start() { # NAME OPTION...
    local words
    local -a list
    words=$(PYTHONPATH=$yaml python3 scripts/compose_words.py "$1" "$place/configs")
    mapfile -t list <<<"$words"
    docker run -d --name "$1" "${@:2}" "${list[@]}" >/dev/null
}

# Waits until the server's container is in this state of health.
await() { # STATE
    local state
    for _ in $(seq 120); do
        state=$(docker inspect -f '{{.State.Health.Status}}' server)
        [ "$state" != "$1" ] || { say "the server is $1"; return; }
        sleep 1
    done
    docker inspect -f '{{json .State}}' server >&2
    docker logs server 2>&1 | tail -n 20 >&2
    die "the server is $state, not $1"
}

# The exporter's image has no program for it.
scrape() {
    # shellcheck disable=SC2016 # for the shell in the container
    docker exec server bash -c 'exec 3<>/dev/tcp/127.0.0.1/9821 && printf "GET /metrics HTTP/1.0\r\n\r\n" >&3 && cat <&3'
}

# Waits until the exporter's metrics have this line.
measures() { # LINE
    local metrics
    for _ in $(seq 60); do
        metrics=$(scrape 2>&1 || true)
        if grep -qxF "$1" <<<"$metrics"; then say "the exporter says $1" && return; fi
        sleep 1
    done
    printf '%s\n' "$metrics" >&2
    docker logs exporter >&2
    die "the exporter does not say $1"
}

refuse_writes() { # REPLICAS
    docker exec server valkey-cli config set min-replicas-to-write "$1" >/dev/null
}

try_services() {
    mkdir -p "$place/configs"
    say "starting both"
    start server --network none --add-host server:127.0.0.1
    start exporter --network container:server
    await healthy
    docker exec server rlock run try --no-wait -- rlock status try | grep '^try .*held' || die "the lock is not held"
    { docker exec server rlock status try || true; } | grep '^try .*free' || die "the lock is not free again"
    measures 'rlock_up{server="server:6379"} 1'
    measures 'rlock_writes_refused{server="server:6379",code=""} 0'
    refuse_writes 1
    measures 'rlock_writes_refused{server="server:6379",code="NOREPLICAS"} 1'
    await unhealthy
    refuse_writes 0
    await healthy
}

[ "$(id -u)" = 0 ] || die "Docker's daemon needs root"
mkdir -p "$place"
get_tools
! docker version >/dev/null 2>&1 || die "another run has a daemon: end it, or kill process $(cat "$place/docker.pid")"
trap clean EXIT
trap 'exit 1' HUP INT TERM
clean
yaml=$(scripts/python_tools.sh PyYAML==6.0.2)
start_daemon
debian
stand_in "$(base debian)"
stand_in_rust
stand_in_server
build server
build exporter
try_services
docker images --format 'images: {{.Repository}} has {{.Size}}' | grep ' rlock-'
say "both images work on stand-ins of $(base debian), $(base rust) and $(base valkey); the real ones are untested"
