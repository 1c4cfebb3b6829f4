#!/bin/sh
# The driver program, as `check.sh driver` has compiled it.
exec java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:SharedArchiveFile=target/driver.jsa -Xshare:auto -Xlog:disable -Xlog:all=off \
    -Djava.util.logging.config.file=conformance/logging.properties -cp "$(cat target/driver.cp)" Driver
