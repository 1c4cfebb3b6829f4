//! Servers that stop being the primary: waiters are sent away, and no client waits on a replica.

use std::time::{Duration, Instant};

use redis::Connection;
use rlock_testkit::clients::cluster::await_role;
use rlock_testkit::commands::{SOON, ask, counter, is_at_rest, say, story, text, transaction};
use rlock_testkit::waiting::{Waiting, waiters};
use rlock_testkit::{Subscriber, TestServer, wait_for_replicas_in_sync};

const ALICE: (&str, &str) = ("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]");

/// No server listens here: a replica of this address keeps its data.
const NO_PRIMARY: (&str, &str) = ("REPLICAOF 127.0.0.1 1", "OK");

#[track_caller]
fn block(server: &TestServer, key: &str, owner: &str) -> Waiting {
    Waiting::line(server, &format!("RLOCK.ACQUIRE {key} {owner} 50000 BLOCK 0"))
}

/// An owner waits on the channel `grants`.
#[track_caller]
fn enqueue(client: &mut Connection, key: &str, owner: &str) {
    story(client, &[(&format!("RLOCK.ACQUIRE {key} {owner} 4000 ENQUEUE 0 grants"), "[0, 0, 0]")]);
}

/// The next messages on a channel, in the order of their texts.
#[track_caller]
fn next(subscriber: &mut Subscriber, count: usize) -> Vec<String> {
    let mut next = || String::from_utf8(subscriber.next(SOON).expect("a message").1).unwrap();
    let mut messages: Vec<String> = (0..count).map(|_| next()).collect();
    messages.sort();
    messages
}

#[track_caller]
fn was_sent_away(waiting: &Waiting) {
    let answer = waiting.answer();
    assert!(answer.starts_with("!UNBLOCKED "), "{answer}");
}

#[test]
fn a_demoted_server_sends_its_waiters_away() {
    let server = TestServer::start();
    let (client, mut grants) = (&mut server.connect(), Subscriber::channel(&server, "grants"));
    story(client, &[ALICE, ("RLOCK.ACQUIRE other alice 100000", "[1, 100000, 0]")]);
    story(client, &[("RLOCK.ACQUIRE slots alice 100000 PERMITS 1", "[1, 100000, 0]")]);
    let blocked = ["lock b1 50000", "other b2 50000", "lock b3 50000", "slots b4 1000 PERMITS 1"]
        .map(|rest| Waiting::line(&server, &format!("RLOCK.ACQUIRE {rest} BLOCK 0")));
    enqueue(client, "lock", "e1");
    enqueue(client, "other", "e2");
    story(client, &[("SELECT 5", "OK"), ALICE]);
    enqueue(client, "lock", "e3");
    assert_eq!(counter(&server, "waiters"), 7);
    story(client, &[NO_PRIMARY]);
    blocked.iter().for_each(was_sent_away);
    let dropped = ["dropped 0 e1 lock demoted", "dropped 0 e2 other demoted", "dropped 5 e3 lock demoted"]
        .map(String::from);
    assert_eq!(next(&mut grants, 3), dropped);
    assert_eq!((counter(&server, "waiters"), waiters(client, "lock")), (0, String::new()));
    assert!(is_at_rest(client));
    story(client, &[("EXISTS lock", "1")]);
    assert!(grants.drain().is_empty());
}

#[test]
fn a_holder_keeps_the_lock_and_a_promoted_server_serves_again() {
    let server = TestServer::start();
    let (client, mut grants) = (&mut server.connect(), Subscriber::channel(&server, "grants"));
    story(client, &[ALICE]);
    let bob = block(&server, "lock", "bob");
    enqueue(client, "lock", "carol");
    for _ in 0..3 {
        story(client, &[NO_PRIMARY]);
        assert_eq!(next(&mut grants, 1), ["dropped 0 carol lock demoted"]);
        let said = say(client, "RLOCK.ACQUIRE lock bob 50000 BLOCK 0");
        assert!(said.starts_with("!READONLY "), "{said}");
        story(client, &[("REPLICAOF NO ONE", "OK"), ("HGETALL lock", r#"["alice", "1"]"#)]);
        // The queue is empty until a waiter asks again.
        assert_eq!(waiters(client, "lock"), "");
        enqueue(client, "lock", "carol");
    }
    was_sent_away(&bob);
    let bob = block(&server, "lock", "bob");
    story(client, &[("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!(next(&mut grants, 1), ["granted 0 carol lock 1 4000 0"]);
    story(client, &[("RLOCK.RELEASE lock carol", "1")]);
    assert_eq!(bob.answer(), "[1, 50000, 0]");
}

#[test]
fn a_lease_that_ends_on_a_replica_grants_nothing() {
    let server = TestServer::start();
    let (client, mut grants) = (&mut server.connect(), Subscriber::channel(&server, "grants"));
    story(client, &[("RLOCK.ACQUIRE lock alice 2000", "[1, 2000, 0]")]);
    enqueue(client, "lock", "bob");
    story(client, &[NO_PRIMARY]);
    assert_eq!(next(&mut grants, 1), ["dropped 0 bob lock demoted"]);
    grants.none_within(Duration::from_millis(2_500));
    story(client, &[("EXISTS lock", "0"), ("REPLICAOF NO ONE", "OK")]);
    story(client, &[("RLOCK.ACQUIRE lock carol 4000", "[1, 4000, 0]")]);
}

#[test]
fn no_client_waits_on_a_writable_replica() {
    let primary = TestServer::start();
    let replica = TestServer::builder().conf("replica-read-only", "no").start();
    let (here, there) = (&mut primary.connect(), &mut replica.connect());
    let mut grants = Subscriber::channel(&replica, "grants");
    replica.replicate_from(&primary);
    story(here, &[ALICE]);
    wait_for_replicas_in_sync(&primary, &replica);
    let begin = Instant::now();
    for wait in ["BLOCK 0", "BLOCK 60000", "ENQUEUE 0 grants", "ENQUEUE 60000 grants"] {
        story(there, &[(&format!("RLOCK.ACQUIRE lock bob 4000 {wait}"), "null")]);
        // A free lock is granted, in this server's own copy.
        story(there, &[(&format!("RLOCK.ACQUIRE free bob 4000 {wait}"), "[1, 4000, 0]")]);
        story(there, &[("RLOCK.RELEASE free bob", "1")]);
    }
    assert_eq!(transaction(there, &["RLOCK.ACQUIRE lock bob 4000 ENQUEUE 0 grants"]), "[null]");
    let script = "return redis.call('RLOCK.ACQUIRE', KEYS[1], 'bob', 4000, 'ENQUEUE', 0, 'grants')";
    assert_eq!(text(&ask(there, &["EVAL", script, "1", "lock"])), "null");
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    assert_eq!((counter(&replica, "waiters"), counter(&replica, "waiters_peak")), (0, 0));
    // The primary frees the lock: no client was waiting here.
    story(here, &[("RLOCK.RELEASE lock alice", "1")]);
    wait_for_replicas_in_sync(&primary, &replica);
    story(there, &[("EXISTS lock", "0")]);
    assert!(grants.drain().is_empty());
    story(there, &[("REPLICAOF NO ONE", "OK"), ALICE]);
    enqueue(there, "lock", "bob");
}

#[test]
fn a_failover_moves_locks_and_not_waiters() {
    let (primary, replica) = (TestServer::start(), TestServer::start());
    replica.replicate_from(&primary);
    let (here, there) = (&mut primary.connect(), &mut replica.connect());
    let mut grants = Subscriber::channel(&primary, "grants");
    story(here, &[ALICE]);
    let (bob, dave) = (block(&primary, "lock", "bob"), block(&primary, "lock", "dave"));
    enqueue(here, "lock", "carol");
    // A hand-off before the fail-over is part of what moves.
    story(here, &[("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!(bob.answer(), "[1, 50000, 0]");
    wait_for_replicas_in_sync(&primary, &replica);
    story(here, &[("FAILOVER", "OK")]);
    await_role(&primary, "slave");
    await_role(&replica, "master");
    was_sent_away(&dave);
    assert_eq!(next(&mut grants, 1), ["dropped 0 carol lock demoted"]);
    assert_eq!((counter(&primary, "waiters"), counter(&replica, "waiters")), (0, 0));
    // Where the lock is served now, its holder still holds it, and waiters that ask again wait.
    let dave = block(&replica, "lock", "dave");
    story(there, &[("RLOCK.RENEW lock bob 60000", "1"), ("RLOCK.RELEASE lock bob", "1")]);
    assert_eq!(dave.answer(), "[1, 50000, 0]");
    wait_for_replicas_in_sync(&replica, &primary);
    story(here, &[("HGETALL lock", r#"["dave", "1"]"#)]);
    assert!(is_at_rest(here));
}
