//! RLOCK.RENEW: the lease counts from now.

use rlock_testkit::prelude::*;

use crate::in_both_protocols;

#[test]
fn answers_one_or_zero() {
    let lines = ["HSET lock alice 1", "RLOCK.RENEW lock alice 100000", "RLOCK.RENEW lock bob 100000"];
    let story = &[
        ("RLOCK.RENEW lock alice 100000", "0"),
        ("EXISTS lock", "0"),
        ("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]"),
        ("RLOCK.RENEW lock alice 300000", "1"),
        ("RLOCK.RENEW lock bob 900000", "0"),
        ("PTTL lock", "~300000"),
        ("RLOCK.RELEASE lock alice", "1"),
        ("RLOCK.RENEW lock alice 100000", "0"),
        ("DBSIZE", "0"),
    ];
    in_both_protocols(story, &lines, [":1\r\n:1\r\n:0\r\n", ":1\r\n:1\r\n:0\r\n"]);
}

#[test]
fn counts_from_now_also_when_shorter() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[("RLOCK.ACQUIRE lock alice 300000", "[1, 300000, 0]"), ("HSET lock alice 3", "0")]);
    let hash = say(client, "DUMP lock");
    client.story(&[
        ("RLOCK.RENEW lock alice 600000", "1"),
        ("PTTL lock", "~600000"),
        ("RLOCK.RENEW lock alice 100000", "1"),
        ("PTTL lock", "~100000"),
        ("DUMP lock", &hash),
        ("HGETALL lock", r#"["alice", "3"]"#),
        ("RLOCK.RENEW lock alice 1", "1"),
    ]);
    wait_for("the short lease to end", || say(client, "EXISTS lock") == "0");
}
