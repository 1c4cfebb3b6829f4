#!/bin/sh
# Tries a Debian package of rlock: installs it, does with it what its README.Debian says, on the distribution's
# own redis-server, removes it, and looks for what is left. `make deb-test` calls it.
#
# It installs into a directory of its own; with CI=true after that into the system too, and whatever it cannot try is a
# failure then: who is not root, or has no man, is told. The server listens on a socket only, and reads a copy of the
# configuration.
set -eu
cd "$(dirname "$0")/.."

package=$(find "${CARGO_TARGET_DIR:-target}/debian" -maxdepth 1 -name 'rlock_*.deb')
server=${REDIS_SERVER:-redis-server}
cli=${REDIS_CLI:-redis-cli}
# The newest version of the C library that the package may need: that of Debian 12, Ubuntu 22.04 and RHEL 9, at most.
newest_glibc=2.34

work=$(mktemp -d)
pid=
exporter=
installed=
finish() {
    [ -z "$exporter" ] || kill "$exporter" 2>/dev/null || true
    [ -z "$pid" ] || kill "$pid" 2>/dev/null || true
    [ -z "$installed" ] || dpkg -P rlock >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM
# For the server's own user.
chmod 0755 "$work"

die() {
    echo "deb-test: $*" >&2
    [ ! -s "$work/server.log" ] || tail -n 20 "$work/server.log" >&2
    exit 1
}
# What is not tried is told, and is a failure where all has to be tried.
left_out() { # WHY
    [ "${CI:-}" != true ] || die "$* (with CI=true that is a failure)"
    echo "deb-test: $*" >&2
}
expect() { # WHAT EXPECTED FOUND
    [ "$2" = "$3" ] || die "$1: expected '$2', found '$3'"
}

# --- What is needed ---------------------------------------------------------------------------

[ "$(id -u)" = 0 ] || left_out "not root: the package is unpacked, not installed"
wanted=
command -v man >/dev/null 2>&1 || wanted='man-db'
command -v systemd-analyze >/dev/null 2>&1 || wanted="$wanted systemd"
if [ -n "$wanted" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "deb-test: installing $wanted" >&2
    {
        apt-get update -qq || true
        # shellcheck disable=SC2086 # a list
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $wanted || true
    } >&2
fi
analyze=$(command -v systemd-analyze) || left_out "systemd-analyze is missing (package systemd): the unit is not looked at"
man=$(command -v man) || left_out "man is missing (package man-db): the manual pages are not looked at"

# --- What is in it ------------------------------------------------------------------------

files() { dpkg-deb --fsys-tarfile "$package" | tar -t | sed -n 's|^\.\(/.*[^/]\)$|\1|p'; }

# Links between pages, and names of pages in texts and manual pages, that lead nowhere.
missing_pages() { # DIRECTORY
    find "$1" -name '*.md' | while read -r page; do
        { sed '/^<!--/d' "$page" | grep -o '\](<\{0,1\}[^)#> ]*' || true; } | sed 's/^](<\{0,1\}//' | grep -v '^\(https\{0,1\}:.*\)\{0,1\}$' | sort -u |
            while read -r link; do
                [ -e "$(dirname "$page")/$link" ] || echo "${page#"$1"/}: $link"
            done
    done
    for text in "$1"/README.Debian "$work"/man/*; do
        { grep -o '[A-Za-z/-]*\.md' "$text" || true; } | sort -u | while read -r name; do
            [ -e "$1/${name#docs/}" ] || echo "${text##*/}: $name"
        done
    done
}

look_into() { # ROOT
    expect "the module's mode" 755 "$(stat -c %a "$1/usr/lib/redis/modules/librlock.so")"
    expect "the command's mode" 755 "$(stat -c %a "$1/usr/bin/rlock")"
    for file in usr/lib/redis/modules/librlock.so usr/bin/rlock; do
        needs=$(objdump -T "$1/$file" | sed -n 's/.*GLIBC_\([0-9.]*\).*/\1/p' | sort -uV | tail -n 1)
        expect "glibc $needs, which $file needs, and the limit" "$newest_glibc" \
            "$(printf '%s\n%s\n' "$needs" "$newest_glibc" | sort -V | tail -n 1)"
        # The servers' units forbid memory that is writable and executable.
        if readelf -lW "$1/$file" | grep -q 'GNU_STACK.*RWE'; then die "$file wants an executable stack"; fi
    done
    pages=0
    for page in "$1"/usr/share/man/man1/rlock*.1.gz; do
        if [ -n "$man" ]; then
            expect "warnings about ${page##*/}" "" "$(LC_ALL=C.UTF-8 MANROFFSEQ='' man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null)"
        fi
        pages=$((pages + 1))
    done
    "$1/usr/bin/rlock" man --dir "$work/man"
    expect "manual pages" "$(find "$work/man" -type f | wc -l)" "$pages"
    bash -n "$1/usr/share/bash-completion/completions/rlock"
    expect "the mode of the exporter's file, which has a password" 640 "$(stat -c %a "$1/etc/default/rlock-exporter")"
    cmp packaging/prometheus/rlock.rules.yml "$1/usr/share/rlock/prometheus/rlock.rules.yml" || die "the alerts differ"
    "$1/usr/bin/rlock" dashboard | cmp - "$1/usr/share/rlock/grafana/rlock.json" || die "the dashboard differs"
    expect "pages that others link to, and that are missing" "" "$(missing_pages "$1/usr/share/doc/rlock")"
    expect "the command's version" "rlock $(dpkg-deb -f "$package" Version | sed 's/-[^-]*$//')" "$("$1/usr/bin/rlock" --version)"
}

# --- With a server ------------------------------------------------------------------------

# The distribution's configuration, if it can be read, with the line of README.Debian.
configure() { # ROOT
    for file in /etc/redis/redis.conf "$(dirname "$server")/../../etc/redis/redis.conf" "$(dirname "$server")/../root/etc/redis/redis.conf"; do
        if [ -r "$file" ]; then
            cat "$file" >"$work/redis.conf"
            break
        fi
    done
    line=$(sed -n 's/^ *\(loadmodule .*\)/\1/p' "$1/usr/share/doc/rlock/README.Debian")
    expect "the line of README.Debian" "loadmodule /usr/lib/redis/modules/librlock.so" "$line"
    printf '%s\n' "loadmodule $1${line#loadmodule }" >>"$work/redis.conf"
    # Debian's unit of redis-server executes nothing elsewhere.
    unit=/lib/systemd/system/redis-server.service
    if [ -r "$unit" ]; then
        grep -q '^ExecPaths=.* /usr/lib\( \|$\)' "$unit" || die "the unit of redis-server lets it execute other paths than README.Debian says"
    fi
}

# As the user that the distribution's unit names, where we may: it has to read what root installed.
start() {
    mkdir -p "$work/data"
    as=
    if [ "$(id -u)" = 0 ] && id redis >/dev/null 2>&1; then
        as="setpriv --reuid=redis --regid=redis --clear-groups"
        chown -R redis: "$work/data" "$work/redis.conf"
    fi
    # shellcheck disable=SC2086 # a command with arguments, or nothing
    (cd "$work/data" && exec $as "$server" "$work/redis.conf" --daemonize no --supervised no --port 0 --unixsocket "$work/data/socket" \
        --unixsocketperm 777 --dir "$work/data" --pidfile "$work/data/pid" --logfile '""' --save '""') >"$work/server.log" 2>&1 &
    pid=$!
    tries=0
    until [ "$("$cli" -s "$work/data/socket" PING 2>/dev/null)" = PONG ]; do
        tries=$((tries + 1))
        if [ "$tries" -gt 300 ] || ! kill -0 "$pid" 2>/dev/null; then die "the server does not start"; fi
        sleep 0.1
    done
}

stop() {
    kill "$pid"
    wait "$pid" || true
    pid=
    rm -rf "$work/data" "$work/redis.conf" "$work/server.log"
}

lock_and_release() { # ROOT
    call() { "$cli" -s "$work/data/socket" "$@" | xargs; }
    expect "ACQUIRE" "1 30000 0" "$(call RLOCK.ACQUIRE invoice:7 alice:1 30000)"
    expect "ACQUIRE by another" "" "$(call RLOCK.ACQUIRE invoice:7 bob:1 30000)"
    expect "RELEASE" 1 "$(call RLOCK.RELEASE invoice:7 alice:1)"
    REDIS_URL=unix://$work/data/socket
    export REDIS_URL
    "$1/usr/bin/rlock" ping >"$work/ping" || die "rlock ping: $(cat "$work/ping")"
    # shellcheck disable=SC2016 # expanded by the shell under the lock
    out=$("$1/usr/bin/rlock" run invoice:7 -- sh -c '"$0" status invoice:7 | head -n 1' "$1/usr/bin/rlock")
    case $out in "invoice:7  held, "*) ;; *) die "rlock run: $out" ;; esac
    expect "rlock status" "invoice:7  free" "$("$1/usr/bin/rlock" status invoice:7)"
    # The container's health is asked for by the same command.
    health=$(sed -n 's/^HEALTHCHECK .* CMD \["rlock", "\(.*\)"\]$/\1/p' Dockerfile)
    "$1/usr/bin/rlock" "${health:?}" >/dev/null || die "the Dockerfile's health check fails: $health"
    if REDIS_URL=unix://$work/nowhere "$1/usr/bin/rlock" "$health" >/dev/null 2>&1; then
        die "the Dockerfile's health check finds a server where there is none"
    fi
}

# As the unit starts it, as another user than root.
exporter() { # ROOT
    unit=$1/lib/systemd/system/rlock-exporter.service
    # shellcheck disable=SC2016 # systemd expands it
    for line in EnvironmentFile=/etc/default/rlock-exporter 'ExecStart=/usr/bin/rlock exporter $ARGS' DynamicUser=yes; do
        grep -qxF "$line" "$unit" || die "the unit of the exporter has no $line"
    done
    expect "ARGS" "--listen 127.0.0.1:9821" "$(sed -n 's/^ARGS="\(.*\)"$/\1/p' "$1/etc/default/rlock-exporter")"
    if [ -e "$1/etc/systemd/system/multi-user.target.wants/rlock-exporter.service" ]; then die "the exporter is on"; fi
    # Exposure in tenths: 12 in systemd 252, most of it for the network. Versions before 250 do not look at files.
    if [ -n "$analyze" ] && "$analyze" --help | grep -q -e --offline; then
        "$analyze" security --offline=true --threshold=15 --no-pager "$unit" >"$work/exposure" 2>&1 ||
            die "the unit is exposed: $(tail -n 1 "$work/exposure")"
    fi
    as=
    [ "$(id -u)" != 0 ] || as="setpriv --reuid=65534 --regid=65534 --clear-groups"
    : >"$work/exporter.log"
    # shellcheck disable=SC2086 # a command with arguments, or nothing
    REDIS_URL=unix://$work/data/socket $as "$1/usr/bin/rlock" exporter --listen 127.0.0.1:0 2>"$work/exporter.log" &
    exporter=$!
    tries=0
    until port=$(sed -n 's|.*serves http://127.0.0.1:\([0-9]*\)/metrics$|\1|p' "$work/exporter.log") && [ -n "$port" ]; do
        tries=$((tries + 1))
        if [ "$tries" -gt 100 ]; then die "the exporter does not start: $(cat "$work/exporter.log")"; fi
        sleep 0.1
    done
    # shellcheck disable=SC2016 # expanded by bash
    bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$1" && printf "GET /metrics HTTP/1.0\r\n\r\n" >&3 && cat <&3' - "$port" >"$work/metrics"
    grep -q '^rlock_up{.*} 1$' "$work/metrics" || die "the exporter does not see the server: $(cat "$work/metrics" "$work/exporter.log")"
    kill "$exporter"
    wait "$exporter" || die "the exporter does not end well: $(cat "$work/exporter.log")"
    exporter=
}

try() { # ROOT
    look_into "$1"
    configure "$1"
    start
    lock_and_release "$1"
    exporter "$1"
    stop
}

# --- Installed, and removed ---------------------------------------------------------------

gone() { # ROOT
    files | while read -r file; do
        [ ! -e "$1$file" ] || die "left after the removal: $1$file"
    done
}

# A root of its own, in which nothing else is; the package's scripts run outside of it, and are told where it is.
in_a_directory() {
    root=$work/root
    mkdir -p "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/triggers" "$root/etc/redis"
    : >"$root/var/lib/dpkg/status"
    if [ "$(id -u)" != 0 ]; then
        dpkg-deb -x "$package" "$root"
        try "$root"
        echo "deb-test: unpacked into a directory, and tried"
        return
    fi
    dpkg="dpkg --root=$root --force-script-chrootless --force-depends --log=$work/dpkg.log"
    $dpkg -i "$package" >"$work/installed" 2>&1 || die "dpkg -i: $(cat "$work/installed")"
    grep -q 'no server loads the module yet' "$work/installed" || die "the installation tells nothing: $(cat "$work/installed")"
    try "$root"
    echo " loadmodule /usr/lib/redis/modules/librlock.so accept no" >"$root/etc/redis/redis.conf"
    $dpkg -r rlock >"$work/removed" 2>&1 || die "dpkg -r: $(cat "$work/removed")"
    grep -q 'redis.conf still loads the module' "$work/removed" || die "the removal does not warn: $(cat "$work/removed")"
    [ -e "$root/etc/default/rlock-exporter" ] || die "the removal deletes the exporter's configuration"
    $dpkg -P rlock >"$work/purged" 2>&1 || die "dpkg -P: $(cat "$work/purged")"
    gone "$root"
    expect "what is left" "$root/etc/redis/redis.conf" "$(find "$root" -path "$root/var/lib/dpkg" -prune -o -type f -print)"
    [ ! -e "$root/usr" ] || die "directories are left: $(find "$root/usr")"
    echo "deb-test: installed into a directory, tried and removed"
}

in_the_system() {
    if dpkg -s rlock >/dev/null 2>&1; then
        echo "deb-test: removing what an earlier run left when it was killed" >&2
        dpkg -P rlock >/dev/null 2>&1
    fi
    for file in /usr/bin/rlock /usr/lib/redis/modules/librlock.so; do
        [ ! -e "$file" ] || die "$file is there already: not installing over it"
    done
    installed=1
    dpkg -i "$package" >"$work/installed" 2>&1 || die "dpkg -i: $(cat "$work/installed")"
    try ""
    # Programs and pages that it names are looked for, so here only.
    if [ -n "$analyze" ]; then
        "$analyze" verify /lib/systemd/system/rlock-exporter.service >"$work/unit" 2>&1 || die "the unit: $(cat "$work/unit")"
        expect "faults of the unit" "" "$(cat "$work/unit")"
        # Those of docs/JOBS.md start the command that is installed now.
        for unit in service timer; do
            sed 's|/usr/local/bin/report$|/bin/true|' "packaging/jobs/report.$unit" >"$work/report.$unit"
        done
        "$analyze" verify "$work/report.timer" "$work/report.service" >"$work/unit" 2>&1 || die "packaging/jobs: $(cat "$work/unit")"
        expect "faults of packaging/jobs" "" "$(cat "$work/unit")"
    fi
    dpkg -P rlock >"$work/purged" 2>&1 || die "dpkg -P: $(cat "$work/purged")"
    installed=
    gone ""
    if dpkg -s rlock >/dev/null 2>&1; then die "dpkg still knows the package"; fi
    echo "deb-test: installed into the system, tried and removed"
}

in_a_directory
if [ "${CI:-}" = true ]; then in_the_system; fi
