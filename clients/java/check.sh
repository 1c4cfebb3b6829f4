#!/bin/sh
set -eu
cd "$(dirname "$0")"
mvn -q -B test-compile dependency:build-classpath -Dmdep.outputFile=target/libraries.cp
rm -rf target/driver target/driver.jsa
mkdir -p target/driver
cp=$(cat target/libraries.cp)
javac -Xlint:all -Werror -d target/driver -cp "target/classes:target/test-classes:$cp" conformance/Driver.java
jar --create --file target/driver.jar -C target/classes . -C target/test-classes . -C target/driver .
echo "$PWD/target/driver.jar:$cp" >target/driver.cp
# Many of its processes begin: this halves their start.
printf '%s\n' '{"id":1,"do":"hello","protocol":1}' '{"id":2,"do":"connect","client":"x","url":"redis://127.0.0.1:1"}' >target/training
{ cat target/training; sleep 2; echo '{"id":3,"do":"acquire","client":"x","guard":"g","lock":"a","try":true}'; sleep 2; } |
    java -XX:ArchiveClassesAtExit=target/driver.jsa -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable -cp "$(cat target/driver.cp)" Driver >/dev/null 2>&1
[ "${1:-}" != driver ] || exit 0
