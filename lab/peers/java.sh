#!/bin/sh
# Builds the Java programs that `make bench` measures, each in a folder of TARGET/java: java.sh TARGET VERSION...
#
# One for the client of this repository and one for each VERSION of Redisson. What has not changed is not built again.
set -eu
target=$(realpath -m "$1")/java
shift
cd "$(dirname "$0")/java"
for tool in mvn javac; do
    command -v "$tool" >/dev/null 2>&1 || {
        echo "$tool is missing: install a JDK 17 or later, and Maven" >&2
        exit 1
    }
done
# It reports failures on the standard output.
maven() { mvn --quiet --batch-mode "$@" >&2; }

# Does the command in an empty folder, unless that was done before for the same files.
once() { # FOLDER FILES COMMAND
    # shellcheck disable=SC2086 # a list of words
    sum=$(find $2 -type f | sort | xargs cat | cksum)
    [ "$(cat "$1/built" 2>/dev/null)" != "$sum" ] || return 0
    rm -rf "$1"
    mkdir -p "$1"
    "$3" "$1"
    echo "$sum" >"$1/built"
}

redisson() { maven -Dout="$1" -Dredisson.version="$version" compile; }

client=../../../clients/java
own() {
    maven --file $client/pom.xml compile dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$1/lib"
    cp -r $client/target/classes "$1/classes"
    javac -Xlint:all -Werror -d "$1/classes" -cp "$1/classes:$1/lib/*" \
        src/main/java/Contender.java src/main/java/Crowd.java src/main/java/Field.java src/main/java/OfRlock.java \
        src/main/java/Worker.java
}

for version; do
    once "$target/redisson-$version" "pom.xml ../../../integration/pom.xml src" redisson
done
once "$target/rlock" "src $client/pom.xml $client/src/main" own
