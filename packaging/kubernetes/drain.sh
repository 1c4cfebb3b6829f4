# Before the server is stopped: it gives no new locks, and holders have 20 seconds to finish. Leases continue while no server runs: each lock
# that is released before cannot expire meanwhile.
# The client's exit code is 0 after an error, too.
[ "$(timeout 5 valkey-cli config set rlock.accept no)" = OK ] || exit 0
end=$(($(date +%s) + 20))
while [ "$(date +%s)" -lt "$end" ]; do
    # A list that fails shows nothing: locks may be held.
    if locks=$(timeout 5 /rlock/rlock ls) && [ -z "$locks" ]; then exit 0; fi
    sleep 1
done
