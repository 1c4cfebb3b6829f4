//! A fair lock, its waiters, and Redisson's scripts.

use rlock_testkit::fair_list::list;
use rlock_testkit::prelude::*;
use rlock_testkit::redisson;

pub(crate) const LIST: &str = "redisson_lock_queue:{lock}";
pub(crate) const DEADLINES: &str = "redisson_lock_timeout:{lock}";

/// A holds the lock. The turn of a Redisson waiter is longer than any test waits.
pub(crate) fn scene() -> (TestServer, Connection) {
    let (server, mut client) = TestServer::builder().conf("rlock.fair-turn-ms", "60000").start_and_connect();
    client.story(&[("RLOCK.ACQUIRE lock a 100000 FAIR", "[1, 100000, 0]")]);
    (server, client)
}

#[track_caller]
pub(crate) fn wait(server: &TestServer, owner: &str) -> Waiting {
    let line = format!("RLOCK.ACQUIRE lock {owner} 50000 FAIR BLOCK 0");
    Waiting::line(server, &line)
}

/// Runs a Redisson script for this owner, with this budget; its clock is ahead of the server's by this many ms.
#[track_caller]
pub(crate) fn redisson(
    client: &mut Connection,
    script: &str,
    owner: &str,
    budget: i64,
    ahead: i64,
) -> String {
    let now = server_time(client) + ahead;
    redisson::run_fair(client, script, "lock", owner, budget, now)
}

#[track_caller]
pub(crate) fn eventually_list(client: &mut Connection, expected: &str) {
    wait_for(expected, || list(client) == expected);
}
