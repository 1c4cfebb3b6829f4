#!/bin/sh
# Checks the Java client: check.sh [oldest | driver]
#
# Builds with all warnings as errors, counts lines, checks the format and the documentation of the API, and runs the tests against
# servers with the module, with virtual threads too where there is a JDK 21 or later; then installs the package as users do, checks
# and installs those for ShedLock and Spring beside it, and runs the READMEs, the pages and the examples from fresh projects. With
# `oldest`, also the tests with the oldest Lettuce, ShedLock and Spring Boot.
# `driver` only builds the conformance suite's driver program.
# The module is target/release/librlock.so, the server $REDIS_SERVER or redis-server.
set -eu
cd "$(dirname "$0")"
for tool in mvn javac; do
    command -v "$tool" >/dev/null 2>&1 || {
        echo "clients/java: $tool is missing: install a JDK 17 or later, and Maven" >&2
        exit 1
    }
done
maven() { mvn --quiet --batch-mode "$@"; }

maven test-compile dependency:build-classpath -Dmdep.outputFile=target/libraries.cp
libraries=$(cat target/libraries.cp)
rm -rf target/driver target/driver.jsa
mkdir -p target/driver
javac -Xlint:all -Werror -d target/driver -cp "target/classes:target/test-classes:$libraries" conformance/Driver.java
jar --create --file target/driver.jar -C target/classes . -C target/test-classes . -C target/driver .
echo "$PWD/target/driver.jar:$libraries" >target/driver.cp
# Many processes of it begin: an archive of its classes halves their start. Nothing listens on that port.
{
    echo '{"id":1,"do":"hello","protocol":1}'
    echo '{"id":2,"do":"connect","client":"x","url":"redis://127.0.0.1:1"}'
    sleep 2
    echo '{"id":3,"do":"acquire","client":"x","guard":"g","lock":"a","try":true}'
    sleep 1
} | java -XX:ArchiveClassesAtExit=target/driver.jsa -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable \
    -cp "$(cat target/driver.cp)" Driver >/dev/null 2>&1
[ "${1:-}" != driver ] || exit 0

# Code lines, neither blank nor comment, and without lines of brackets alone: of these files at most so many.
size() { # LIMIT FILE...
    limit=$1
    shift
    lines=$(cat "$@" | awk -f size.awk)
    [ "$lines" -le "$limit" ] || {
        echo "clients/java: $lines code lines in $*, at most $limit" >&2
        exit 1
    }
}
size 400 src/main/java/rlock/client/Machine.java
size 3089 src/main/java/rlock/client/*.java
maven spotless:check javadoc:javadoc install
module=$(realpath "${RLOCK_MODULE:-${CARGO_TARGET_DIR:-../../target}/release/librlock.so}")
port=$((20000 + $$ % 20000))
"${REDIS_SERVER:-redis-server}" --port "$port" --save '' --loadmodule "$module" >target/server.log 2>&1 &
server=$!
trap 'kill "$server"' EXIT
export REDIS_URL=redis://localhost:$port RLOCK_MODULE="$module"
maven --file ../java-shedlock/pom.xml spotless:check install
maven --file ../java-spring/pom.xml spotless:check install

# A fresh project, with the installed package alone, and one with those beside it.
project=target/project
rm -rf "$project"
mkdir -p "$project/src/main/java"
cp examples/pom.xml "$project"
cp examples/*.java "$project/src/main/java"
# Each block of a page is a program, or a class of the Spring project.
mkdir -p "$project/spring/src/main/java"
awk -v out="$project/src/main/java" -v spring="$project/spring/src/main/java" -f programs.awk README.md \
    ../../docs/clients/java.md ../../docs/clients/spring.md ../../docs/clients/shedlock.md
cp spring/pom.xml "$project/spring"
cp spring/*.java ../../docs/clients/code/Lock[MT]*.java "$project/spring/src/main/java"
sed -i "s/localhost:6399/localhost:$port/" "$project"/src/main/java/*.java
for each in "$project" "$project/spring"; do
    maven --file "$each/pom.xml" compile dependency:build-classpath -Dmdep.outputFile=libraries.cp
done
run() { # PROJECT CLASS
    echo "== $2"
    java -cp "$1/target/classes:$(cat "$1/libraries.cp")" "$2" 2>"target/$2.log" || {
        cat "target/$2.log" >&2
        exit 1
    }
}
for program in "$project"/src/main/java/*.java; do
    run "$project" "$(basename "$program" .java)"
done
run "$project/spring" SpringCheck
run "$project/spring" MetricsCheck

[ "${1:-}" = oldest ] || exit 0
newer=${JDK_NEWER:-$(find /usr/lib/jvm -maxdepth 1 -name '*-2[1-9]*' 2>/dev/null | sort | tail -n 1)}
if [ -n "$newer" ]; then
    maven surefire:test -DargLine= -Djvm="$newer/bin/java"
else
    echo "clients/java: no JDK 21 or later in /usr/lib/jvm: virtual threads are not tested (JDK_NEWER names one)" >&2
fi
maven test -DargLine= -Dlettuce.version=6.4.0.RELEASE
# What is built for the newest, with the oldest. Spring Integration 6 has no DistributedLock.
maven --file ../java-shedlock/pom.xml surefire:test -DargLine= -Dshedlock.version=5.0.0
maven --file ../java-spring/pom.xml surefire:test -DargLine= -Dspring-boot.version=3.4.0 -Dtest='!DistributedLockTest'
# What is built for the newest is left behind.
maven clean test-compile
