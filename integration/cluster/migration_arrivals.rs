//! Keys that arrive with a slot, one by one or in one step: read leases that a Redisson client's renewals would
//! end, and fair queues of native waiters that no longer wait.

use std::time::Duration;

use redis::Connection;
use rlock_testkit::commands::{SOON, number, say, story};
use rlock_testkit::fair_list::{awaited, counted_as_gone_in_time};
use rlock_testkit::nodes::{AGREED, Cluster, asking};
use rlock_testkit::redisson;
use rlock_testkit::redisson::{READ, RENEW_READ};
use rlock_testkit::{ServerName, eventually};

/// The lease of a Redisson client, in ms: shorter than the native ones.
const SHORT: i64 = 4_000;

/// Acquires a read lock and a fair lock on the second node if `some`; else the module there does not yet listen to
/// changes of keys.
#[track_caller]
fn users_of_the_second(second: &mut Connection, some: bool) {
    if some {
        story(
            second,
            &[
                ("RLOCK.ACQUIRE b x 100 READ", "[1, 100, 0]"),
                ("RLOCK.ACQUIRE {b}f x 100 FAIR", "[1, 100, 0]"),
            ],
        );
    }
}

/// A native reader with a long lease, and a Redisson reader beside it.
#[track_caller]
fn read(first: &mut Connection) {
    story(first, &[("RLOCK.ACQUIRE lock alice 900000 READ", "[1, 900000, 0]")]);
    assert_eq!(redisson::run(first, READ, "lock", "j:1", 100_000), "null");
}

#[track_caller]
fn is_read_for_long(second: &mut Connection, lock: &str) {
    eventually("the lock to last as long as the longest lease", SOON, || {
        (number(second, &format!("PTTL {lock}")) > 800_000).then_some(())
    });
}

/// `PEXPIRE` sets the lock's end during the migration, when the importing node may not write outside commands. The
/// renewal of a Redisson client sets it once more; it uses several keys, so it must wait until the slot has arrived.
#[test]
fn read_leases_that_come_key_by_key_are_known() {
    for some in [false, true] {
        for lock_first in [false, true] {
            let cluster = Cluster::start();
            let [first, second] = &mut cluster.clients();
            users_of_the_second(second, some);
            read(first);
            cluster.begin_to_move();
            let mut keys = cluster.names();
            assert_eq!(keys.len(), 3, "{keys:?}");
            keys.sort_by_key(|key| (key == "lock") != lock_first);
            keys.iter().for_each(|key| cluster.move_key(key));
            assert_eq!(asking(second, &format!("PEXPIRE lock {SHORT}")), "1");
            assert_eq!(asking(second, "RLOCK.ACQUIRE lock w:1 5000 WRITE"), "null");
            std::thread::sleep(Duration::from_millis(500));
            cluster.end_move();
            is_read_for_long(second, "lock");
            assert_eq!(redisson::run(second, RENEW_READ, "lock", "j:1", SHORT), "1");
            is_read_for_long(second, "lock");
        }
    }
}

#[test]
fn fair_queues_that_come_key_by_key_are_bounded() {
    for some in [false, true] {
        let cluster = Cluster::start();
        let [first, second] = &mut cluster.clients();
        users_of_the_second(second, some);
        awaited(first);
        cluster.begin_to_move();
        let mut keys = cluster.names();
        assert_eq!(keys.len(), 3, "{keys:?}");
        // The lock moves last: if it moved first, the native waiters would be sent away and leave the list.
        keys.sort_by_key(|key| key == "lock");
        keys.iter().for_each(|key| cluster.move_key(key));
        std::thread::sleep(Duration::from_millis(500));
        cluster.end_move();
        counted_as_gone_in_time(second);
    }
}

/// Redis can move a slot in one step from 8.4 on. Lease keys, and a lock with many readers, arrive without the
/// event that announces other keys, and here long after or before their locks, as in a large slot.
#[test]
fn what_comes_at_one_moment_is_known() {
    const LOCKS: usize = 100;
    const READERS: usize = 1_500;
    let cluster = Cluster::start();
    let [first, second] = &mut cluster.clients();
    let moves = format!("CLUSTER MIGRATION IMPORT {0} {0}", cluster.slot);
    if !cluster.nodes[0].version().is_at_least(ServerName::Redis, 8, 4) {
        let said = say(second, &moves);
        assert!(said.starts_with("!ERR"), "{said}");
        return;
    }
    users_of_the_second(second, true);
    awaited(first);
    for lock in 0..LOCKS {
        let line = format!("RLOCK.ACQUIRE {{lock}}{lock} alice 900000 READ");
        story(first, &[(&line, "[1, 900000, 0]")]);
    }
    let mut many = redis::pipe();
    for reader in 0..READERS {
        many.cmd("RLOCK.ACQUIRE").arg("{lock}0").arg(format!("r:{reader}")).arg(60_000).arg("READ");
    }
    let _: Vec<(i64, i64, i64)> = many.query(first).unwrap();
    // The copy takes more than half a second.
    story(first, &[("CONFIG SET rdb-key-save-delay 300", "OK")]);
    assert!(!say(second, &moves).starts_with('!'));
    eventually("the slot", AGREED, || (say(second, "EXISTS lock") == "1").then_some(()));
    // The first FAIR call meets the list.
    story(second, &[("RLOCK.ACQUIRE lock stranger 1000 FAIR", "null")]);
    counted_as_gone_in_time(second);
    for lock in 0..LOCKS {
        story(second, &[(&format!("PEXPIRE {{lock}}{lock} {SHORT}"), "1")]);
    }
    for lock in 0..LOCKS {
        is_read_for_long(second, &format!("{{lock}}{lock}"));
    }
}
