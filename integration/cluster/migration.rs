//! Slots that move to another node of a cluster while clients wait for a lock in them.

use std::time::Duration;

use redis::Connection;
use rlock_testkit::commands::{SOON, counter, is_at_rest, say, story};
use rlock_testkit::held::acquisition;
use rlock_testkit::nodes::{AGREED, Cluster, asking};
use rlock_testkit::waiting::Waiting;
use rlock_testkit::{Subscriber, eventually};

use crate::{CHANNEL, was_sent_away};

/// `alice` holds the lock; `bob` is blocked and `carol` enqueued, with the messages for her.
#[track_caller]
fn held_and_awaited(cluster: &Cluster) -> (Waiting, Subscriber) {
    let node = &cluster.nodes[0];
    let grants = Subscriber::connect(node).ssubscribe(&[CHANNEL]);
    let client = &mut node.connect();
    story(client, &[("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]")]);
    let bob = Waiting::line(node, "RLOCK.ACQUIRE lock bob 50000 BLOCK 0");
    story(client, &[(&format!("RLOCK.ACQUIRE lock carol 4000 ENQUEUE 0 {CHANNEL}"), "[0, 0, 0]")]);
    assert_eq!(counter(node, "waiters"), 2);
    (bob, grants)
}

/// Asserts that both waiters were sent away, and nothing was granted on the first node.
#[track_caller]
fn were_sent_away(cluster: &Cluster, bob: &Waiting, grants: &mut Subscriber) {
    was_sent_away(bob);
    assert_eq!(grants.next(SOON), Some((CHANNEL.into(), b"dropped 0 carol lock moved".to_vec())));
    let node = &cluster.nodes[0];
    assert_eq!((counter(node, "waiters"), counter(node, "hand_offs")), (0, 0));
}

#[track_caller]
fn is_redirected(client: &mut Connection, line: &str, word: &str) {
    let said = say(client, line);
    assert!(said.starts_with(&format!("!{word} ")), "{line}: {said}");
}

#[test]
fn waiters_for_a_key_that_moves_are_notified() {
    let cluster = Cluster::start();
    let [first, second] = &mut cluster.clients();
    let (bob, mut grants) = held_and_awaited(&cluster);
    cluster.begin_to_move();
    cluster.move_lock();
    were_sent_away(&cluster, &bob, &mut grants);
    assert_eq!(cluster.keys(), [0, 1]);
    for line in ["RLOCK.ACQUIRE lock bob 4000 BLOCK 0", "RLOCK.RELEASE lock alice", "RLOCK.CANCEL lock bob"] {
        is_redirected(first, line, "ASK");
    }
    // On the second node the holder still holds it.
    assert_eq!(asking(second, "RLOCK.ACQUIRE lock bob 4000"), "null");
    assert_eq!(asking(second, "RLOCK.RENEW lock alice 100000"), "1");
    cluster.end_move();
    is_redirected(first, "RLOCK.ACQUIRE lock bob 4000", "MOVED");
    let bob = Waiting::line(&cluster.nodes[1], "RLOCK.ACQUIRE lock bob 50000 BLOCK 0");
    story(second, &[("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!(bob.answer(), "[1, 50000, 0]");
    assert_eq!((cluster.keys(), counter(&cluster.nodes[0], "waiters")), ([0, 1], 0));
    // No timer is left for a lock that has moved.
    assert!(is_at_rest(first));
}

#[test]
fn a_lock_that_becomes_free_while_its_slot_moves_is_not_granted_here() {
    for free in ["DEL lock", "PEXPIRE lock 50"] {
        let cluster = Cluster::start();
        let [first, second] = &mut cluster.clients();
        let (bob, mut grants) = held_and_awaited(&cluster);
        cluster.begin_to_move();
        story(first, &[(free, "1")]);
        were_sent_away(&cluster, &bob, &mut grants);
        is_redirected(first, "RLOCK.ACQUIRE lock bob 4000", "ASK");
        // A client that follows the redirection gets it, and is the only holder.
        assert_eq!(asking(second, "RLOCK.ACQUIRE lock dave 100000"), "[1, 100000, 0]", "{free}");
        cluster.end_move();
        story(second, &[("RLOCK.ACQUIRE lock eve 100000", "null")]);
        assert_eq!(cluster.keys(), [0, 1], "{free}");
    }
}

#[test]
fn a_lock_that_is_there_is_handed_on_while_its_slot_moves() {
    let cluster = Cluster::start();
    let [first, second] = &mut cluster.clients();
    let (bob, mut grants) = held_and_awaited(&cluster);
    cluster.begin_to_move();
    // The lock is never absent, so no client is sent to the other node meanwhile.
    story(first, &[("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!(bob.answer(), "[1, 50000, 0]");
    assert_eq!(cluster.keys(), [1, 0]);
    story(first, &[("RLOCK.ACQUIRE lock eve 100000", "null"), ("RLOCK.RENEW lock bob 60000", "1")]);
    grants.none_within(Duration::from_millis(1_500));
    cluster.move_lock();
    let moved = grants.next(SOON);
    assert_eq!(moved, Some((CHANNEL.into(), b"dropped 0 carol lock moved".to_vec())));
    cluster.end_move();
    story(second, &[("RLOCK.ACQUIRE lock eve 100000", "null"), ("RLOCK.RELEASE lock bob", "1")]);
    story(second, &[("RLOCK.ACQUIRE lock carol 100000", "[1, 100000, 0]")]);
    assert_eq!((cluster.keys(), counter(&cluster.nodes[0], "waiters")), ([0, 1], 0));
}

#[test]
fn a_release_without_a_listening_waiter_leaves_the_lock_to_the_other_node() {
    let cluster = Cluster::start();
    let [first, second] = &mut cluster.clients();
    let node = &cluster.nodes[0];
    let mut unlocks = Subscriber::connect(node).ssubscribe(&["redisson_lock__channel:{lock}"]);
    story(first, &[("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]")]);
    story(first, &[("RLOCK.ACQUIRE lock bob 4000 ENQUEUE 0 deaf:{lock}", "[0, 0, 0]")]);
    cluster.begin_to_move();
    story(first, &[("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!(unlocks.next(SOON).expect("a message").1, b"0");
    assert_eq!((cluster.keys(), counter(node, "waiters"), counter(node, "hand_offs")), ([0, 0], 0, 0));
    is_redirected(first, "RLOCK.ACQUIRE lock dave 4000 BLOCK 0", "ASK");
    assert_eq!(asking(second, "RLOCK.ACQUIRE lock dave 100000 BLOCK 0"), "[1, 100000, 0]");
}

#[test]
fn nothing_is_granted_while_the_cluster_is_down() {
    let cluster = Cluster::start();
    let client = &mut cluster.nodes[0].connect();
    let (bob, mut grants) = held_and_awaited(&cluster);
    story(client, &[("PEXPIRE lock 60000", "1")]);
    cluster.nodes[1].signal(libc::SIGSTOP);
    eventually("the cluster to be down", AGREED, || {
        say(client, "CLUSTER INFO").contains("cluster_state:fail").then_some(())
    });
    // The other side may have elected another primary by now.
    for line in
        ["ACQUIRE lock dave 4000", "ACQUIRE {lock}2 dave 4000", "RELEASE lock alice", "RENEW lock alice 9"]
    {
        is_redirected(client, &format!("RLOCK.{line}"), "CLUSTERDOWN");
    }
    assert!(bob.still_waits() && grants.drain().is_empty());
}

const TOKEN_KEY: &str = "redisson_lock_token:{lock}";
const FENCED: &str = "RLOCK.ACQUIRE lock alice 100000 HOLDS 1 FENCED";

/// The keys of a slot move one by one, so the lock's last token may be on the other node. A client that asks for a
/// token must try again, as with any command on several keys, and gets no token that was given before.
#[test]
fn no_token_is_given_while_the_last_may_be_on_the_other_node() {
    let cluster = Cluster::start();
    let [first, second] = &mut cluster.clients();
    let last = acquisition(&say(first, FENCED))[2];
    let bob = Waiting::line(&cluster.nodes[0], "RLOCK.ACQUIRE lock bob 50000 FENCED BLOCK 0");
    cluster.begin_to_move();
    // While both keys are on the first node, nothing is different.
    let next = acquisition(&say(first, FENCED))[2];
    assert!(next > last, "{next} after {last}");
    cluster.move_key(TOKEN_KEY);
    let said = say(first, FENCED);
    assert!(said.starts_with("!TRYAGAIN "), "{said}");
    story(first, &[("RLOCK.ACQUIRE lock alice 100000 HOLDS 1", "[1, 100000, 0]")]);
    // Nor is the lock granted here to a waiter that needs a token.
    story(first, &[("RLOCK.RELEASE lock alice", "1")]);
    was_sent_away(&bob);
    // The token is on the second node, where the lock is acquired now.
    assert!(acquisition(&asking(second, FENCED))[2] > next);
    cluster.end_move();
}

/// The other way round: the lock is acquired on the second node while its token is still on the first.
#[test]
fn a_token_that_has_not_arrived_is_waited_for() {
    let cluster = Cluster::start();
    let [first, second] = &mut cluster.clients();
    let last = acquisition(&say(first, FENCED))[2];
    story(first, &[("RLOCK.RELEASE lock alice", "1")]);
    cluster.begin_to_move();
    let said = asking(second, FENCED);
    assert!(said.starts_with("!TRYAGAIN "), "{said}");
    assert_eq!(cluster.keys(), [1, 0]);
    cluster.move_key(TOKEN_KEY);
    assert!(acquisition(&asking(second, FENCED))[2] > last);
    cluster.end_move();
    assert!(acquisition(&say(second, FENCED))[2] > last);
}

/// No event reports that, and the key stays: the waiters slept until the lease ended.
#[test]
fn waiters_for_a_slot_that_no_node_serves_any_more_are_sent_away() {
    let cluster = Cluster::start();
    let (bob, _grants) = held_and_awaited(&cluster);
    let [first, _] = &mut cluster.clients();
    // More than one event-loop cycle sends away.
    for number in 0..250 {
        let line = format!("RLOCK.ACQUIRE lock waiter{number} 4000 ENQUEUE 0 {CHANNEL}");
        story(first, &[(&line, "[0, 0, 0]")]);
    }
    let line = |word: &str| format!("CLUSTER {word} {}", cluster.slot);
    // Otherwise the server answers blocked clients itself: the whole cluster is down.
    story(first, &[("CONFIG SET cluster-require-full-coverage no", "OK")]);
    story(first, &[(&line("DELSLOTS"), "OK")]);
    was_sent_away(&bob);
    eventually("the others to leave", SOON, || (counter(&cluster.nodes[0], "waiters") == 0).then_some(()));
    assert_eq!(counter(&cluster.nodes[0], "hand_offs"), 0);
    // The holder is there again with the slot.
    story(first, &[(&line("ADDSLOTS"), "OK")]);
    eventually("the slot", AGREED, || (say(first, "RLOCK.ACQUIRE lock dave 4000") == "null").then_some(()));
    story(first, &[("RLOCK.RELEASE lock alice", "1")]);
}
