//! Slots that move as a whole, all keys at one moment, while locks in them are held, awaited and expire.

use std::time::Duration;

use crate::{CHANNEL, was_sent_away};
use redis::Connection;
use rlock_testkit::commands::{SOON, counter, number, say, story};
use rlock_testkit::held::acquisition;
use rlock_testkit::nodes::Cluster;
use rlock_testkit::waiting::Waiting;
use rlock_testkit::{ServerName, Subscriber, eventually, whole_slots};

#[track_caller]
fn blocked(cluster: &Cluster, lock: &str, owner: &str, rest: &str) -> Waiting {
    Waiting::line(&cluster.nodes[0], &format!("RLOCK.ACQUIRE {lock} {owner} 50000 {rest}BLOCK 0"))
}

/// A node has no waiters and no ties left.
#[track_caller]
fn is_forgotten(cluster: &Cluster, node: usize) {
    let server = &cluster.nodes[node];
    for name in ["waiters", "ties"] {
        eventually("all to be forgotten", SOON, || (counter(server, name) == 0).then_some(()));
    }
    assert_eq!((counter(server, "panics"), counter(server, "replication_failures")), (0, 0));
}

/// A hold of each kind, by alice, and a session.
const HOLDS: [(&str, &str); 6] = [
    ("RLOCK.ACQUIRE lock alice 900000 HOLDS 1", "[1, 900000, 0]"),
    ("RLOCK.ACQUIRE {lock}r alice 900000 READ", "[1, 900000, 0]"),
    ("RLOCK.ACQUIRE {lock}r alice 800000 READ", "[2, ~900000, 0]"),
    ("RLOCK.ACQUIRE {lock}w alice 900000 WRITE", "[1, 900000, 0]"),
    ("RLOCK.ACQUIRE {lock}p alice 900000 PERMITS 2", "[1, 900000, 0]"),
    ("RLOCK.ACQUIRE {lock}s alice 900000 SESSION 200", "[1, 900000, 0]"),
];

#[test]
fn locks_move_with_their_slot_and_waiters_are_sent_away() {
    let Some(cluster) = whole_slots::cluster() else { return };
    let [first, second] = &mut cluster.clients();
    let mut alice = cluster.nodes[0].connect();
    story(&mut alice, &HOLDS);
    let token = acquisition(&say(first, "RLOCK.ACQUIRE {lock}t alice 900000 FENCED"))[2];
    let waiting = [
        blocked(&cluster, "lock", "bob", ""),
        blocked(&cluster, "{lock}r", "bob", "WRITE "),
        blocked(&cluster, "{lock}w", "bob", "READ "),
        blocked(&cluster, "{lock}s", "bob", "FAIR "),
    ];
    story(first, &[(&format!("RLOCK.ACQUIRE lock carol 4000 ENQUEUE 0 {CHANNEL}"), "[0, 0, 0]")]);
    cluster.move_whole(1);
    waiting.iter().for_each(was_sent_away);
    is_forgotten(&cluster, 0);
    assert_eq!(counter(&cluster.nodes[0], "hand_offs"), 0);
    // The lease goes with the key, the tie does not.
    drop(alice);
    std::thread::sleep(Duration::from_millis(500));
    for lock in ["lock", "{lock}r", "{lock}w", "{lock}p", "{lock}s"] {
        assert!(number(second, &format!("PTTL {lock}")) > 800_000, "{lock}");
    }
    story(
        second,
        &[
            ("RLOCK.ACQUIRE lock bob 1000", "null"),
            ("RLOCK.ACQUIRE {lock}r bob 1000 WRITE", "null"),
            ("RLOCK.RELEASE {lock}r alice READ", "0"),
            ("RLOCK.RELEASE {lock}r alice READ", "1"),
            ("RLOCK.ACQUIRE {lock}w bob 1000 READ", "null"),
            ("RLOCK.RENEW {lock}p alice 900000", "1"),
            ("RLOCK.ACQUIRE {lock}p bob 1000 PERMITS 1", "null"),
            ("RLOCK.RELEASE lock alice", "1"),
            ("RLOCK.RELEASE {lock}t alice", "1"),
        ],
    );
    let next = acquisition(&say(second, "RLOCK.ACQUIRE {lock}t bob 900000 FENCED"))[2];
    assert!(next > token, "{next} after {token}");
}

/// Leases end, a session ends, and waiters are granted the free locks: the timer does all of it, while the copy is under way.
#[test]
fn effects_of_the_timer_reach_the_node_that_a_slot_moves_to() {
    let Some(cluster) = whole_slots::cluster() else { return };
    let [first, second] = &mut cluster.clients();
    cluster.slow_copy();
    let mut tied = cluster.nodes[0].connect();
    story(&mut tied, &[("RLOCK.ACQUIRE {lock}s alice 900000 SESSION 700000", "[1, 900000, 0]")]);
    story(
        first,
        &[
            ("RLOCK.ACQUIRE lock alice 1500", "[1, 1500, 0]"),
            ("RLOCK.ACQUIRE {lock}r alice 1500 READ", "[1, 1500, 0]"),
            ("RLOCK.ACQUIRE {lock}p alice 1500 PERMITS 1", "[1, 1500, 0]"),
            ("RLOCK.ACQUIRE {lock}f alice 1500", "[1, 1500, 0]"),
            ("RLOCK.ACQUIRE {lock}g alice 900000", "[1, 900000, 0]"),
        ],
    );
    let waiting = [
        blocked(&cluster, "lock", "bob", ""),
        blocked(&cluster, "{lock}r", "bob", "WRITE "),
        blocked(&cluster, "{lock}p", "bob", "PERMITS 1 "),
        blocked(&cluster, "{lock}f", "bob", "FAIR "),
    ];
    cluster.begin_whole(1);
    cluster.await_copy();
    // The keys are in the copy as they were before.
    drop(tied);
    for waiting in waiting {
        assert_eq!(waiting.answer(), "[1, 50000, 0]");
    }
    story(first, &[("RLOCK.RELEASE {lock}g alice", "1")]);
    cluster.is_first(second);
    cluster.await_whole(1);
    for lock in ["lock", "{lock}r", "{lock}p", "{lock}f"] {
        let info = say(second, &format!("RLOCK.INFO {lock}"));
        assert!(info.contains(r#""owner", "bob""#) && !info.contains("alice"), "{lock}: {info}");
        let left = number(second, &format!("PTTL {lock}"));
        assert!((1..=50_000).contains(&left), "{lock} lasts {left} ms");
    }
    let left = number(second, "PTTL {lock}s");
    assert!((1..=700_000).contains(&left), "the session's lease lasts {left} ms");
    story(second, &[("EXISTS {lock}g", "0"), ("EXISTS redisson_lock_queue:{{lock}f}", "0")]);
    is_forgotten(&cluster, 0);
}

/// Renews all of alice's leases.
#[track_caller]
fn renews(client: &mut Connection, locks: usize, lease: u32) {
    let mut renewals = redis::pipe();
    for lock in 0..locks {
        renewals.cmd("RLOCK.RENEW").arg(format!("{{lock}}{lock}")).arg("alice").arg(lease);
    }
    let renewed: Vec<i64> = renewals.query(client).expect("the slot is here");
    assert_eq!(renewed, vec![1; locks], "a lease is lost");
}

/// The copy has the leases of before, most of which have ended when it comes: their renewals come behind it.
#[test]
fn a_lease_that_is_renewed_while_its_slot_moves_is_not_lost() {
    const LOCKS: usize = 60;
    const SHORT: u32 = 1_200;
    let Some(cluster) = whole_slots::cluster() else { return };
    let [first, second] = &mut cluster.clients();
    cluster.slow_copy();
    for lock in 0..LOCKS {
        let line = format!("RLOCK.ACQUIRE {{lock}}{lock} alice {SHORT} READ");
        assert!(say(first, &line).starts_with("[1, "));
    }
    renews(first, LOCKS, SHORT);
    cluster.begin_whole(1);
    cluster.await_copy();
    renews(first, LOCKS, 900_000);
    cluster.await_whole(1);
    renews(second, LOCKS, 900_000);
}

/// The first node serves its waiters, and the second keeps no key.
#[test]
fn a_cancelled_move_changes_nothing() {
    let Some(cluster) = whole_slots::cluster() else { return };
    let [first, second] = &mut cluster.clients();
    let mut grants = Subscriber::connect(&cluster.nodes[0]).ssubscribe(&[CHANNEL]);
    cluster.slow_copy();
    let mut tied = cluster.nodes[0].connect();
    story(&mut tied, &HOLDS);
    story(first, &[("RLOCK.ACQUIRE {lock}e alice 900 READ", "[1, 900, 0]")]);
    let bob = blocked(&cluster, "lock", "bob", "");
    let eve = blocked(&cluster, "{lock}e", "eve", "WRITE ");
    let line = format!("RLOCK.ACQUIRE {{lock}}w carol 4000 WRITE ENQUEUE 0 {CHANNEL}");
    story(first, &[(&line, "[0, 0, 0]")]);
    cluster.begin_whole(1);
    cluster.await_copy();
    std::thread::sleep(Duration::from_millis(500));
    cluster.cancel_whole();
    assert_eq!(eve.answer(), "[1, 50000, 0]");
    story(first, &[("RLOCK.RELEASE lock alice", "1"), ("RLOCK.RELEASE {lock}w alice WRITE", "1")]);
    assert_eq!(bob.answer(), "[1, 50000, 0]");
    let granted = b"granted 0 carol {lock}w 1 4000 0 write".to_vec();
    assert_eq!(grants.next(SOON), Some((CHANNEL.into(), granted)));
    drop(tied);
    eventually("the session to end", SOON, || (number(first, "PTTL {lock}s") <= 200).then_some(()));
    cluster.is_first(second);
    eventually("the keys to be deleted", SOON, || (say(second, "DBSIZE") == "0").then_some(()));
    assert_eq!((counter(&cluster.nodes[1], "waiters"), counter(&cluster.nodes[1], "hand_offs")), (0, 0));
    // The next move finds everything in order.
    story(first, &[("CONFIG SET rdb-key-save-delay 0", "OK")]);
    cluster.move_whole(1);
    story(second, &[("RLOCK.ACQUIRE lock dave 1000", "null"), ("RLOCK.RELEASE lock bob", "1")]);
}

/// The first node pauses before the slot changes hands. From then on it grants nothing, also where a lock becomes free.
#[test]
fn nothing_is_granted_in_the_pause_before_a_slot_leaves() {
    let Some(cluster) = whole_slots::cluster() else { return };
    if cluster.nodes[0].version().name != ServerName::Valkey {
        // Redis has no way to keep a slot in this state.
        return;
    }
    let [first, second] = &mut cluster.clients();
    story(second, &[("DEBUG SLOTMIGRATION PREVENT-FAILOVER 1", "OK")]);
    story(
        first,
        &[
            ("RLOCK.ACQUIRE lock alice 1500", "[1, 1500, 0]"),
            ("RLOCK.ACQUIRE {lock}p alice 1500 PERMITS 1", "[1, 1500, 0]"),
        ],
    );
    let mut tied = cluster.nodes[0].connect();
    story(&mut tied, &[("RLOCK.ACQUIRE {lock}s alice 900000 SESSION 1", "[1, 900000, 0]")]);
    let waiting = [
        blocked(&cluster, "lock", "bob", ""),
        blocked(&cluster, "{lock}p", "bob", "PERMITS 1 "),
        blocked(&cluster, "{lock}s", "bob", ""),
    ];
    cluster.begin_whole(1);
    let status = "CLUSTER GETSLOTMIGRATIONS";
    eventually("the pause", SOON, || say(first, status).contains("failover-granted").then_some(()));
    drop(tied);
    std::thread::sleep(Duration::from_millis(1_800));
    assert!(waiting.iter().all(Waiting::still_waits));
    assert_eq!(counter(&cluster.nodes[0], "hand_offs"), 0);
    story(second, &[("DEBUG SLOTMIGRATION PREVENT-FAILOVER 0", "OK")]);
    cluster.await_whole(1);
    waiting.iter().for_each(was_sent_away);
    is_forgotten(&cluster, 0);
    assert_eq!(counter(&cluster.nodes[0], "hand_offs"), 0);
    // Leases have ended at the second node by then, and the longer one is as it was.
    story(second, &[("RLOCK.ACQUIRE lock dave 900000", "[1, 900000, 0]")]);
    story(second, &[("RLOCK.ACQUIRE {lock}p dave 900000 PERMITS 1", "[1, 900000, 0]")]);
    assert!(number(second, "PTTL {lock}s") > 800_000);
}

/// The first node knew holds, ties and leases of the slot before it left. None of them counts after its return.
#[test]
fn a_slot_returns_without_the_ties_and_leases_of_before() {
    let Some(cluster) = whole_slots::cluster() else { return };
    let [first, second] = &mut cluster.clients();
    let mut tied = cluster.nodes[0].connect();
    story(&mut tied, &HOLDS);
    let bob = blocked(&cluster, "lock", "bob", "FAIR ");
    cluster.move_whole(1);
    was_sent_away(&bob);
    // Alice holds without a connection now, and the reader with the longest lease is another.
    story(
        second,
        &[
            ("RLOCK.ACQUIRE {lock}s alice 900000 HOLDS 1", "[1, 900000, 0]"),
            ("RLOCK.RELEASE {lock}r alice ALL", "1"),
            ("RLOCK.ACQUIRE {lock}r carol 1000 READ", "[1, 1000, 0]"),
        ],
    );
    cluster.move_whole(0);
    drop(tied);
    let eve = blocked(&cluster, "{lock}r", "eve", "WRITE ");
    assert_eq!(eve.answer(), "[1, 50000, 0]");
    assert!(number(first, "PTTL {lock}s") > 800_000);
    let frank = blocked(&cluster, "lock", "frank", "");
    story(first, &[("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!(frank.answer(), "[1, 50000, 0]");
    is_forgotten(&cluster, 1);
}
