//! RLOCK.FORCERELEASE: taking a lock from any holder.

use rlock_testkit::prelude::*;

use crate::in_both_protocols;

#[test]
fn takes_the_lock_from_any_holder() {
    let lines = ["HSET lock alice 1", "RLOCK.FORCERELEASE lock", "RLOCK.FORCERELEASE lock"];
    let story = &[
        ("RLOCK.FORCERELEASE lock", "0"),
        ("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE lock alice 100000", "[2, ~100000, 0]"),
        ("RLOCK.ACQUIRE lock alice 100000", "[3, ~100000, 0]"),
        ("RLOCK.FORCERELEASE lock", "1"),
        ("EXISTS lock", "0"),
        ("RLOCK.FORCERELEASE lock", "0"),
        ("RLOCK.ACQUIRE lock bob 100000", "[1, 100000, 0]"),
        ("PERSIST lock", "1"),
        ("RLOCK.FORCERELEASE lock", "1"),
        ("DBSIZE", "0"),
    ];
    in_both_protocols(story, &lines, [":1\r\n:1\r\n:0\r\n", ":1\r\n:1\r\n:0\r\n"]);
}

#[test]
fn takes_only_from_the_owner_given() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[
        ("RLOCK.FORCERELEASE lock alice", "0"),
        ("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE lock alice 100000", "[2, ~100000, 0]"),
    ]);
    let before = state(client, "lock");
    client.story(&[("RLOCK.FORCERELEASE lock bob", "0"), ("RLOCK.FORCERELEASE lock ALICE", "0")]);
    assert_eq!(state(client, "lock"), before);
    client.story(&[("RLOCK.FORCERELEASE lock alice", "1"), ("RLOCK.FORCERELEASE lock alice", "0")]);
    assert_eq!(say(client, "DBSIZE"), "0");
}

#[test]
fn the_owner_learns_it_from_renew() {
    let server = TestServer::start();
    let (mut owner, mut operator) = (server.connect(), server.connect());
    owner.story(&[("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]")]);
    operator.story(&[("RLOCK.FORCERELEASE lock", "1")]);
    owner.story(&[("RLOCK.RENEW lock alice 100000", "0"), ("RLOCK.RELEASE lock alice", "null")]);
    // The same when another owner holds the lock by that time: it keeps the lock.
    owner.story(&[("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]")]);
    operator.story(&[
        ("RLOCK.FORCERELEASE lock alice", "1"),
        ("RLOCK.ACQUIRE lock bob 100000", "[1, 100000, 0]"),
    ]);
    owner.story(&[
        ("RLOCK.RENEW lock alice 900000", "0"),
        ("RLOCK.ACQUIRE lock alice 100000 HOLDS 2", "null"),
        ("RLOCK.RELEASE lock alice ALL", "null"),
        ("HGETALL lock", r#"["bob", "1"]"#),
        ("PTTL lock", "~100000"),
    ]);
}
