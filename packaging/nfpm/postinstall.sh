#!/bin/sh
# After an installation: of .rpm with 1 for the first one, 2 for an upgrade; of .apk with the version.
[ "$1" = 2 ] || echo "rlock: no server loads the module yet; add to its configuration: loadmodule /usr/lib/redis/modules/librlock.so"
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
    [ "$1" != 2 ] || systemctl try-restart rlock-exporter || true
fi
