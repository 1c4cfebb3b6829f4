#!/bin/sh
# Makes sure that the build and the tests find what they need: cargo, a C compiler, libclang
# and a Redis (or Valkey) server. Installs what is missing; writes .deps/env, which `make`
# sources. Once all is there it changes nothing and says nothing.
set -eu

cd "$(dirname "$0")/.."
top=$PWD
deps=$top/.deps
root=$deps/root # packages unpacked here when there are no rights to install them
log=$deps/setup.log
min_server=7

say() { printf 'setup: %s\n' "$*" >&2; }
die() {
    say "$@"
    exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

# --- Looking ----------------------------------------------------------------------------

check_cargo() {
    want=$(sed -n 's/^rust-version *= *"\([0-9.]*\)".*/\1/p' Cargo.toml | head -n 1)
    hint="install Rust $want or newer with rustup (https://www.rust-lang.org/tools/install)"
    # Unquoted: CARGO may hold arguments, such as `cargo +stable`.
    # shellcheck disable=SC2086
    got=$(${CARGO:-cargo} --version 2>/dev/null) || die "cargo was not found: $hint"
    got=${got#cargo }
    got=${got%% *}
    have rustc || [ -n "${RUSTC:-}" ] || die "cargo is here, but rustc was not found: $hint"
    awk -v got="${got%%-*}" -v want="$want" 'BEGIN {
        split(got, g, "."); split(want, w, ".")
        for (i = 1; i <= 3; i++) if (g[i] + 0 != w[i] + 0) exit g[i] + 0 < w[i] + 0
    }' || die "cargo is $got, too old for this project: $hint, or run 'rustup update'"
}

# What dpkg unpacked under .deps, made usable from there. Without effect when nothing was.
use_private() {
    private_env=
    [ -d "$root/usr" ] || return 0
    add=
    for dir in "$root"/usr/lib/*-linux-gnu* "$root"/lib/*-linux-gnu*; do
        [ ! -d "$dir" ] || add=$add:$dir
    done
    add=${add#:}
    private_env="export PATH=\"$deps/bin:$root/usr/bin:\$PATH\""
    [ -z "$add" ] || private_env="$private_env
export LD_LIBRARY_PATH=\"$add\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}\""
    if [ -e "$root/usr/include/stdio.h" ]; then
        inc=$root/usr/include
        for dir in "$inc"/*-linux-gnu*; do inc=$inc:$dir; done
        private_env="$private_env
export LIBRARY_PATH=\"$add\${LIBRARY_PATH:+:\$LIBRARY_PATH}\"
export C_INCLUDE_PATH=\"$inc\${C_INCLUDE_PATH:+:\$C_INCLUDE_PATH}\""
    fi
    eval "$private_env"
}

find_cc() {
    # The compiler alone does not link: the C library's headers are needed too.
    have cc && printf '#include <stdio.h>\n' | cc -E -x c - >/dev/null 2>&1
}

# The directory of libclang, searched for as clang-sys does. Sets libclang.
find_libclang() {
    libclang=
    if [ -n "${LIBCLANG_PATH:-}" ]; then
        if [ -f "$LIBCLANG_PATH" ]; then
            libclang=$(dirname "$LIBCLANG_PATH")
        elif is_libclang "$LIBCLANG_PATH"; then
            libclang=$LIBCLANG_PATH
        else
            die "LIBCLANG_PATH is set to $LIBCLANG_PATH, but there is no libclang there"
        fi
        return 0
    fi
    prefix=$("${LLVM_CONFIG_PATH:-llvm-config}" --prefix 2>/dev/null) || prefix=/usr/local
    # shellcheck disable=SC2046 # a list of directories
    for dir in "$prefix/lib" "$prefix/lib64" $(echo "${LD_LIBRARY_PATH:-}" | tr : ' ') "$root"/usr/lib/*-linux-gnu* \
        /usr/local/llvm*/lib* /usr/local/lib* /usr/local/lib*/* /usr/local/lib*/*/* \
        /usr/lib* /usr/lib*/* /usr/lib*/*/* /usr/local/opt/llvm*/lib /opt/homebrew/opt/llvm*/lib \
        /Library/Developer/CommandLineTools/usr/lib \
        /Applications/Xcode.app/Contents/Developer/Toolchains/XcodeDefault.xctoolchain/usr/lib; do
        if is_libclang "$dir"; then
            libclang=$dir
            return 0
        fi
    done
    return 1
}
is_libclang() {
    for lib in "$1"/libclang.so "$1"/libclang.so.* "$1"/libclang-[0-9]*.so \
        "$1"/libclang-[0-9]*.so.* "$1"/libclang.dylib; do
        [ ! -e "$lib" ] || return 0
    done
    return 1
}

major() { "$1" --version 2>/dev/null | sed -n 's/.*v=\([0-9]*\).*/\1/p'; }

# Sets server and cli; old_server when there is one, but too old.
find_server() {
    server='' cli='' old_server=''
    for name in ${REDIS_SERVER:+"$REDIS_SERVER"} ${REDIS_SERVER:-redis-server valkey-server}; do
        path=$(command -v "$name" 2>/dev/null) || continue
        version=$(major "$path")
        if [ "${version:-0}" -ge "$min_server" ]; then
            server=$path
            break
        fi
        old_server="$path is version ${version:-unknown}"
    done
    if [ -z "$server" ] && [ -n "${REDIS_SERVER:-}" ]; then
        die "REDIS_SERVER is set to $REDIS_SERVER, which is not a server of version $min_server.0 or newer${old_server:+ ($old_server)}"
    fi
    for name in "${REDIS_CLI:-${server%/*}/redis-cli}" "${server%/*}/valkey-cli" redis-cli valkey-cli; do
        if cli=$(command -v "$name" 2>/dev/null); then break; fi
        cli=
    done
    [ -n "$server" ] && [ -n "$cli" ]
}

# Sets missing, a list of: cc libclang server.
look() {
    use_private
    missing=
    find_cc || missing="$missing cc"
    find_libclang || missing="$missing libclang"
    find_server || missing="$missing server"
    case $missing in *server*)
        [ -z "$old_server" ] || die "$old_server: rlock needs Redis 7.0 or newer, or Valkey." \
            "Set REDIS_SERVER and REDIS_CLI to the programs of such a version."
        ;;
    esac
}

# --- Writing .deps/env ------------------------------------------------------------------

clang_headers() {
    for file in "$libclang"/clang/*/include/stddef.h "$libclang"/../lib*/clang/*/include/stddef.h \
        "$libclang"/../llvm*/lib/clang/*/include/stddef.h /usr/lib*/clang/*/include/stddef.h; do
        [ ! -e "$file" ] || return 0
    done
    return 1
}

write_env() {
    bindgen=
    case $libclang in "$root"/*)
        for file in "$root"/usr/lib/llvm-*/lib/clang/*/include/stddef.h; do
            [ ! -e "$file" ] || bindgen="-isystem '${file%/*}'"
        done
        ;;
    *)
        # libclang without its own headers: those of the C compiler do, after all others.
        clang_headers || bindgen="-idirafter '$(cc -print-file-name=include)'"
        ;;
    esac
    if [ -e "$root/usr/include/stdio.h" ]; then
        for dir in "$root"/usr/include "$root"/usr/include/*-linux-gnu*; do
            bindgen="$bindgen -isystem '$dir'"
        done
    fi
    mkdir -p "$deps"
    {
        echo "# Written by scripts/setup.sh; what is set in the environment already comes first."
        [ -z "$private_env" ] || echo "$private_env"
        # shellcheck disable=SC2016 # expanded by whoever sources it
        {
            echo "export REDIS_SERVER=\"\${REDIS_SERVER:-$server}\""
            echo "export REDIS_CLI=\"\${REDIS_CLI:-$cli}\""
            case $libclang in "$root"/* | /opt/homebrew/*)
                echo "export LIBCLANG_PATH=\"\${LIBCLANG_PATH:-$libclang}\"" ;;
            esac
            [ -z "$bindgen" ] ||
                echo "export BINDGEN_EXTRA_CLANG_ARGS=\"\${BINDGEN_EXTRA_CLANG_ARGS:-$bindgen}\""
        }
    } >"$deps/env.$$"
    # By several at once, as in ci-full: each has a file of its own.
    if cmp -s "$deps/env.$$" "$deps/env"; then rm "$deps/env.$$"; else mv "$deps/env.$$" "$deps/env"; fi
}

# --- Installing -------------------------------------------------------------------------

manager() {
    for name in apt-get dnf yum apk pacman zypper brew; do
        if have "$name"; then
            echo "$name"
            return
        fi
    done
}

# apt's options are in "$@" wherever they matter; none when it works on the system's own state.
apt_candidate() {
    name=$1
    shift
    apt-cache "$@" policy "$name" 2>/dev/null |
        sed -n 's/^ *Candidate: \([0-9]*:\)\{0,1\}\([0-9][0-9]*\)\..*/\2/p'
}
apt_packages() {
    case $missing in *cc*) echo gcc libc6-dev ;; esac
    case $missing in *libclang*)
        # libclang-dev would bring three times as much, of which bindgen uses these two.
        v=$(apt-cache "$@" depends libclang-dev 2>/dev/null |
            sed -n 's/.*Depends: libclang-\([0-9]*\)-dev$/\1/p' | head -n 1)
        if [ -n "$v" ]; then echo "libclang1-$v libclang-common-$v-dev"; else echo libclang-dev; fi
        ;;
    esac
    case $missing in *server*)
        redis=$(apt_candidate redis-server "$@")
        if [ "${redis:-0}" -ge "$min_server" ]; then
            echo redis-server redis-tools
        elif [ -n "$(apt_candidate valkey-server "$@")" ]; then
            echo valkey-server valkey-tools
        elif [ -z "$redis" ]; then
            say "apt-get knows no package redis-server or valkey-server (is the network there?)"
            return 1
        else
            say "the package redis-server is of version $redis here, rlock needs 7.0 or newer:" \
                "get a newer Redis or Valkey and set REDIS_SERVER and REDIS_CLI to its programs"
            return 1
        fi
        ;;
    esac
}

# Packages by the names of every other manager; $1 is the server's.
other_packages() {
    case $missing in *cc*)
        case $manager in apk) echo gcc musl-dev ;; dnf | yum | zypper) echo gcc glibc-devel ;; pacman) echo gcc ;; esac
        ;;
    esac
    case $missing in *libclang*)
        case $manager in apk) echo clang-libclang ;; pacman) echo clang ;; brew) echo llvm ;; *) echo clang-devel ;; esac
        ;;
    esac
    case $missing in *server*) echo "$1" ;; esac
}
other_install() {
    case $manager in
    dnf | yum) $manager install -y "$@" ;;
    apk) apk add --no-cache "$@" ;;
    # -Sy only when the local lists lack it: it asks for an upgrade of all the rest.
    pacman) pacman -S --needed --noconfirm "$@" || pacman -Sy --needed --noconfirm "$@" ;;
    zypper) zypper --non-interactive install "$@" ;;
    brew) brew install "$@" ;;
    esac
}

# Runs as root (for brew: as the user). All output goes to the log.
install_packages() {
    manager=$(manager)
    case $manager in
    apt-get) apt_install ;;
    *)
        # shellcheck disable=SC2046 # a list of names
        other_install $(other_packages redis) || other_install $(other_packages valkey)
        ;;
    esac
}
apt_install() {
    export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
    apt-get update || true # a broken source of something else is no reason to stop
    packages=$(apt_packages) || return 1
    # A developer's machine should get the program, not a server on port 6379: the package
    # must neither start its service now nor with the next boot.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        trap 'rm -f "$policy"' EXIT
        trap 'exit 1' HUP INT TERM
        # shellcheck disable=SC2016 # expanded by policy-rc.d
        printf '#!/bin/sh\ncase "$*" in *redis* | *valkey*) exit 101 ;; esac\n' >"$policy"
        chmod 755 "$policy"
    fi
    # shellcheck disable=SC2086 # a list of names
    apt-get install -y --no-install-recommends $packages || return 1
    case $packages in
    *redis-server*) update-rc.d redis-server disable || true ;;
    *valkey-server*) update-rc.d valkey-server disable || true ;;
    esac
}

# Without root: apt downloads and checks the packages, working on a state of its own, and
# dpkg unpacks them into the project.
private_install() {
    apt=$deps/apt
    rm -rf "$apt"
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$root" "$deps/bin"
    set -- -o Dir::State="$apt" -o Dir::State::lists="$apt/lists" \
        -o Dir::State::status=/var/lib/dpkg/status -o Dir::Cache="$apt/cache" \
        -o Dir::Cache::archives="$apt/cache/archives" -o Debug::NoLocking=1 \
        -o Acquire::Languages=none -o APT::Keep-Downloaded-Packages=true
    apt-get "$@" update || true
    packages=$(apt_packages "$@") || return 1
    # shellcheck disable=SC2086 # a list of names
    apt-get "$@" install --download-only -y --no-install-recommends $packages || return 1
    number=0
    total=$(find "$apt/cache/archives" -name '*.deb' | wc -l)
    for deb in "$apt"/cache/archives/*.deb; do
        [ -e "$deb" ] || continue
        number=$((number + 1))
        echo "unpacking $number of $((total)): ${deb##*/}"
        # A newer version of what the system has is left out: a second C library beside the
        # system's own would break every program started with it.
        name=$(dpkg-deb -f "$deb" Package)
        case $(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null) in
        installed) echo "left out: $name, installed already" ;;
        *) dpkg -x "$deb" "$root" || return 1 ;;
        esac
    done
    rm -rf "$apt"
    # Names without a directory are searched for in LIBRARY_PATH; this one's is not ours.
    for script in "$root"/usr/lib/*-linux-gnu*/libc.so; do
        [ ! -e "$script" ] || sed -i 's|/[^ ]*/libc_nonshared\.a|libc_nonshared.a|' "$script"
    done
    # `cc` is a link that the packages' install scripts would have made.
    [ ! -e "$root/usr/bin/gcc" ] || ln -sf ../root/usr/bin/gcc "$deps/bin/cc"
    # Wrapped, so that the programs also run when started by hand.
    for name in redis-server redis-cli valkey-server valkey-cli; do
        [ -e "$root/usr/bin/$name" ] || continue
        cat >"$deps/bin/$name" <<EOS
#!/bin/sh
# The libraries are those unpacked beside the program.
root=\$(cd "\$(dirname "\$0")/../root" && pwd)
for dir in "\$root"/usr/lib/*-linux-gnu* "\$root"/lib/*-linux-gnu*; do
    LD_LIBRARY_PATH=\$dir\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}
done
export LD_LIBRARY_PATH
exec "\$root/usr/bin/$name" "\$@"
EOS
        chmod 755 "$deps/bin/$name"
    done
}

explain() {
    for part in $missing; do
        case $part in
        cc) echo "a C compiler (rustc links with it)" ;;
        libclang) echo "libclang (bindgen reads Redis's header with it)" ;;
        server) echo "redis-server and redis-cli 7.0+ (for 'make run' and the tests)" ;;
        esac
    done | awk '{ printf "%s%s", sep, $0; sep = ", " }'
}

# What an administrator has to type.
admin_command() {
    case $manager in
    apt-get)
        list=
        case $missing in *cc*) list=" gcc libc6-dev" ;; esac
        case $missing in *libclang*) list="$list libclang-dev" ;; esac
        case $missing in *server*) list="$list redis-server" ;; esac
        echo "apt-get update && apt-get install$list"
        ;;
    apk) echo "apk add $(other_packages redis | xargs)" ;;
    pacman) echo "pacman -S $(other_packages valkey | xargs)" ;;
    *) echo "$manager install $(other_packages redis | xargs)" ;;
    esac
}

may_sudo() {
    have sudo || return 1
    sudo -n true 2>/dev/null && return 0
    [ -t 0 ] && [ -t 2 ] || return 1
    say "asking sudo for the right to install $(explain)"
    sudo -v
}

failed() {
    rm -rf "$deps/apt"
    tail -n 15 "$log" >&2
    die "could not get $(explain); the whole log is .deps/setup.log. As an administrator, run: $(admin_command)"
}

# It sets traps of its own.
install_in_subshell() { (install_packages); }

# Shows every few seconds how far the log has come: downloads take minutes, and silence looks like a hang.
show_progress() {
    said=
    while sleep 3 >/dev/null 2>&1; do
        line=$(tail -n 1 "$log" 2>/dev/null | tr -d '\r' | cut -c 1-100)
        [ -z "$line" ] || [ "$line" = "$said" ] || say "... $line"
        said=$line
    done
}
# Runs a command with all its output in the log, and shows how far it has come.
with_progress() {
    : >"$log"
    show_progress &
    progress=$!
    trap 'kill "$progress" 2>/dev/null' EXIT
    trap 'exit 1' HUP INT TERM
    code=0
    "$@" >"$log" 2>&1 </dev/null || code=$?
    kill "$progress" 2>/dev/null || true
    trap - EXIT HUP INT TERM
    return "$code"
}

install_missing() {
    manager=$(manager)
    [ -n "$manager" ] ||
        die "missing: $(explain). No package manager that this script knows was found: install them yourself"
    if [ "$manager" = brew ]; then
        case $missing in *cc*) die "missing: a C compiler. Run: xcode-select --install" ;; esac
    fi
    mkdir -p "$deps"
    if [ "$manager" = brew ] || [ "$(id -u)" = 0 ]; then
        say "installing with $manager: $(explain)"
        with_progress install_in_subshell || failed
    elif may_sudo; then
        say "installing with sudo $manager: $(explain)"
        with_progress sudo sh "$top/scripts/setup.sh" --install "$missing" || failed
    elif [ "$manager" = apt-get ] && have dpkg; then
        say "no rights to install: unpacking into .deps: $(explain)"
        with_progress private_install || failed
    else
        die "missing: $(explain). As an administrator, run: $(admin_command)"
    fi
    wanted=$missing
    look
    if [ -n "$missing" ]; then failed; fi
    say "installed:$wanted"
}

# --install PARTS: this script's own call of itself through sudo.
if [ "${1:-}" = --install ]; then
    missing=$2
    install_packages
    exit
fi

check_cargo
look
if [ -n "$missing" ]; then install_missing; fi
write_env
