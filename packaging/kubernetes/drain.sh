# Before the server is stopped: it gives no new locks, and holders have 20 seconds to finish. Leases continue while no server runs: each lock
# that is released before cannot expire meanwhile.
timeout 5 valkey-cli config set rlock.accept no || exit 0
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    locks=$(timeout 5 /rlock/rlock ls) && [ -n "$locks" ] || exit 0
    sleep 1
done
