#!/bin/bash
# servers.sh TARGET [NAME-GLOB...]
#
# Makes Redis, Valkey and Redict servers of several versions runnable from TARGET without
# installing anything: TARGET/<flavour>-<version>/bin/{redis,valkey}-{server,cli,...}.
# A machine needs bash, apt, dpkg and Debian's archive keyring; no root, no other host than
# the archive that its apt already uses. Nothing of the system's apt state is read or written
# but its configuration (proxy, credentials, certificates) and its source URIs.
#
#   servers.sh t                 everything below
#   servers.sh t 'redis-8*'      only what matches (flavour-major.minor, see plan below)
#   SERVERS_REFRESH=1 servers.sh t   ask the archive again for newer package revisions
#   SERVERS_KEEP=1 ...           keep the package indexes under TARGET/.cache (about 280 MB)
#   SERVERS_ARCH=arm64 SERVERS_RUN=qemu-aarch64-static ...   those of another architecture, with what runs its programs
#
# TARGET/servers.tsv lists what is there: name, flavour, version, package version, suite, and
# the paths of server and cli. Exit status: 0 all had, 3 some skipped, 1 nothing had.
#
# How: one private apt state per family of suites; `apt-get update` there checks the signature
# of InRelease, `apt-get download` checks each .deb against the signed index. Each server gets
# the shared libraries its packages depend on, with the suite's own libc and ld.so where those
# are newer than this machine's; where they are older it uses this machine's libc (so that a
# module built here, which may need this machine's libc, still loads).
# Notes of style, none of them a fault here.
# shellcheck disable=SC1007,SC1091,SC2012,SC2013,SC2015,SC2016,SC2094
set -u
set -o pipefail
export LC_ALL=C

# flavour-major.minor | family | package | suite it is taken from
plan='
redis-6.0   bullseye redis-server  bullseye
redis-7.0   bookworm redis-server  bookworm
valkey-8.0  bookworm valkey-server bookworm-backports
redict-7.3  bookworm redict-server bookworm-backports
redis-8.0   trixie   redis-server  trixie
valkey-8.1  trixie   valkey-server trixie
redis-8.0s  sid      redis-server  sid
redis-8.6   sid      redis-server  experimental
valkey-9.1  sid      valkey-server sid
'
# The key's version is only a label to select by; the folder is named by the version found.

say() { printf '%s\n' "$*"; }
die() { printf 'servers.sh: %s\n' "$*" >&2; exit 1; }

[ $# -ge 1 ] || die "usage: servers.sh TARGET [NAME-GLOB...]"
mkdir -p -- "$1" || die "cannot make $1"
T=$(cd -- "$1" && pwd -P) || exit 1
shift
case $T in *[[:space:]\"\;]*) die "no blanks, quotes or semicolons in TARGET, please: $T" ;; esac
C=$T/.cache
mkdir -p "$C"
exec 9>"$C/lock"
if command -v flock >/dev/null; then flock 9; fi
rm -rf "$C"/new.* "$C"/old.* "$C"/x # what an interrupted run left
mkdir -p "$C/x"

wanted() { # key globs...
    local k=$1 g; shift
    [ $# -eq 0 ] && return 0
    for g in "$@"; do
        # shellcheck disable=SC2254
        case $k in $g) return 0 ;; esac
    done
    return 1
}

# --- what is still to do -------------------------------------------------------------------
todo=
while read -r key family pkg suite; do
    [ -n "$key" ] || continue
    wanted "$key" "$@" || continue
    if [ -z "${SERVERS_REFRESH:-}" ] && [ -f "$C/have/$key" ] &&
        [ -x "$T/$(cut -f1 "$C/have/$key")/bin/server" ]; then
        continue
    fi
    todo="$todo$key $family $pkg $suite
"
done <<<"$plan"

# --- where the archive is, from this machine's own apt configuration -------------------------
archive_uris() { # prints "<release> <uri>" of every binary index apt knows of
    {
        apt-get --no-release-info indextargets --format '$(CREATED_BY) $(RELEASE) $(REPO_URI)' 2>/dev/null |
            sed -n 's/^Packages //p'
        # apt without --no-release-info lists only what it has downloaded: read the files too
        eval "$(apt-config shell L Dir::Etc::SourceList/f P Dir::Etc::SourceParts/d)"
        cat "${L:-/etc/apt/sources.list}" "${P:-/etc/apt/sources.list.d}"/*.list 2>/dev/null |
            sed -nE 's/^[[:space:]]*deb[[:space:]]+(\[[^]]*\][[:space:]]+)?([^[:space:]]+)[[:space:]]+([^[:space:]]+).*/\3 \2/p'
        awk 'BEGIN { RS=""; FS="\n" }
            { u=s=""
              for (i=1; i<=NF; i++) {
                  if ($i ~ /^[Uu][Rr][Ii][Ss]:/) { u=$i; sub(/^[^:]*:/, "", u) }
                  if ($i ~ /^[Ss][Uu][Ii][Tt][Ee][Ss]:/) { s=$i; sub(/^[^:]*:/, "", s) } }
              n=split(u, U, " "); m=split(s, S, " ")
              for (i=1; i<=n; i++) for (j=1; j<=m; j++) print S[j], U[i] }' \
            "${P:-/etc/apt/sources.list.d}"/*.sources 2>/dev/null
    } | awk 'NF == 2 && !seen[$0]++'
}

arch=${SERVERS_ARCH:-$(dpkg --print-architecture)} || die "dpkg is needed"
run=${SERVERS_RUN:-}
host_libc=$(dpkg-query -W -f '${Version}' "libc6:$arch" 2>/dev/null || echo 0)
code=$(. /etc/os-release 2>/dev/null; echo "${VERSION_CODENAME:-}")
main= sec= key_opt=
if [ -n "$todo" ]; then
    uris=$(archive_uris)
    # the archive: the URI that serves this machine's own release; the security archive likewise
    main=$(awk -v c="$code" '$1 == c { print $2; exit }' <<<"$uris")
    [ -n "$main" ] || main=$(awk '$1 ~ /^(stable|oldstable|testing|unstable|sid|trixie|forky)$/ { print $2; exit }' <<<"$uris")
    sec=$(awk -v c="$code-security" '$1 == c || $1 ~ /^(old)?stable-security$/ { print $2; exit }' <<<"$uris")
    [ -n "$main" ] || die "no archive for '$code' in this machine's apt configuration"
    for k in /usr/share/keyrings/debian-archive-keyring.gpg /usr/share/keyrings/debian-archive-keyring.pgp; do
        [ -r "$k" ] && key_opt="[signed-by=$k] " && break
    done
fi

# --- one private apt per family --------------------------------------------------------------
family_suites() {
    case $1 in
        sid) echo "sid experimental" ;;
        bullseye) echo "bullseye bullseye-updates" ;;
        *) echo "$1 $1-updates $1-backports" ;;
    esac
}

apt_setup() { # family: writes the private state, sets A (its folder)
    A=$C/apt/$1
    # apt takes a .deb that is already there for good by its size alone: start with none
    rm -rf "$A/debs"
    mkdir -p "$A/lists/partial" "$A/cache/archives/partial" "$A/debs" "$A/none"
    : >"$A/status"
    local s
    {
        for s in $(family_suites "$1"); do say "deb $key_opt$main $s main"; done
        [ -n "$sec" ] && [ "$1" != sid ] && say "deb $key_opt$sec $1-security main"
    } >"$A/sources.list"
    # read after the system's configuration; the system's update hooks must not run for us
    cat >"$A/apt.conf" <<EOF
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear APT::Update::Pre-Invoke;
#clear APT::Default-Release;
Dir::Etc::SourceList "$A/sources.list";
Dir::Etc::SourceParts "$A/none";
Dir::Etc::Preferences "$A/none/none";
Dir::Etc::PreferencesParts "$A/none";
Dir::State "$A";
Dir::State::status "$A/status";
Dir::State::Lists "$A/lists";
Dir::Cache "$A/cache";
Dir::Cache::archives "$A/cache/archives";
Dir::Cache::pkgcache "pkgcache.bin";
Dir::Cache::srcpkgcache "";
Dir::Log "$A";
Acquire::Languages "none";
Acquire::PDiffs "false";
Acquire::Retries "3";
Acquire::AllowInsecureRepositories "false";
Acquire::AllowWeakRepositories "false";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::IndexTargets::deb::DEP-11-icons-small::DefaultEnabled "false";
Acquire::IndexTargets::deb::DEP-11-icons::DefaultEnabled "false";
Acquire::IndexTargets::deb::DEP-11-icons-hidpi::DefaultEnabled "false";
Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
APT::Get::AllowUnauthenticated "false";
APT::Architecture "$arch";
EOF
}
aget() { apt-get -qq -c "$A/apt.conf" "$@"; }
acache() { apt-cache -c "$A/apt.conf" "$@"; }

# The RANKth newest version of a package in a suite (or in its -security, -updates).
version_in() { # package suite rank
    acache madison "$1" | awk -F' *[|] *' -v s="$2" '
        { split($3, f, " "); split(f[2], r, "/")
          if (r[1] == s || r[1] == s "-security" || r[1] == s "-updates") print $2 }' |
        sort -u | {
            all=() n=$3
            while read -r v; do all+=("$v"); done
            while [ ${#all[@]} -gt 0 ]; do
                best=0
                for i in "${!all[@]}"; do
                    if dpkg --compare-versions "${all[i]}" gt "${all[best]}"; then best=$i; fi
                done
                n=$((n - 1))
                if [ $n -eq 0 ]; then say "${all[best]}"; break; fi
                unset "all[best]"
                all=(${all[@]+"${all[@]}"})
            done
        }
}

# All that a server needs: its own source's packages at its version, libraries at the best version.
# Follows Depends and Pre-Depends of names that are libraries only. Prints "package version".
closure() { # version package...
    local v=$1 level q p; shift
    local seen=" " own=" "
    level="$*"
    for p in $level; do own="$own$p "; done
    while [ -n "${level// /}" ]; do
        q=
        for p in $level; do
            case $seen in *" $p "*) continue ;; esac
            seen="$seen$p "
            case $own in
                *" $p "*) q="$q $p=$v" ;;
                *) q="$q $p" ;;
            esac
        done
        [ -n "$q" ] || break
        # shellcheck disable=SC2086
        acache show --no-all-versions $q 2>/dev/null >"$A/show.$$" || true
        awk '/^Package: /{p=$2} /^Version: /{print p, $2}' "$A/show.$$"
        level=$(sed -nE 's/^(Pre-)?Depends: //p' "$A/show.$$" | tr ',' '\n' |
            sed -E 's/^ *//; s/[ (|:].*//' | grep -E '^(lib|lua|zlib)' | sort -u | tr '\n' ' ')
    done
    rm -f "$A/show.$$"
}

skip() { say "skip $1: $2"; say "$1: $2" >>"$C/skipped"; }

# --- unpack, check, publish ------------------------------------------------------------------
unpack_debs() { # "package version" lines on stdin; sets U list in $A/unpacked.$1
    local p v d f
    while read -r p v; do
        d=$C/x/${p}_${v//[:\/]/_}
        if [ ! -d "$d" ]; then
            f=$(ls "$A/debs/${p}_${v//:/%3a}"_*.deb 2>/dev/null | head -n1)
            [ -n "$f" ] || { say "missing .deb: $p $v" >&2; return 1; }
            rm -rf "$d.new.$1" && dpkg -x "$f" "$d.new.$1" || return 1
            # two families may share a package: whoever is first wins
            mv -T "$d.new.$1" "$d" 2>/dev/null || rm -rf "$d.new.$1"
        fi
        say "$d"
    done
}

publish() { # key package version suite name flavour upstream closure-file
    local key=$1 pkg=$2 ver=$3 suite=$4 name=$5 flavour=$6 up=$7 cl=$8
    local N=$C/new.$key.$$ dirs libc d f b real ldso own p v rc=0
    rm -rf "$N"; mkdir -p "$N/bin" "$N/lib" "$N/libexec"
    libc=$(awk '$1 == "libc6" {print $2}' "$cl")
    own=
    [ -n "$libc" ] && dpkg --compare-versions "$libc" gt "$host_libc" && own=1
    dirs=$(unpack_debs "$key" <"$cl") || { rc=1; }
    [ $rc -eq 0 ] || { rm -rf "$N"; return 1; }
    for d in $dirs; do
        case ${d##*/} in
            libc6_* | libgcc-s1_* | libcrypt1_*) [ -n "$own" ] || continue ;;
        esac
        # the libraries, flat, links and all
        for f in "$d"/lib/*.so* "$d"/lib/*-linux-gnu*/*.so* "$d"/lib64/*.so* \
            "$d"/usr/lib/*.so* "$d"/usr/lib/*-linux-gnu*/*.so*; do
            [ -e "$f" ] || [ -L "$f" ] || continue
            [ -d "$f" ] && continue
            b=${f##*/}
            if [ -L "$f" ]; then
                real=$(readlink "$f"); real=${real##*/}
                [ "$real" = "$b" ] || ln -sf "$real" "$N/lib/$b"
            else
                [ -L "$N/lib/$b" ] && rm -f "$N/lib/$b"
                ln "$f" "$N/lib/$b" 2>/dev/null || cp -f "$f" "$N/lib/$b"
            fi
        done
        # Lua's own modules, which Debian's Redis 6.0 loads by path (without them it has no cjson)
        for f in "$d"/usr/lib/*-linux-gnu*/lua/5.1/*.so; do
            [ -e "$f" ] || continue
            mkdir -p "$N/lib/lua"
            cp -L "$f" "$N/lib/lua/${f##*/}"
        done
        # the programs
        case ${d##*/} in
            redis* | valkey* | redict*)
                for f in "$d"/usr/bin/*; do
                    b=${f##*/}
                    case $b in redis-* | valkey-* | redict-*) ;; *) continue ;; esac
                    if [ -L "$f" ]; then
                        real=$(readlink "$f"); say "$b ${real##*/}" >>"$N/links"
                    else
                        ln "$f" "$N/libexec/$b" 2>/dev/null || cp -f "$f" "$N/libexec/$b"
                        say "$b $b" >>"$N/links"
                    fi
                done
                ;;
        esac
    done
    if [ -n "$own" ]; then
        ldso=$(cd "$N/lib" && ls ld-linux*.so.* ld64.so.* ld.so.* 2>/dev/null | head -n1)
        [ -n "$ldso" ] || { say "no ld.so in libc6 $libc" >&2; rm -rf "$N"; return 1; }
        ln -s "$ldso" "$N/lib/ld.so"
    else
        for f in /lib64/ld-linux-*.so.* /lib/ld-linux-*.so.* /lib64/ld64.so.*; do
            [ -e "$f" ] && ln -s "$f" "$N/lib/ld.so" && break
        done
    fi
    # wrappers; a name is also given to its cousins, so that one script can drive all of them
    while read -r b real; do
        # a link to a link (redis-server -> redis-check-rdb -> ...) is followed by name
        while [ ! -f "$N/libexec/$real" ]; do
            f=$(awk -v r="$real" '$1 == r {print $2; exit}' "$N/links")
            [ -n "$f" ] && [ "$f" != "$real" ] || break
            real=$f
        done
        [ -f "$N/libexec/$real" ] || continue
        cat >"$N/bin/$b" <<EOF
#!/bin/sh
d=\$(readlink -f -- "\$0") || exit 127
d=\${d%/bin/*}
$([ ! -d "$N/lib/lua" ] || say 'LUA_CPATH="$d/lib/lua/?.so"; export LUA_CPATH')
exec $run "\$d/lib/ld.so" --library-path "\$d/lib" --argv0 "\$d/bin/$b" "\$d/libexec/$real" "\$@"
EOF
        chmod 755 "$N/bin/$b"
    done <"$N/links"
    rm -f "$N/links"
    # sentinel is the server under another name: its package holds only a link and a unit
    if [ ! -e "$N/bin/$flavour-sentinel" ] && [ -f "$N/bin/$flavour-server" ]; then
        sed "s,/bin/$flavour-server\",/bin/$flavour-sentinel\"," "$N/bin/$flavour-server" >"$N/bin/$flavour-sentinel"
        chmod 755 "$N/bin/$flavour-sentinel"
    fi
    for b in server cli benchmark sentinel check-aof check-rdb; do
        [ -f "$N/bin/$flavour-$b" ] || continue
        ln -s "$flavour-$b" "$N/bin/$b"
        [ -e "$N/bin/redis-$b" ] || ln -s "$flavour-$b" "$N/bin/redis-$b"
    done
    cp "$cl" "$N/PACKAGES"
    # proof that it runs from here: every library found, none of them the system's where it has its own libc
    # shellcheck disable=SC2086 # a command, or nothing
    f=$($run "$N/lib/ld.so" --library-path "$N/lib" --list "$N/libexec/$(sed -n 's/.*libexec\/\([^"]*\)".*/\1/p' "$N/bin/server" | head -n1)" 2>&1)
    if grep -q 'not found' <<<"$f"; then
        say "unmet: $(grep 'not found' <<<"$f" | head -n3 | tr -s '\n\t ' ' ')" >&2; rm -rf "$N"; return 1
    fi
    # nothing from the system but what belongs to its libc, and that only where the server has none of its own
    f=$(awk -v n="$N/" '$2 == "=>" && index($3, n) != 1 && $1 !~ /ld-linux|\/ld/ {print $1}' <<<"$f")
    [ -n "$own" ] || f=$(grep -vE '^lib(c|m|dl|rt|pthread|resolv|crypt|gcc_s|util|anl)\.so' <<<"$f")
    if [ -n "$f" ]; then say "would use the system's $(tr '\n' ' ' <<<"$f")" >&2; rm -rf "$N"; return 1; fi
    f=$("$N/bin/server" --version 2>&1) || { say "does not start: $f" >&2; rm -rf "$N"; return 1; }
    case $f in *v="$up "*) ;; *) say "says '$f', not $up" >&2; rm -rf "$N"; return 1 ;; esac
    "$N/bin/cli" --version >/dev/null 2>&1 || { say "its cli does not start" >&2; rm -rf "$N"; return 1; }
    rm -rf "$C/old.$key.$$"
    [ -e "$T/$name" ] && mv -T "$T/$name" "$C/old.$key.$$"
    mv -T "$N" "$T/$name" || return 1
    rm -rf "$C/old.$key.$$"
    mkdir -p "$C/have"
    printf '%s\t%s\t%s\t%s\t%s\n' "$name" "$flavour" "$up" "$ver" "$suite" >"$C/have/$key.new" &&
        mv "$C/have/$key.new" "$C/have/$key"
    say "got  $name  ($pkg $ver, $suite${own:+, own libc $libc})"
}

try_rank() { # family rank "key family pkg suite" lines on stdin; says what it did, leaves what failed in $A/failed
    local fam=$1 rank=$2 key family pkg suite ver up flavour name need err out
    : >"$A/work"; : >"$A/failed"
    while read -r key family pkg suite; do
        ver=$(version_in "$pkg" "$suite" "$rank")
        if [ -z "$ver" ]; then
            say "$key $family $pkg $suite|no$([ "$rank" = 1 ] || say " other") $pkg in $suite" >>"$A/failed"
            continue
        fi
        up=${ver#*:}; up=${up%-*}; up=${up%%[+~]*}
        flavour=${pkg%-server}
        name=$flavour-$up
        if [ -f "$C/have/$key" ] && [ "$(cut -f1,4 "$C/have/$key")" = "$name	$ver" ] && [ -x "$T/$name/bin/server" ]; then
            say "have $name  ($pkg $ver, $suite)"
            continue
        fi
        closure "$ver" "$flavour-server" "$flavour-tools" | awk '!seen[$1]++' >"$A/closure.$key"
        say "$key $family $pkg $suite $ver $name $flavour $up" >>"$A/work"
    done
    [ -s "$A/work" ] || return 0
    # one download for all; apt checks size and hash of each against the signed index
    need=$(cut -d' ' -f1 "$A/work" | while read -r key; do cat "$A/closure.$key"; done | sort -u |
        while read -r p v; do
            ls "$A/debs/${p}_${v//:/%3a}"_*.deb >/dev/null 2>&1 || printf '%s=%s ' "$p" "$v"
        done)
    err=
    if [ -n "$need" ]; then
        # shellcheck disable=SC2086
        err=$(cd "$A/debs" && aget download $need 2>&1 | grep '^E:' | sed 's,[a-z+]*://[^ ]*/,,')
    fi
    while read -r key family pkg suite ver name flavour up; do
        if out=$(publish "$key" "$pkg" "$ver" "$suite" "$name" "$flavour" "$up" "$A/closure.$key" 2>&1); then
            say "$out" | tail -n1
        else
            say "$key $family $pkg $suite|$pkg $ver: $(tail -n1 <<<"$out" | cut -c1-200)${err:+ (apt: $(head -n1 <<<"$err" | cut -c1-160))}" >>"$A/failed"
        fi
    done <"$A/work"
}

family_run() { # family
    local err line rank why
    apt_setup "$1"
    err=$(aget update 2>&1 | grep -E '^[EW]:' | sed 's,[a-z+]*://[^ ]*/,,' | head -n1 | cut -c1-160)
    awk -v f="$1" '$2 == f' <<<"$todo" >"$A/todo"
    # a revision that the index names and the archive no longer has: then the one before it
    try_rank "$1" 1 <"$A/todo"
    if [ -s "$A/failed" ]; then
        mv "$A/failed" "$A/failed.1"
        cut -d'|' -f1 "$A/failed.1" >"$A/todo"
        try_rank "$1" 2 <"$A/todo"
        while IFS='|' read -r line _; do
            why=$(grep -F "$line|" "$A/failed.1" | cut -d'|' -f2-)
            skip "${line%% *}" "$why${err:+ (apt update: $err)}"
        done <"$A/failed"
    fi
}

rm -f "$C/skipped"
if [ -n "$todo" ]; then
    pids=
    for fam in $(awk '{print $2}' <<<"$todo" | sort -u); do
        family_run "$fam" </dev/null &
        pids="$pids $!"
    done
    # shellcheck disable=SC2086
    wait $pids
    rm -rf "$C/x"
    [ -n "${SERVERS_KEEP:-}" ] || rm -rf "$C/apt"
fi

# --- the list --------------------------------------------------------------------------------
{
    while read -r key family pkg suite; do
        [ -n "$key" ] && [ -f "$C/have/$key" ] || continue
        IFS='	' read -r name flavour up ver suite <"$C/have/$key"
        [ -x "$T/$name/bin/server" ] || continue
        printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$name" "$flavour" "$up" "$ver" "$suite" \
            "$T/$name/bin/$flavour-server" "$T/$name/bin/$flavour-cli"
    done <<<"$plan"
} >"$C/servers.tsv.new" && mv "$C/servers.tsv.new" "$T/servers.tsv"
cat "$T/servers.tsv"
[ -s "$T/servers.tsv" ] || exit 1
[ ! -s "$C/skipped" ] || exit 3
exit 0
