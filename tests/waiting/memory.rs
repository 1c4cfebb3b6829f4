//! What waiters cost in memory.

use rlock_testkit::prelude::*;

use crate::enqueue::pipelined;

/// The waiters of one lock are few: the first one comes with the record of the lock and its places in the indexes.
#[test]
fn the_first_waiters_of_a_lock_take_little_memory() {
    const LOCKS: i64 = 20_000;
    // The most bytes that the first waiter of a lock may take, the second, and the third: 3,522, 161 and 161 with trees for each lock.
    const MOST: [i64; 3] = [1_000, 320, 320];
    let (server, client) = &mut TestServer::start_and_connect();
    let each = |line: &dyn Fn(i64) -> String| (0..LOCKS).map(line).collect::<Vec<_>>().into_iter();
    let used = || server.info("memory")["used_memory"].parse::<i64>().unwrap();
    pipelined(client, each(&|n| format!("RLOCK.ACQUIRE lock:{n:05} holder 3600000")));
    let waiters = |owner: usize| format!("p{owner}");
    let held = used();
    let mut before = held;
    for (owner, most) in MOST.into_iter().enumerate() {
        let process = waiters(owner);
        let line = |n| format!("RLOCK.ACQUIRE lock:{n:05} {process}:{n:05} 4000 ENQUEUE 900000 news");
        pipelined(client, each(&line));
        let grown = (used() - before) / LOCKS;
        assert!((64..=most).contains(&grown), "waiter {owner} takes {grown} bytes");
        before = used();
    }
    assert_eq!(counter(server, "waiters"), 3 * LOCKS as u64);
    for owner in 0..MOST.len() {
        let process = waiters(owner);
        pipelined(client, each(&|n| format!("RLOCK.CANCEL lock:{n:05} {process}:{n:05}")));
    }
    let kept = (used() - held) / LOCKS;
    assert!(counter(server, "waiters") == 0 && kept < 64, "{kept} bytes for each lock are kept");
}
