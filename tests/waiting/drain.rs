//! `rlock.accept no`: a server that is emptied of waiters before it is demoted or stopped.

use rlock_testkit::prelude::*;

const UNBLOCKED: &str = "!UNBLOCKED this server is drained (rlock.accept is no); \
    try again later, or on the server that takes over";

fn wait(server: &TestServer, owner: &str, key: &str, how: &str) -> Waiting {
    let line = format!("RLOCK.ACQUIRE {key} {owner} 60000 {how} BLOCK 0");
    Waiting::line(server, &line)
}

#[test]
fn waiters_are_sent_away_in_each_mode() {
    let (server, client) = &mut TestServer::start_and_connect();
    client.story(&[
        ("RLOCK.ACQUIRE plain alice 100000", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE shared alice 100000 WRITE", "[1, 100000, 0]"),
    ]);
    let mut channel = Subscriber::channel(server, "news");
    let waiting = [
        wait(server, "bob", "plain", ""),
        wait(server, "carol", "plain", "FAIR"),
        wait(server, "dave", "plain", "FENCED"),
        wait(server, "bob", "shared", "READ"),
        wait(server, "carol", "shared", "WRITE"),
    ];
    client.story(&[
        ("RLOCK.ACQUIRE plain eve 60000 ENQUEUE 0 news", "[0, 0, 0]"),
        ("RLOCK.ACQUIRE shared eve 60000 READ ENQUEUE 0 news", "[0, 0, 0]"),
        ("CONFIG SET rlock.accept no", "OK"),
    ]);
    for bob in waiting {
        assert_eq!(bob.answer(), UNBLOCKED);
    }
    for expected in ["dropped 0 eve plain drained", "dropped 0 eve shared drained read"] {
        assert_eq!(channel.next_text(), expected);
    }
    assert_eq!((counter(server, "waiters"), counter(server, "waiters_sent_away")), (0, 7));
    // Holders are left alone, and nothing is left of Redisson's fair queue.
    eventually("the fair queue to be cleared", SOON, || {
        let left = say(client, "EXISTS redisson_lock_queue:{plain} redisson_lock_timeout:{plain}");
        (left == "0").then_some(())
    });
    client.story(&[
        ("RLOCK.RENEW plain alice 100000", "1"),
        ("RLOCK.RELEASE plain alice", "1"),
        ("RLOCK.RELEASE shared alice", "1"),
        ("EXISTS plain shared", "0"),
    ]);
}

#[test]
fn no_client_begins_to_wait_until_it_is_yes_again() {
    let (server, client) = &mut held();
    client.story(&[("CONFIG SET rlock.accept no", "OK")]);
    for how in ["", "BLOCK 0", "ENQUEUE 0 news", "FAIR BLOCK 0"] {
        client.story(&[(&format!("RLOCK.ACQUIRE lock bob 60000 {how}"), "!ERR this server is drained…")]);
    }
    client.story(&[("CONFIG SET rlock.accept yes", "OK")]);
    let bob = wait(server, "bob", "lock", "");
    // The same value once more sends no waiter away.
    client.story(&[("CONFIG SET rlock.accept yes", "OK"), ("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!(bob.answer(), "[1, 60000, 0]");
}

/// In one transaction the lock is handed to bob, whose client is killed before its answer, and the server is drained:
/// the grant to revoke is not forgotten with the waiters.
#[test]
fn an_undelivered_grant_is_still_revoked() {
    let (server, client) = &mut held();
    let (bob, carol) = (wait(server, "bob", "lock", ""), wait(server, "carol", "lock", ""));
    let kill = format!("CLIENT KILL ID {}", bob.client_id());
    let answers = transaction(client, &["RLOCK.RELEASE lock alice", &kill, "CONFIG SET rlock.accept no"]);
    assert_eq!(answers, "[1, 1, OK]");
    assert!(bob.answer().starts_with("the connection ended"));
    assert_eq!(carol.answer(), UNBLOCKED);
    wait_for("bob's grant to be revoked", || say(client, "EXISTS lock") == "0");
}

/// A CONFIG SET that fails as a whole leaves the waiters where they are.
#[test]
fn a_config_set_that_fails_sends_no_waiter_away() {
    let (server, client) = &mut held();
    let bob = wait(server, "bob", "lock", "");
    client.story(&[("CONFIG SET rlock.accept no rlock.foreign-window-ms -1", "!ERR…")]);
    bob.waits_on(Duration::from_millis(200));
    client.story(&[
        ("CONFIG GET rlock.accept", r#"["rlock.accept", "yes"]"#),
        ("RLOCK.RELEASE lock alice", "1"),
    ]);
    assert_eq!(bob.answer(), "[1, 60000, 0]");
}
