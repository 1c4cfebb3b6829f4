//! What comes to a node with a slot, key by key or at one moment: read leases that Redisson's renewals would end, and fair
//! queues of natives that wait there no more.

use std::time::Duration;

use redis::Connection;
use rlock_testkit::commands::{SOON, number, say, story};
use rlock_testkit::fair_list::{awaited, counted_as_gone_in_time};
use rlock_testkit::nodes::{AGREED, Cluster, asking};
use rlock_testkit::redisson;
use rlock_testkit::redisson::{READ, RENEW_READ};
use rlock_testkit::{ServerName, eventually};

/// A lease of Redisson's that is shorter than the natives', in ms.
const SHORT: i64 = 4_000;

/// Those who wait and read at the second node, or nobody: then it has not listened to changes of keys before.
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

/// A native reads for long, and one of Redisson's beside it.
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

/// The lock's end is set while the slot is on its way, when the node that it comes to may not write outside commands; and
/// once more by a renewal of Redisson's, which asks for several keys and so has to wait until the slot is there.
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
        // Where it goes first, the natives are sent away, and leave the list.
        keys.sort_by_key(|key| key == "lock");
        keys.iter().for_each(|key| cluster.move_key(key));
        std::thread::sleep(Duration::from_millis(500));
        cluster.end_move();
        counted_as_gone_in_time(second);
    }
}

/// Redis moves slots so from 8.4 on. Lease keys come without the event by which others are known, as does a lock of many
/// readers, and here long after their locks or before them, as in a large slot.
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
