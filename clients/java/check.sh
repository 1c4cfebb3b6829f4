#!/bin/sh
set -eu
cd "$(dirname "$0")"
mvn -q -B test-compile dependency:build-classpath -Dmdep.outputFile=target/libraries.cp
mkdir -p target/driver
classes=$PWD/target/classes:$PWD/target/test-classes
javac -Xlint:all -Werror -d target/driver -cp "$classes:$(cat target/libraries.cp)" conformance/Driver.java
echo "$PWD/target/driver:$classes:$(cat target/libraries.cp)" > target/driver.cp
[ "${1:-}" != driver ] || exit 0
