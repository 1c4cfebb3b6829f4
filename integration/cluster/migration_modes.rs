//! Slots that move to another node with read/write locks and fair queues in them, key by key.

use rlock_testkit::commands::{say, story};
use rlock_testkit::nodes::{Cluster, asking};
use rlock_testkit::waiting::Waiting;

use crate::was_sent_away;

const LEASE: &str = "{lock}:alice:rwlock_timeout:1";
const LIST: &str = "redisson_lock_queue:{lock}";
const DEADLINES: &str = "redisson_lock_timeout:{lock}";

/// The lease key of a reader is on the second node already: on the first it must not count as dead, or a writer would
/// get in beside it.
#[test]
fn a_reader_whose_lease_key_has_moved_is_alive() {
    let cluster = Cluster::start();
    let [first, second] = &mut cluster.clients();
    story(first, &[("RLOCK.ACQUIRE lock alice 100000 READ", "[1, 100000, 0]")]);
    let bob = Waiting::line(&cluster.nodes[0], "RLOCK.ACQUIRE lock bob 50000 WRITE BLOCK 0");
    cluster.begin_to_move();
    cluster.move_key(LEASE);
    story(first, &[("RLOCK.ACQUIRE lock carol 100000 WRITE", "null")]);
    bob.waits_on(std::time::Duration::from_millis(300));
    story(first, &[("HGET lock alice", r#""1""#)]);
    // It is let go with the lock, and asks where that is now.
    cluster.move_lock();
    cluster.end_move();
    assert!(bob.answer().starts_with("!UNBLOCKED "));
    story(
        second,
        &[
            ("RLOCK.ACQUIRE lock carol 100000 WRITE", "null"),
            ("RLOCK.RELEASE lock alice READ", "1"),
            ("RLOCK.ACQUIRE lock carol 100000 WRITE", "[1, 100000, 0]"),
        ],
    );
}

/// Renewing a lease key that has moved would create it anew, and the reader would have two of them: the remaining
/// keys could not be moved to a node that has one of their names (`BUSYKEY`), and the migration would end half way.
#[test]
fn a_lease_key_that_is_elsewhere_is_not_made_anew() {
    let cluster = Cluster::start();
    let [first, second] = &mut cluster.clients();
    let holds = ("RLOCK.ACQUIRE lock alice 100000 READ HOLDS 1", "[1, 100000, 0]");
    story(first, &[holds, ("RLOCK.ACQUIRE lock alice 100000 READ", "[2, 100000, 0]")]);
    cluster.begin_to_move();
    let changes = ["RLOCK.RENEW lock alice 200000 READ", "RLOCK.RELEASE lock alice HOLDS 1"];
    let refused = |said: String| {
        assert!(said.starts_with("!TRYAGAIN ") && said.contains("lease keys"), "{said}");
    };
    cluster.move_key("{lock}:alice:rwlock_timeout:1");
    changes.iter().for_each(|line| refused(say(first, line)));
    // This is about the lease key of the second hold only.
    story(first, &[("RLOCK.ACQUIRE lock alice 300000 READ HOLDS 2", "[2, 300000, 0]")]);
    cluster.move_key("{lock}:alice:rwlock_timeout:2");
    let longer = "RLOCK.ACQUIRE lock alice 900000 READ HOLDS 2";
    changes.iter().chain([&longer]).for_each(|line| refused(say(first, line)));
    // A key that never existed is not missed: another reader acquires and releases.
    story(
        first,
        &[("RLOCK.ACQUIRE lock bob 100000 READ", "[1, 100000, 0]"), ("RLOCK.RELEASE lock bob", "1")],
    );
    cluster.move_lock();
    cluster.end_move();
    assert_eq!(cluster.keys(), [0, 3]);
    story(second, &[(changes[0], "1"), ("RLOCK.RELEASE lock alice ALL", "1"), ("DBSIZE", "0")]);
}

/// The other way round: the lock is on the second node, and the lease key on the first still.
#[test]
fn a_lease_key_that_is_still_to_come_is_not_made_anew_and_its_reader_is_alive() {
    let cluster = Cluster::start();
    let [first, second] = &mut cluster.clients();
    story(first, &[("RLOCK.ACQUIRE lock alice 100000 READ", "[1, 100000, 0]")]);
    cluster.begin_to_move();
    cluster.move_lock();
    assert_eq!(asking(second, "RLOCK.ACQUIRE lock carol 100000 WRITE"), "null");
    let said = asking(second, "RLOCK.RENEW lock alice 200000");
    assert!(said.starts_with("!TRYAGAIN "), "{said}");
    // The hold is kept until the key arrives.
    assert_eq!(asking(second, "HGET lock alice"), r#""1""#);
    cluster.move_key(LEASE);
    assert_eq!(asking(second, "RLOCK.ACQUIRE lock carol 100000 WRITE"), "null");
    assert_eq!(asking(second, "RLOCK.RENEW lock alice 200000"), "1");
    cluster.end_move();
    story(second, &[("RLOCK.RELEASE lock alice", "1"), ("EXISTS lock", "0")]);
}

/// After the release the lease key belongs to no hold, and expires.
#[test]
fn a_lease_key_in_transit_at_the_release_delays_no_writer() {
    let cluster = Cluster::start();
    let [first, second] = &mut cluster.clients();
    story(first, &[("RLOCK.ACQUIRE lock alice 100000 READ", "[1, 100000, 0]")]);
    cluster.begin_to_move();
    cluster.move_key(LEASE);
    story(first, &[("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!(cluster.keys(), [0, 1]);
    cluster.end_move();
    story(second, &[("RLOCK.ACQUIRE lock bob 100000 WRITE", "[1, 100000, 0]")]);
    story(second, &[("RLOCK.ACQUIRE lock alice 100000 READ", "null"), ("RLOCK.RELEASE lock bob", "1")]);
    assert_ne!(say(second, &format!("PTTL {LEASE}")), "-1");
}

/// A fair queue is never created on a node while it may be on the other one.
#[test]
fn a_fair_queue_is_not_begun_anew_while_it_may_be_elsewhere() {
    let cluster = Cluster::start();
    let [first, second] = &mut cluster.clients();
    story(
        first,
        &[
            ("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]"),
            (&format!("RPUSH {LIST} f:1"), "1"),
            (&format!("ZADD {DEADLINES} 9999999999999 f:1"), "1"),
        ],
    );
    cluster.begin_to_move();
    // While all keys are on the first node, nothing is different.
    story(first, &[("RLOCK.ACQUIRE lock bob 1000 FAIR", "null")]);
    cluster.move_key(LIST);
    let said = say(first, "RLOCK.ACQUIRE lock bob 1000 FAIR BLOCK 0");
    assert!(said.starts_with("!TRYAGAIN "), "{said}");
    cluster.move_key("lock");
    let said = asking(second, "RLOCK.ACQUIRE lock bob 1000 FAIR BLOCK 0");
    assert!(said.starts_with("!TRYAGAIN "), "{said}");
    cluster.move_key(DEADLINES);
    assert_eq!(asking(second, "RLOCK.ACQUIRE lock bob 1000 FAIR"), "null");
    cluster.end_move();
    story(second, &[("RLOCK.RELEASE lock alice", "1"), ("RLOCK.ACQUIRE lock bob 1000 FAIR", "null")]);
}

/// The keys of a fair queue move one by one. FAIR waiters were once put back into a list that had moved, which made
/// two lists and stopped `MIGRATE`, or twice into a list whose deadlines had moved, which left dead entries.
#[test]
fn a_fair_queue_is_not_mended_while_a_part_of_it_is_elsewhere() {
    for keys in [[LIST, DEADLINES], [DEADLINES, LIST]] {
        let cluster = Cluster::start();
        let [first, second] = &mut cluster.clients();
        let at_the_end = format!("RPUSH {LIST} f:1");
        let deadline = format!("ZADD {DEADLINES} 9999999999999 f:1");
        story(first, &[("RLOCK.ACQUIRE lock alice 100000 FAIR", "[1, 100000, 0]")]);
        let wait = |node: &_| {
            ["b:1", "b:2"]
                .map(|owner| Waiting::line(node, &format!("RLOCK.ACQUIRE lock {owner} 50000 FAIR BLOCK 0")))
        };
        let waiting = wait(&cluster.nodes[0]);
        story(first, &[(&at_the_end, "3"), (&deadline, "1")]);
        cluster.begin_to_move();
        cluster.move_key(keys[0]);
        // The waiters are notified at once, and keep their places, as a Redisson waiter does.
        for waiting in waiting {
            assert!(waiting.answer().starts_with("!UNBLOCKED "));
        }
        let said = say(first, "RLOCK.ACQUIRE lock b:1 50000 FAIR BLOCK 0");
        assert!(said.starts_with("!TRYAGAIN "), "{said}");
        cluster.move_key(keys[1]);
        cluster.move_lock();
        assert_eq!(cluster.keys(), [0, 3]);
        cluster.end_move();
        let list = format!("LRANGE {LIST} 0 -1");
        story(second, &[(&list, r#"["b:1", "b:2", "f:1"]"#), (&format!("ZCARD {DEADLINES}"), "3")]);
        let waiting = wait(&cluster.nodes[1]);
        story(second, &[("RLOCK.RELEASE lock alice", "1")]);
        assert_eq!(waiting[0].answer(), "[1, 50000, 0]");
        story(second, &[("RLOCK.RELEASE lock b:1", "1"), (&list, r#"["f:1"]"#)]);
        assert_eq!(waiting[1].answer(), "[1, 50000, 0]");
    }
}

#[test]
fn permits_move_with_their_slot() {
    let cluster = Cluster::start();
    let [first, second] = &mut cluster.clients();
    story(
        first,
        &[
            ("RLOCK.ACQUIRE lock alice 1000000 PERMITS 2", "[1, 1000000, 0]"),
            ("RLOCK.ACQUIRE lock bob 900000 PERMITS 2", "[1, 900000, 0]"),
        ],
    );
    let carol = Waiting::line(&cluster.nodes[0], "RLOCK.ACQUIRE lock carol 1000 PERMITS 2 BLOCK 0");
    cluster.begin_to_move();
    cluster.move_lock();
    was_sent_away(&carol);
    assert_eq!(asking(second, "RLOCK.ACQUIRE lock carol 1000 PERMITS 2"), "null");
    assert_eq!(asking(second, "RLOCK.RENEW lock bob 900000"), "1");
    cluster.end_move();
    let carol = Waiting::line(&cluster.nodes[1], "RLOCK.ACQUIRE lock carol 50000 PERMITS 2 BLOCK 0");
    story(second, &[("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!(carol.answer(), "[1, 50000, 0]");
}
