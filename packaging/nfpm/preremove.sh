#!/bin/sh
# Before a removal: of .rpm with 0, or 1 if an upgrade follows; of .apk with the version.
[ "$1" != 1 ] || exit 0
for file in /etc/redis/redis.conf /etc/redis.conf /etc/valkey/valkey.conf /etc/redict/redict.conf; do
    if grep -q '^[[:space:]]*loadmodule.*/librlock\.so' "$file" 2>/dev/null; then
        echo "rlock: $file still loads the module: remove that line, or the server will not start again." >&2
    fi
done
[ ! -d /run/systemd/system ] || systemctl --no-reload disable --now rlock-exporter || true
