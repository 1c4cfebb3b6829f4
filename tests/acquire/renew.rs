//! RLOCK.RENEW: the lease counts from now.

use std::time::Duration;

use rlock_testkit::commands::{on_the_wire, say, state, story};
use rlock_testkit::{TestServer, eventually};

#[test]
fn answers_one_or_zero() {
    let server = TestServer::start();
    for mut client in [server.connect(), server.connect_resp3()] {
        story(
            &mut client,
            &[
                ("RLOCK.RENEW lock alice 100000", "0"),
                ("EXISTS lock", "0"),
                ("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]"),
                ("RLOCK.RENEW lock alice 300000", "1"),
                ("RLOCK.RENEW lock bob 900000", "0"),
                ("PTTL lock", "~300000"),
                ("RLOCK.RELEASE lock alice", "1"),
                ("RLOCK.RENEW lock alice 100000", "0"),
                ("DBSIZE", "0"),
            ],
        );
    }
    let lines = ["HSET lock alice 1", "RLOCK.RENEW lock alice 100000", "RLOCK.RENEW lock bob 100000"];
    assert_eq!(on_the_wire(&server, 2, &lines), ":1\r\n:1\r\n:0\r\n");
}

#[test]
fn a_caller_learns_that_its_lock_is_lost() {
    let (_server, client) = &mut TestServer::start_and_connect();
    story(client, &[("RLOCK.ACQUIRE lock alice 1", "[1, 1, 0]")]);
    eventually("the lease to end", Duration::from_secs(30), || {
        (say(client, "EXISTS lock") == "0").then_some(())
    });
    story(
        client,
        &[
            ("RLOCK.RENEW lock alice 100000", "0"),
            ("RLOCK.ACQUIRE lock bob 100000", "[1, 100000, 0]"),
            ("RLOCK.RENEW lock alice 900000", "0"),
            ("PTTL lock", "~100000"),
        ],
    );
}

#[test]
fn who_holds_nothing_changes_nothing() {
    let (_server, client) = &mut TestServer::start_and_connect();
    story(client, &[("RLOCK.ACQUIRE lock alice 300000", "[1, 300000, 0]")]);
    let before = state(client, "lock");
    for lease in [1, 300_000, 900_000] {
        story(client, &[(format!("RLOCK.RENEW lock bob {lease}").as_str(), "0")]);
        assert_eq!(state(client, "lock"), before, "{lease}");
    }
}

#[test]
fn counts_from_now_also_when_shorter() {
    let (_server, client) = &mut TestServer::start_and_connect();
    story(client, &[("RLOCK.ACQUIRE lock alice 300000", "[1, 300000, 0]"), ("HSET lock alice 3", "0")]);
    let hash = say(client, "DUMP lock");
    story(
        client,
        &[
            ("RLOCK.RENEW lock alice 600000", "1"),
            ("PTTL lock", "~600000"),
            ("RLOCK.RENEW lock alice 100000", "1"),
            ("PTTL lock", "~100000"),
            ("DUMP lock", &hash),
            ("HGETALL lock", r#"["alice", "3"]"#),
            ("RLOCK.RENEW lock alice 1", "1"),
        ],
    );
    eventually("the short lease to end", Duration::from_secs(30), || {
        (say(client, "EXISTS lock") == "0").then_some(())
    });
}

#[test]
fn gives_an_expiry_to_a_lock_without_one() {
    let (_server, client) = &mut TestServer::start_and_connect();
    story(
        client,
        &[
            ("RLOCK.ACQUIRE lock alice 300000", "[1, 300000, 0]"),
            ("PERSIST lock", "1"),
            ("RLOCK.RENEW lock alice 100000", "1"),
            ("PTTL lock", "~100000"),
            ("HSET foreign alice 2", "1"),
            ("RLOCK.RENEW foreign alice 100000", "1"),
            ("PTTL foreign", "~100000"),
            ("HGETALL foreign", r#"["alice", "2"]"#),
        ],
    );
}
