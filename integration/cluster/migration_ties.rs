//! Slots that move to another node while holds and waiters in them are tied to connections: the lease goes with the key, the
//! tie does not.

use std::time::Duration;

use redis::Connection;
use rlock_testkit::commands::{SOON, counter, number, say, story};
use rlock_testkit::nodes::Cluster;
use rlock_testkit::{ReplicaStream, Subscriber, eventually};

use crate::CHANNEL;

/// A lock of each kind, in one slot.
const LOCKS: [&str; 3] = ["lock", "{lock}r", "{lock}p"];

/// A grace period much shorter than the leases.
const GRACE: u32 = 200;

/// The time in which the end of a connection would show an effect.
const QUIET: Duration = Duration::from_millis(700);

/// `bob` holds a lock of each kind, tied to the connection.
#[track_caller]
fn hold(bob: &mut Connection, grace: u32) {
    for (lock, kind) in LOCKS.into_iter().zip(["", "READ ", "PERMITS 2 "]) {
        story(bob, &[(&format!("RLOCK.ACQUIRE {lock} bob 100000 {kind}SESSION {grace}"), "[1, 100000, 0]")]);
    }
}

/// All keys of the slot move one by one.
#[track_caller]
fn move_all(cluster: &Cluster) {
    for name in cluster.names() {
        cluster.move_key(&name);
    }
    assert_eq!(cluster.keys()[0], 0);
}

/// The leases on the second node are as they were given.
#[track_caller]
fn leases_stand(second: &mut Connection) {
    for lock in LOCKS {
        let left = number(second, &format!("PTTL {lock}"));
        assert!(left > 90_000, "{left} ms of {lock} are left");
        let info = say(second, &format!("RLOCK.INFO {lock}"));
        assert!(info.contains(r#""owner", "bob""#) && !info.contains("session"), "{info}");
    }
}

/// The connections end when the slot is the second node's, and while `ASK` sends callers there.
#[test]
fn what_is_tied_loses_its_tie_when_its_slot_has_left() {
    for over in [true, false] {
        let cluster = Cluster::start();
        let node = &cluster.nodes[0];
        let (mut bob, mut carol) = (node.connect(), node.connect());
        let mut grants = Subscriber::connect(node).ssubscribe(&[CHANNEL]);
        hold(&mut bob, GRACE);
        let waits = format!("RLOCK.ACQUIRE lock carol 50000 SESSION {GRACE} ENQUEUE 0 {CHANNEL}");
        story(&mut carol, &[(&waits, "[0, 0, 0]")]);
        assert_eq!(counter(node, "ties"), 4);
        cluster.begin_to_move();
        move_all(&cluster);
        if over {
            let moved = Some((CHANNEL.into(), b"dropped 0 carol lock moved".to_vec()));
            assert_eq!(grants.next(SOON), moved);
            cluster.end_move();
            eventually("the ties to be dropped", SOON, || (counter(node, "ties") == 0).then_some(()));
        }
        let mut replicated = ReplicaStream::open(node);
        drop((bob, carol));
        assert_eq!(replicated.next(QUIET), None, "the node that the slot has left writes nothing");
        let [_, second] = &mut cluster.clients();
        if over {
            grants.none_within(Duration::ZERO);
            leases_stand(second);
        } else {
            // Of why the wait ended, either is true.
            let (_, told) = grants.next(SOON).expect("a message for carol");
            let told = String::from_utf8_lossy(&told).into_owned();
            assert!(
                ["moved", "session"].map(|why| format!("dropped 0 carol lock {why}")).contains(&told),
                "{told}"
            );
            cluster.end_move();
            leases_stand(second);
        }
        assert_eq!((counter(node, "ties"), counter(node, "waiters")), (0, 0));
    }
}

/// While the keys are still here a session ends as ever, and the short lease goes along.
#[test]
fn a_session_that_ends_before_its_key_moves_shortens_the_lease() {
    let cluster = Cluster::start();
    let [first, second] = &mut cluster.clients();
    let mut bob = cluster.nodes[0].connect();
    hold(&mut bob, 20_000);
    cluster.begin_to_move();
    drop(bob);
    for lock in LOCKS {
        eventually("the lease to be shortened", SOON, || {
            (number(first, &format!("PTTL {lock}")) <= 20_000).then_some(())
        });
    }
    move_all(&cluster);
    cluster.end_move();
    for lock in LOCKS {
        let left = number(second, &format!("PTTL {lock}"));
        assert!((1..=20_000).contains(&left), "{left} ms of {lock} are left");
    }
}

/// The lease key of a reader is on the second node already. To shorten it here would make it anew, and the two could not be
/// brought together again.
#[test]
fn a_reader_whose_lease_key_has_moved_keeps_its_lease() {
    let cluster = Cluster::start();
    let [_, second] = &mut cluster.clients();
    let mut bob = cluster.nodes[0].connect();
    story(&mut bob, &[(&format!("RLOCK.ACQUIRE lock bob 100000 READ SESSION {GRACE}"), "[1, 100000, 0]")]);
    cluster.begin_to_move();
    cluster.move_key("{lock}:bob:rwlock_timeout:1");
    let mut replicated = ReplicaStream::open(&cluster.nodes[0]);
    drop(bob);
    assert_eq!(replicated.next(QUIET), None);
    assert_eq!(cluster.keys(), [1, 1]);
    cluster.move_lock();
    cluster.end_move();
    story(
        second,
        &[("RLOCK.ACQUIRE lock carol 1000 WRITE", "null"), ("RLOCK.RENEW lock bob 50000 READ", "1")],
    );
}
