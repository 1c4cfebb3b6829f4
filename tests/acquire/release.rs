//! RLOCK.RELEASE: releasing one hold, all holds, or down to a count.

use rlock_testkit::prelude::*;

use crate::in_both_protocols;

const RELEASE: &str = "RLOCK.RELEASE lock alice";

#[test]
fn answers_one_zero_or_null() {
    let lines = ["HSET lock alice 2", RELEASE, RELEASE, RELEASE];
    let story = &[
        ("RLOCK.RELEASE lock alice", "null"),
        ("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE lock alice 100000", "[2, ~100000, 0]"),
        ("RLOCK.RELEASE lock alice", "0"),
        ("HGET lock alice", r#""1""#),
        ("RLOCK.RELEASE lock bob", "null"),
        ("RLOCK.RELEASE lock alice", "1"),
        ("EXISTS lock", "0"),
        ("RLOCK.RELEASE lock alice", "null"),
        ("DBSIZE", "0"),
    ];
    in_both_protocols(story, &lines, [":1\r\n:0\r\n:1\r\n$-1\r\n", ":1\r\n:0\r\n:1\r\n_\r\n"]);
}

#[test]
fn an_owner_without_a_hold_changes_nothing() {
    let (_server, client) = &mut held();
    let before = state(client, "lock");
    let releases = ["", "ALL", "HOLDS 0", "HOLDS 1", "HOLDS 5 LEASE 900000", "LEASE 1", "ALL LEASE 1"]
        .map(|options| ("RELEASE", options, "null"));
    let renewals = ["1", "100000", "900000"].map(|lease| ("RENEW", lease, "0"));
    for (command, options, answer) in releases.into_iter().chain(renewals) {
        for key in ["lock", "free"] {
            let line = format!("RLOCK.{command} {key} bob {options}");
            assert_eq!(say(client, &line), answer, "{line}");
        }
        assert_eq!(state(client, "lock"), before, "{command} {options}");
    }
    client.story(&[("DBSIZE", "1")]);
}

#[test]
fn takes_one_all_or_down_to_n() {
    const MOST: i64 = 1 << 53;
    let (_server, client) = &mut TestServer::start_and_connect();
    // held, what is said, left
    let cases = [
        (1, "", 0),
        (2, "", 1),
        (7, "", 6),
        (MOST, "", MOST - 1),
        (1, "ALL", 0),
        (7, "ALL", 0),
        (MOST, "all", 0),
        (1, "HOLDS 0", 0),
        (7, "HOLDS 0", 0),
        (7, "HOLDS 1", 1),
        (7, "HOLDS 6", 6),
        (7, "HOLDS 7", 7),
        (7, "HOLDS 8", 7),
        (1, "HOLDS 1", 1),
        (1, "HOLDS 9007199254740992", 1),
        (MOST, "HOLDS 9007199254740992", MOST),
        (MOST, "HOLDS 9007199254740991", MOST - 1),
        (7, "HOLDS 2 LEASE 100000", 2),
        (7, "LEASE 100000 HOLDS 7", 7),
        (7, "LEASE 100000", 6),
        (7, "LEASE 100000 ALL", 0),
        (1, "LEASE 100000", 0),
    ];
    for (held, options, left) in cases {
        let told = format!("held {held}: {options}");
        say(client, "DEL lock");
        say(client, &format!("HSET lock alice {held}"));
        say(client, "PEXPIRE lock 100000");
        let answer = say(client, &format!("RLOCK.RELEASE lock alice {options}"));
        assert_eq!(answer, if left == 0 { "1" } else { "0" }, "{told}");
        let hash = if left == 0 { "[]".to_owned() } else { format!(r#"["alice", "{left}"]"#) };
        assert_eq!(say(client, "HGETALL lock"), hash, "{told}");
        let ttl = if left == 0 { "-2" } else { "~100000" };
        client.story(&[("PTTL lock", ttl), ("EXISTS lock", if left == 0 { "0" } else { "1" })]);
    }
}

#[test]
fn leaves_the_lease_unless_told() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[("RLOCK.ACQUIRE lock alice 300000", "[1, 300000, 0]"), ("HSET lock alice 9", "0")]);
    let end = say(client, "PEXPIRETIME lock");
    client.story(&[
        ("RLOCK.RELEASE lock alice", "0"),
        ("RLOCK.RELEASE lock alice HOLDS 7", "0"),
        ("RLOCK.RELEASE lock alice HOLDS 7", "0"),
        ("PEXPIRETIME lock", &end),
        ("RLOCK.RELEASE lock alice LEASE 600000", "0"),
        ("PTTL lock", "~600000"),
        ("RLOCK.RELEASE lock alice LEASE 100000", "0"),
        ("PTTL lock", "~100000"),
        // Also where no hold is taken away: some are left.
        ("RLOCK.RELEASE lock alice HOLDS 5 LEASE 300000", "0"),
        ("PTTL lock", "~300000"),
        ("RLOCK.RELEASE lock alice HOLDS 8 LEASE 200000", "0"),
        ("PTTL lock", "~200000"),
        ("HGETALL lock", r#"["alice", "5"]"#),
        ("PERSIST lock", "1"),
        ("RLOCK.RELEASE lock alice", "0"),
        ("PTTL lock", "-1"),
        ("RLOCK.RELEASE lock alice LEASE 100000", "0"),
        ("PTTL lock", "~100000"),
        ("RLOCK.RELEASE lock alice ALL LEASE 100000", "1"),
        ("PTTL lock", "-2"),
    ]);
}

#[test]
fn a_repeat_with_holds_releases_once() {
    let server = TestServer::start();
    let (mut here, mut there) = (server.connect(), server.connect());
    let taken = ("RLOCK.ACQUIRE lock u:1 100000 HOLDS 1", "[1, ~100000, 0]");
    let inner = ("RLOCK.RELEASE lock u:1 HOLDS 2", "0");
    here.story(&[taken, ("HSET lock u:1 3", "0"), inner, inner]);
    there.story(&[inner, ("HGETALL lock", r#"["u:1", "2"]"#)]);
    here.story(&[("RLOCK.RELEASE lock u:1 HOLDS 1", "0")]);
    // A late repeat of a release that the owner has gone past releases nothing more.
    there.story(&[inner, ("HGETALL lock", r#"["u:1", "1"]"#)]);
    let outer = "RLOCK.RELEASE lock u:1 HOLDS 0";
    here.story(&[(outer, "1"), (outer, "null")]);
    // A repeat never takes the lock from its next holder.
    there.story(&[("RLOCK.ACQUIRE lock u:2 100000", "[1, 100000, 0]")]);
    here.story(&[(outer, "null"), ("HGETALL lock", r#"["u:2", "1"]"#)]);
}
