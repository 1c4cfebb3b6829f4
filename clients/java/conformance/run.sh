#!/bin/sh
# The driver program, as `check.sh driver` has built it.
exec java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx512m -XX:SharedArchiveFile=target/driver.jsa -Xlog:disable -Xlog:all=off \
    -Djava.util.logging.config.file=conformance/logging.properties -cp "$(cat target/driver.cp)" Driver
