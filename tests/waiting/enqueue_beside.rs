//! ENQUEUE beside the rest: databases, blocked clients, whatever frees a lock, clients that go.

use std::time::{Duration, Instant};

use rlock_testkit::commands::{SOON, counter, number, on_the_wire, say, story, transaction};
use rlock_testkit::{Subscriber, TestServer};

use rlock_testkit::waiting::{Waiting, waiters};

use crate::enqueue::{ALICE, WAITS, enqueue, heard, holder, next};

#[test]
fn messages_name_the_database() {
    let server = TestServer::start();
    let (client, mut grants) = (&mut server.connect(), Subscriber::channel(&server, "grants"));
    for db in ["0", "3", "15"] {
        story(client, &[(&format!("SELECT {db}"), "OK"), ALICE]);
        enqueue(client, "bob", "grants");
        story(client, &[("RLOCK.ACQUIRE lock carol 4000 ENQUEUE 1 grants", WAITS)]);
        assert_eq!(next(&mut grants), format!("timeout {db} carol lock"));
        story(client, &[("RLOCK.RELEASE lock alice", "1")]);
        assert_eq!(heard(&mut grants), [format!("granted {db} bob lock 1 4000 0")]);
    }
}

#[test]
fn the_answer_has_exactly_these_bytes() {
    let lines = ["HSET lock alice 1", "RLOCK.ACQUIRE lock bob 1000 ENQUEUE 0 grants"];
    for protocol in [2, 3] {
        let server = TestServer::start();
        assert_eq!(on_the_wire(&server, protocol, &lines), ":1\r\n*3\r\n:0\r\n:0\r\n:0\r\n", "{protocol}");
    }
}

#[test]
fn enqueued_and_blocked_stand_in_one_queue() {
    let server = TestServer::start();
    let (client, mut grants) = (&mut server.connect(), Subscriber::channel(&server, "grants"));
    story(client, &[ALICE]);
    let block = |owner| Waiting::start(&server, &["RLOCK.ACQUIRE", "lock", owner, "4000", "BLOCK", "0"]);
    enqueue(client, "a", "grants");
    let b = block("b");
    enqueue(client, "c", "grants");
    enqueue(client, "d", "grants");
    let e = block("e");
    assert_eq!(waiters(client, "lock"), "a b c d e");
    for (releases, next) in ["alice", "a", "b", "c", "d"].into_iter().zip(["a", "b", "c", "d", "e"]) {
        story(client, &[(&format!("RLOCK.RELEASE lock {releases}"), "1")]);
        assert_eq!(holder(client), format!(r#"["{next}", "1"]"#));
        if next == "b" || next == "e" {
            let blocked = if next == "b" { &b } else { &e };
            assert_eq!((blocked.answer(), heard(&mut grants).len()), ("[1, 4000, 0]".into(), 0));
        } else {
            assert_eq!(heard(&mut grants), [format!("granted 0 {next} lock 1 4000 0")]);
            assert_eq!(e.still_waits(), next != "e");
        }
    }
}

#[test]
fn whatever_frees_the_lock_tells_the_next() {
    let server = TestServer::start();
    let (client, mut grants) = (&mut server.connect(), Subscriber::channel(&server, "grants"));
    let frees = ["DEL lock", "FLUSHALL", "PEXPIRE lock 20", "RLOCK.RENEW lock alice 20", "SET lock x PX 20"];
    for free in frees {
        story(client, &[ALICE]);
        enqueue(client, "bob", "grants");
        say(client, free);
        // Nobody says anything meanwhile: a waiter that sleeps is not woken by this test.
        assert_eq!(next(&mut grants), "granted 0 bob lock 1 4000 0", "{free}");
        story(client, &[("RLOCK.RELEASE lock bob", "1")]);
    }
}

#[test]
fn a_confirmed_grant_stands() {
    let server = TestServer::start();
    let (client, mut grants) = (&mut server.connect(), Subscriber::channel(&server, "grants"));
    story(client, &[("CONFIG SET rlock.grant-confirm-ms 2000", "OK"), ALICE]);
    story(client, &[("RLOCK.ACQUIRE lock bob 100000 ENQUEUE 0 grants", WAITS)]);
    enqueue(client, "carol", "grants");
    story(client, &[("RLOCK.RELEASE lock alice", "1"), ("RLOCK.RENEW lock bob 100000", "1")]);
    assert_eq!(heard(&mut grants), ["granted 0 bob lock 1 2000 0"]);
    grants.none_within(Duration::from_millis(2_500));
    assert_eq!(holder(client), r#"["bob", "1"]"#);
    // The lease of a holder that ends is no grant that was not confirmed.
    story(client, &[("RLOCK.RENEW lock bob 10", "1")]);
    assert_eq!(next(&mut grants), "granted 0 carol lock 1 2000 0");
    assert_eq!((counter(&server, "unconfirmed_grants"), counter(&server, "found_expired")), (0, 1));
}

#[test]
fn a_lock_that_only_deaf_channels_wait_for_becomes_free() {
    let server = TestServer::start();
    let (client, mut unlocks) =
        (&mut server.connect(), Subscriber::channel(&server, "redisson_lock__channel:{lock}"));
    for free in ["RLOCK.RELEASE lock alice", "DEL lock"] {
        story(client, &[ALICE]);
        enqueue(client, "bob", "deaf");
        enqueue(client, "carol", "deaf2");
        story(client, &[(free, "1")]);
        assert_eq!(next(&mut unlocks), "0", "{free}");
        assert_eq!((say(client, "EXISTS lock"), counter(&server, "waiters")), ("0".into(), 0), "{free}");
    }
    assert!(heard(&mut unlocks).is_empty());
}

#[test]
fn an_enqueued_waiter_stays_when_its_client_goes() {
    let server = TestServer::start();
    let (client, mut grants) = (&mut server.connect(), Subscriber::channel(&server, "grants"));
    story(client, &[ALICE]);
    let mut asks = server.connect();
    let id = number(&mut asks, "CLIENT ID");
    enqueue(&mut asks, "bob", "grants");
    story(client, &[(&format!("CLIENT KILL ID {id}"), "1")]);
    story(client, &[("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!(heard(&mut grants), ["granted 0 bob lock 1 4000 0"]);
}

/// A tool that watches every channel was counted among those who hear a grant: each waiter whose process had died kept
/// the lock for `rlock.grant-confirm-ms`.
#[test]
fn a_pattern_subscriber_confirms_no_grant() {
    let release = "RLOCK.RELEASE lock alice";
    let script = "EVAL return(redis.call('RLOCK.RELEASE','lock','alice')) 1 lock";
    for how in ["command", "transaction", "script", "timer"] {
        let (server, client) = &mut TestServer::start_and_connect();
        let mut all = Subscriber::pattern(server, "*");
        let mut grants = Subscriber::channel(server, "grants");
        story(client, &[ALICE]);
        let channels = ["dead:1", "dead:2", "dead:3", "grants"];
        for (owner, channel) in ["one", "two", "three", "bob"].into_iter().zip(channels) {
            enqueue(client, owner, channel);
        }
        let began = Instant::now();
        match how {
            "command" => story(client, &[(release, "1")]),
            "transaction" => assert_eq!(transaction(client, &[release]), "[1]"),
            "script" => assert_eq!(say(client, script), "1"),
            _ => story(client, &[("DEL lock", "1")]),
        }
        assert_eq!(next(&mut grants), "granted 0 bob lock 1 4000 0", "{how}");
        assert!(began.elapsed() < Duration::from_millis(4_000), "{how}: a dead waiter had it first");
        assert_eq!(
            (holder(client).as_str(), counter(server, "waiters_gone")),
            (r#"["bob", "1"]"#, 3),
            "{how}"
        );
        // What is published is seen by pattern as well, and nothing was published to the dead.
        let (channel, message) = all.next(SOON).expect("a message");
        assert_eq!(
            (&channel[..], &message[..]),
            (&b"grants"[..], &b"granted 0 bob lock 1 4000 0"[..]),
            "{how}"
        );
    }
}
