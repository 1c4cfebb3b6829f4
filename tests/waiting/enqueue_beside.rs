//! ENQUEUE beside the rest: databases, blocked clients, whatever frees a lock, clients that go.

use rlock_testkit::prelude::*;

use crate::enqueue::{WAITS, enqueue, holder};

#[test]
fn messages_name_the_database() {
    let (_server, client, grants) = &mut TestServer::start_and_listen("grants");
    for db in ["0", "3", "15"] {
        client.story(&[(&format!("SELECT {db}"), "OK"), ALICE]);
        enqueue(client, "bob", "grants");
        client.story(&[("RLOCK.ACQUIRE lock carol 4000 ENQUEUE 1 grants", WAITS)]);
        assert_eq!(grants.next_text(), format!("timeout {db} carol lock"));
        client.story(&[("RLOCK.RELEASE lock alice", "1")]);
        assert_eq!(grants.texts(), [format!("granted {db} bob lock 1 4000 0")]);
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
    let (server, client, grants) = &mut held_and_listen("grants");
    let block = |owner| Waiting::line(server, &format!("RLOCK.ACQUIRE lock {owner} 4000 BLOCK 0"));
    enqueue(client, "a", "grants");
    let b = block("b");
    enqueue(client, "c", "grants");
    enqueue(client, "d", "grants");
    let e = block("e");
    assert_eq!(waiters(client, "lock"), "a b c d e");
    for (releases, next) in ["alice", "a", "b", "c", "d"].into_iter().zip(["a", "b", "c", "d", "e"]) {
        client.story(&[(&format!("RLOCK.RELEASE lock {releases}"), "1")]);
        assert_eq!(holder(client), format!(r#"["{next}", "1"]"#));
        if next == "b" || next == "e" {
            let blocked = if next == "b" { &b } else { &e };
            assert_eq!((blocked.answer(), grants.texts().len()), ("[1, 4000, 0]".into(), 0));
        } else {
            assert_eq!(grants.texts(), [format!("granted 0 {next} lock 1 4000 0")]);
            assert_eq!(e.still_waits(), next != "e");
        }
    }
}

#[test]
fn whatever_frees_the_lock_tells_the_next() {
    let (_server, client, grants) = &mut TestServer::start_and_listen("grants");
    let frees = ["DEL lock", "FLUSHALL", "PEXPIRE lock 20", "RLOCK.RENEW lock alice 20", "SET lock x PX 20"];
    for free in frees {
        client.story(&[ALICE]);
        enqueue(client, "bob", "grants");
        say(client, free);
        // No client sends a command meanwhile: this test does not wake a sleeping waiter.
        assert_eq!(grants.next_text(), "granted 0 bob lock 1 4000 0", "{free}");
        client.story(&[("RLOCK.RELEASE lock bob", "1")]);
    }
}

#[test]
fn a_confirmed_grant_stands() {
    let (server, client, grants) = &mut TestServer::start_and_listen("grants");
    client.story(&[("CONFIG SET rlock.grant-confirm-ms 2000", "OK"), ALICE]);
    client.story(&[("RLOCK.ACQUIRE lock bob 100000 ENQUEUE 0 grants", WAITS)]);
    enqueue(client, "carol", "grants");
    client.story(&[("RLOCK.RELEASE lock alice", "1"), ("RLOCK.RENEW lock bob 100000", "1")]);
    assert_eq!(grants.texts(), ["granted 0 bob lock 1 2000 0"]);
    grants.none_within(Duration::from_millis(2_500));
    assert_eq!(holder(client), r#"["bob", "1"]"#);
    // The lease end of a holder is not an unconfirmed grant.
    client.story(&[("RLOCK.RENEW lock bob 10", "1")]);
    assert_eq!(grants.next_text(), "granted 0 carol lock 1 2000 0");
    assert_eq!((counter(server, "unconfirmed_grants"), counter(server, "found_expired")), (0, 1));
}

#[test]
fn an_enqueued_waiter_stays_when_its_client_goes() {
    let (server, client, grants) = &mut held_and_listen("grants");
    let mut asks = server.connect();
    let id = number(&mut asks, "CLIENT ID");
    enqueue(&mut asks, "bob", "grants");
    client.story(&[(&format!("CLIENT KILL ID {id}"), "1"), ("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!(grants.texts(), ["granted 0 bob lock 1 4000 0"]);
}

/// A tool that watches every channel was counted among the receivers of a grant: each waiter whose process had died
/// kept the lock for `rlock.grant-confirm-ms`.
#[test]
fn a_pattern_subscriber_confirms_no_grant() {
    let release = "RLOCK.RELEASE lock alice";
    let script = "EVAL return(redis.call('RLOCK.RELEASE','lock','alice')) 1 lock";
    for how in ["command", "transaction", "script", "timer"] {
        let (server, client) = &mut TestServer::start_and_connect();
        let mut all = Subscriber::pattern(server, "*");
        let mut grants = Subscriber::channel(server, "grants");
        client.story(&[ALICE]);
        let channels = ["dead:1", "dead:2", "dead:3", "grants"];
        for (owner, channel) in ["one", "two", "three", "bob"].into_iter().zip(channels) {
            enqueue(client, owner, channel);
        }
        let began = Instant::now();
        match how {
            "command" => client.story(&[(release, "1")]),
            "transaction" => assert_eq!(transaction(client, &[release]), "[1]"),
            "script" => assert_eq!(say(client, script), "1"),
            _ => client.story(&[("DEL lock", "1")]),
        }
        assert_eq!(grants.next_text(), "granted 0 bob lock 1 4000 0", "{how}");
        assert!(began.elapsed() < Duration::from_millis(4_000), "{how}: a dead waiter had it first");
        assert_eq!(holder(client), r#"["bob", "1"]"#, "{how}");
        assert_eq!(counter(server, "waiters_gone"), 3, "{how}");
        // A pattern subscriber sees every published message, and nothing was published to the dead.
        let told: Vec<String> = all
            .events()
            .into_iter()
            .filter(|line| line.starts_with("grants ") || line.starts_with("dead:"))
            .collect();
        assert_eq!(told, ["grants granted 0 bob lock 1 4000 0"], "{how}");
    }
}
