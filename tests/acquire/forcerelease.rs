//! RLOCK.FORCERELEASE: taking a lock from whoever holds it.

use rlock_testkit::TestServer;
use rlock_testkit::commands::{on_the_wire, say, state, story};

#[test]
fn takes_the_lock_from_anybody() {
    let server = TestServer::start();
    for mut client in [server.connect(), server.connect_resp3()] {
        story(
            &mut client,
            &[
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
            ],
        );
    }
    let lines = ["HSET lock alice 1", "RLOCK.FORCERELEASE lock", "RLOCK.FORCERELEASE lock"];
    assert_eq!(on_the_wire(&server, 2, &lines), ":1\r\n:1\r\n:0\r\n");
}

#[test]
fn takes_only_from_the_owner_given() {
    let (_server, client) = &mut TestServer::start_and_connect();
    story(
        client,
        &[
            ("RLOCK.FORCERELEASE lock alice", "0"),
            ("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]"),
            ("RLOCK.ACQUIRE lock alice 100000", "[2, ~100000, 0]"),
        ],
    );
    let before = state(client, "lock");
    story(client, &[("RLOCK.FORCERELEASE lock bob", "0"), ("RLOCK.FORCERELEASE lock ALICE", "0")]);
    assert_eq!(state(client, "lock"), before);
    story(client, &[("RLOCK.FORCERELEASE lock alice", "1"), ("RLOCK.FORCERELEASE lock alice", "0")]);
    assert_eq!(say(client, "DBSIZE"), "0");
}

#[test]
fn the_owner_learns_it_from_renew() {
    let server = TestServer::start();
    let (mut owner, mut operator) = (server.connect(), server.connect());
    story(&mut owner, &[("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]")]);
    story(&mut operator, &[("RLOCK.FORCERELEASE lock", "1")]);
    story(&mut owner, &[("RLOCK.RENEW lock alice 100000", "0"), ("RLOCK.RELEASE lock alice", "null")]);
    // Also when somebody else has the lock by then, who keeps it.
    story(&mut owner, &[("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]")]);
    story(
        &mut operator,
        &[("RLOCK.FORCERELEASE lock alice", "1"), ("RLOCK.ACQUIRE lock bob 100000", "[1, 100000, 0]")],
    );
    story(
        &mut owner,
        &[
            ("RLOCK.RENEW lock alice 900000", "0"),
            ("RLOCK.ACQUIRE lock alice 100000 HOLDS 2", "null"),
            ("RLOCK.RELEASE lock alice ALL", "null"),
            ("HGETALL lock", r#"["bob", "1"]"#),
            ("PTTL lock", "~100000"),
        ],
    );
}
