//! PERMITS: a limited number of owners hold a lock at once, each with a lease of its own.

mod waiting;

use redis::Connection;
use rlock_testkit::{Subscriber, TestServer, eventually};
use waiting::{SOON, Waiting, number, say, story, transaction};

const WITHOUT: &str =
    "!WRONGLOCK the key holds a lock with permits; acquire it with PERMITS, and leave READ and WRITE out";
const OTHER: &str = "!WRONGLOCK the key holds a lock without permits; leave PERMITS out, or use another key";
const OWN_DATA: &str = "!WRONGLOCK the key holds a sorted set that is not a lock; use another key";
const WRONG_TYPE: &str = "!WRONGTYPE Operation against a key holding the wrong kind of value";
const EXCLUDES: &str = "!ERR PERMITS excludes READ, WRITE, FAIR, FENCED and HOLDS above 1; leave them out";
const RANGE: &str = "!ERR invalid PERMITS: use an integer from 1 to 2147483647";

/// The score of a member; the server's clock in ms counts from 1970.
fn score(client: &mut Connection, owner: &str) -> i64 {
    let score = say(client, &format!("ZSCORE slots {owner}"));
    score.trim_matches('"').parse::<f64>().unwrap_or_else(|_| panic!("ZSCORE of {owner}: {score}")) as i64
}

/// The key expires with the last permit.
#[track_caller]
fn expires_with_the_last(client: &mut Connection) {
    let last = say(client, "ZRANGE slots -1 -1 WITHSCORES");
    let expires = say(client, "PEXPIRETIME slots");
    assert!(
        last.contains(&format!("\"{expires}\"")) || last.contains(&format!(", {expires}")),
        "{last} {expires}"
    );
}

#[test]
fn so_many_owners_hold_it_at_once() {
    let server = TestServer::start();
    let client = &mut server.connect();
    story(
        client,
        &[
            ("RLOCK.ACQUIRE slots a 60000 PERMITS 2", "[1, 60000, 0]"),
            ("RLOCK.ACQUIRE slots b 30000 permits 2", "[1, 30000, 0]"),
            ("RLOCK.ACQUIRE slots c 60000 PERMITS 2", "null"),
            ("ZCARD slots", "2"),
            ("TYPE slots", "zset"),
            // The limit is each caller's own.
            ("RLOCK.ACQUIRE slots c 60000 PERMITS 3", "[1, 60000, 0]"),
            ("RLOCK.ACQUIRE slots d 60000 PERMITS 2147483647", "[1, 60000, 0]"),
            ("RLOCK.RELEASE slots c", "1"),
            ("RLOCK.RELEASE slots c", "null"),
            ("RLOCK.RELEASE slots d ALL", "1"),
            ("RLOCK.RELEASE slots nobody", "null"),
            ("RLOCK.ACQUIRE slots c 60000 PERMITS 2", "null"),
            ("RLOCK.RELEASE slots a", "1"),
            ("RLOCK.ACQUIRE slots c 60000 PERMITS 2", "[1, 60000, 0]"),
            ("RLOCK.RELEASE slots b", "1"),
            ("RLOCK.RELEASE slots c", "1"),
            ("EXISTS slots", "0"),
        ],
    );
}

#[test]
fn an_owner_has_one_permit_which_never_gets_shorter_by_asking_again() {
    let server = TestServer::start();
    let client = &mut server.connect();
    story(
        client,
        &[
            ("RLOCK.ACQUIRE slots a 60000 PERMITS 1", "[1, 60000, 0]"),
            ("RLOCK.ACQUIRE slots a 90000 PERMITS 1 HOLDS 1", "[1, 90000, 0]"),
            // Holders keep what they have, however small the limit and whether the server is drained.
            ("RLOCK.ACQUIRE slots b 60000 PERMITS 2", "[1, 60000, 0]"),
            ("CONFIG SET rlock.accept no", "OK"),
            ("RLOCK.ACQUIRE slots b 80000 PERMITS 1", "[1, 80000, 0]"),
            ("CONFIG SET rlock.accept yes", "OK"),
            ("ZCARD slots", "2"),
        ],
    );
    expires_with_the_last(client);
    let ends = score(client, "a");
    assert!(say(client, "RLOCK.ACQUIRE slots a 1000 PERMITS 1").starts_with("[1, "));
    assert_eq!(score(client, "a"), ends);
    assert!(say(client, "CONFIG SET rlock.accept no") == "OK");
    let refused = say(client, "RLOCK.ACQUIRE slots c 1000 PERMITS 5");
    assert!(refused.starts_with("!ERR this server is drained"), "{refused}");
}

#[test]
fn a_lease_is_renewed_and_cut_short() {
    let server = TestServer::start();
    let client = &mut server.connect();
    story(
        client,
        &[
            ("RLOCK.ACQUIRE slots a 60000 PERMITS 3", "[1, 60000, 0]"),
            ("RLOCK.ACQUIRE slots b 30000 PERMITS 3", "[1, 30000, 0]"),
            ("RLOCK.RENEW slots a 10000", "1"),
        ],
    );
    expires_with_the_last(client);
    assert!(score(client, "a") < score(client, "b"));
    story(client, &[("RLOCK.RENEW slots b 90000", "1"), ("RLOCK.RENEW slots c 1000", "0")]);
    expires_with_the_last(client);
    story(
        client,
        &[("RLOCK.RELEASE slots b HOLDS 1", "0"), ("RLOCK.RELEASE slots b HOLDS 1 LEASE 5000", "0")],
    );
    expires_with_the_last(client);
    assert!(score(client, "b") < score(client, "a"));
    // The last one goes: the key ends with the other.
    story(client, &[("RLOCK.RELEASE slots a", "1")]);
    expires_with_the_last(client);
}

#[test]
fn a_permit_that_has_ended_counts_no_more_and_is_removed() {
    let server = TestServer::start();
    let client = &mut server.connect();
    story(
        client,
        &[
            ("RLOCK.ACQUIRE slots a 60000 PERMITS 2", "[1, 60000, 0]"),
            ("RLOCK.ACQUIRE slots b 150 PERMITS 2", "[1, 150, 0]"),
            ("RLOCK.ACQUIRE slots c 60000 PERMITS 2", "null"),
        ],
    );
    std::thread::sleep(std::time::Duration::from_millis(200));
    story(
        client,
        &[
            ("ZCARD slots", "2"),
            ("RLOCK.RENEW slots b 60000", "0"),
            ("RLOCK.RELEASE slots b", "null"),
            ("ZCARD slots", "2"),
            ("RLOCK.ACQUIRE slots c 60000 PERMITS 2", "[1, 60000, 0]"),
            ("ZRANGE slots 0 -1", r#"["a", "c"]"#),
            ("RLOCK.ACQUIRE slots b 60000 PERMITS 2", "null"),
        ],
    );
}

#[test]
fn thousands_of_ended_permits_keep_nobody_out() {
    let server = TestServer::start();
    let client = &mut server.connect();
    story(client, &[("RLOCK.ACQUIRE slots last 60000 PERMITS 2", "[1, 60000, 0]")]);
    for batch in 0..10 {
        let batch: Vec<String> =
            (0..100).map(|n| format!("RLOCK.ACQUIRE slots o{batch}-{n} 1 PERMITS 2000")).collect();
        let lines: Vec<&str> = batch.iter().map(String::as_str).collect();
        transaction(client, &lines);
    }
    std::thread::sleep(std::time::Duration::from_millis(20));
    story(
        client,
        &[
            ("RLOCK.ACQUIRE slots a 60000 PERMITS 2", "[1, 60000, 0]"),
            ("RLOCK.ACQUIRE slots b 60000 PERMITS 2", "null"),
        ],
    );
    // Each write removes some of them.
    for _ in 0..20 {
        story(
            client,
            &[("RLOCK.RELEASE slots a", "1"), ("RLOCK.ACQUIRE slots a 60000 PERMITS 2", "[1, 60000, 0]")],
        );
    }
    story(client, &[("ZCARD slots", "2")]);
}

#[test]
fn waiters_get_permits_in_their_order() {
    let server = TestServer::start();
    let client = &mut server.connect();
    story(
        client,
        &[
            ("RLOCK.ACQUIRE slots a 60000 PERMITS 2", "[1, 60000, 0]"),
            ("RLOCK.ACQUIRE slots b 60000 PERMITS 2", "[1, 60000, 0]"),
        ],
    );
    let wait = |owner: &str, permits: &str| {
        Waiting::start(&server, &["RLOCK.ACQUIRE", "slots", owner, "50000", "PERMITS", permits, "BLOCK", "0"])
    };
    let (c, d, e) = (wait("c", "1"), wait("d", "2"), wait("e", "3"));
    // c waits to be alone; nobody overtakes it, though there is room for e.
    story(client, &[("RLOCK.ACQUIRE slots f 1000 PERMITS 9", "null"), ("RLOCK.RELEASE slots a", "1")]);
    assert!(c.still_waits() && d.still_waits() && e.still_waits());
    story(client, &[("RLOCK.RELEASE slots b", "1")]);
    assert_eq!(c.answer(), "[1, 50000, 0]");
    assert_eq!(d.answer(), "[1, 50000, 0]");
    assert_eq!(e.answer(), "[1, 50000, 0]");
    story(client, &[("ZRANGE slots 0 -1", r#"["c", "d", "e"]"#)]);
}

#[test]
fn who_waits_behind_one_that_leaves_is_served() {
    let server = TestServer::start();
    let client = &mut server.connect();
    story(client, &[("RLOCK.ACQUIRE slots a 60000 PERMITS 1", "[1, 60000, 0]")]);
    let b = Waiting::start(&server, &["RLOCK.ACQUIRE", "slots", "b", "9000", "PERMITS", "1", "BLOCK", "0"]);
    let c = Waiting::start(&server, &["RLOCK.ACQUIRE", "slots", "c", "9000", "PERMITS", "2", "BLOCK", "0"]);
    story(client, &[("RLOCK.CANCEL slots b", "1")]);
    assert_eq!(b.answer(), "null");
    assert_eq!(c.answer(), "[1, 9000, 0]");
    let d = Waiting::start(&server, &["RLOCK.ACQUIRE", "slots", "d", "9000", "PERMITS", "1", "BLOCK", "100"]);
    let e = Waiting::start(&server, &["RLOCK.ACQUIRE", "slots", "e", "9000", "PERMITS", "3", "BLOCK", "0"]);
    assert_eq!(d.answer(), "null");
    assert_eq!(e.answer(), "[1, 9000, 0]");
}

/// How many ms after the end of a permit the waiter has it.
fn delay_of_a_grant(server: &TestServer) -> i64 {
    let client = &mut server.connect();
    story(
        client,
        &[
            ("RLOCK.ACQUIRE slots a 60000 PERMITS 2", "[1, 60000, 0]"),
            ("RLOCK.ACQUIRE slots b 150 PERMITS 2", "[1, 150, 0]"),
        ],
    );
    let ends = score(client, "b");
    let c = Waiting::start(server, &["RLOCK.ACQUIRE", "slots", "c", "50000", "PERMITS", "2", "BLOCK", "0"]);
    assert_eq!(c.answer(), "[1, 50000, 0]");
    let granted = score(client, "c") - 50_000;
    story(client, &[("RLOCK.FORCERELEASE slots", "1")]);
    granted - ends
}

#[test]
fn the_end_of_one_permit_wakes_the_next_waiter() {
    let server = TestServer::start();
    let mut delays: Vec<i64> = (0..5).map(|_| delay_of_a_grant(&server)).collect();
    delays.sort_unstable();
    assert!(delays[0] >= 0, "{delays:?}");
    // On an idle server: 2 ms. The machine may be busy, but not each time.
    assert!(delays[0] <= 2, "{delays:?}");
}

#[test]
fn every_way_to_end_a_permit_wakes_the_next() {
    let server = TestServer::start();
    let client = &mut server.connect();
    let ways: [&[&str]; 11] = [
        &["ZREM slots a"],
        &["DEL slots"],
        &["UNLINK slots"],
        &["ZPOPMIN slots"],
        &["ZREMRANGEBYRANK slots 0 0"],
        &["RENAME slots elsewhere"],
        &["MOVE slots 1", "SELECT 1", "DEL slots", "SELECT 0"],
        &["PEXPIRE slots 1"],
        &["SET slots x", "DEL slots"],
        &["SWAPDB 0 2"],
        &["FLUSHALL"],
    ];
    for way in ways {
        story(
            client,
            &[
                ("RLOCK.ACQUIRE slots a 60000 PERMITS 2", "[1, 60000, 0]"),
                ("RLOCK.ACQUIRE slots b 60000 PERMITS 2", "[1, 60000, 0]"),
            ],
        );
        let c =
            Waiting::start(&server, &["RLOCK.ACQUIRE", "slots", "c", "9000", "PERMITS", "2", "BLOCK", "0"]);
        for line in way {
            let answer = say(client, line);
            assert!(!answer.starts_with('!'), "{line}: {answer}");
        }
        let answer = c.outcome(SOON);
        assert!(answer.is_ok(), "{way:?}: {answer:?}");
        story(client, &[("FLUSHALL", "OK")]);
    }
}

#[test]
fn an_enqueued_waiter_receives_its_permit_by_a_message() {
    let server = TestServer::start();
    let client = &mut server.connect();
    let mut heard = Subscriber::channel(&server, "grants");
    let mut next = || heard.next(SOON).map(|(_, message)| String::from_utf8(message).unwrap());
    story(
        client,
        &[
            ("RLOCK.ACQUIRE slots a 60000 PERMITS 1", "[1, 60000, 0]"),
            ("RLOCK.ACQUIRE slots b 60000 PERMITS 1 ENQUEUE 0 grants", "[0, 0, 0]"),
            ("RLOCK.ACQUIRE slots c 60000 PERMITS 2 ENQUEUE 0 grants", "[0, 0, 0]"),
            ("RLOCK.RELEASE slots a", "1"),
        ],
    );
    assert_eq!(next().as_deref(), Some("granted 0 b slots 1 5000 0 permit"));
    assert_eq!(next().as_deref(), Some("granted 0 c slots 1 5000 0 permit"));
    story(client, &[("RLOCK.RENEW slots b 60000", "1"), ("RLOCK.RELEASE slots c", "1")]);
    story(client, &[("RLOCK.ACQUIRE slots d 60000 PERMITS 1 ENQUEUE 50 grants", "[0, 0, 0]")]);
    assert_eq!(next().as_deref(), Some("timeout 0 d slots permit"));
}

#[test]
fn a_client_that_goes_gives_its_permit_to_the_next() {
    let server = TestServer::start();
    let client = &mut server.connect();
    story(client, &[("RLOCK.ACQUIRE slots a 60000 PERMITS 1", "[1, 60000, 0]")]);
    let b = Waiting::start(&server, &["RLOCK.ACQUIRE", "slots", "b", "60000", "PERMITS", "2", "BLOCK", "0"]);
    assert_eq!(b.answer(), "[1, 60000, 0]");
    let c = Waiting::start(&server, &["RLOCK.ACQUIRE", "slots", "c", "60000", "PERMITS", "2", "BLOCK", "0"]);
    let d = Waiting::start(&server, &["RLOCK.ACQUIRE", "slots", "d", "60000", "PERMITS", "2", "BLOCK", "0"]);
    // In one transaction: the grant is on its way to a client that is gone.
    let kill = format!("CLIENT KILL ID {}", c.client_id());
    transaction(client, &["RLOCK.RELEASE slots b", &kill]);
    assert_eq!(d.answer(), "[1, 60000, 0]");
    story(client, &[("ZRANGE slots 0 -1", r#"["a", "d"]"#)]);
}

#[test]
fn a_permit_ends_with_its_connection() {
    let server = TestServer::start();
    let (client, mut other) = (&mut server.connect(), server.connect());
    story(&mut other, &[("RLOCK.ACQUIRE slots a 60000 PERMITS 1 SESSION 100", "[1, 60000, 0]")]);
    story(client, &[("RLOCK.ACQUIRE slots keeper 30000 PERMITS 9", "[1, 30000, 0]")]);
    let b = Waiting::start(&server, &["RLOCK.ACQUIRE", "slots", "b", "60000", "PERMITS", "2", "BLOCK", "0"]);
    drop(other);
    assert_eq!(b.answer(), "[1, 60000, 0]");
    story(client, &[("RLOCK.RENEW slots a 1000", "0"), ("RLOCK.RENEW slots keeper 30000", "1")]);
    expires_with_the_last(client);
}

#[test]
fn no_other_sorted_set_is_ever_changed() {
    let server = TestServer::start();
    let client = &mut server.connect();
    let now = number(client, "PEXPIRETIME none").max(0) + 1_790_000_000_000;
    let shapes: [(&str, Vec<String>); 6] = [
        ("a leaderboard", vec!["ZADD slots 100 ann 250 bob".into()]),
        ("a leaderboard with an expiry", vec!["ZADD slots 100 ann".into(), "PEXPIRE slots 60000".into()]),
        ("another library's semaphore", vec![format!("ZADD slots {now} x {now} y")]),
        ("the same with an expiry", vec!["ZADD slots 1500000000000 x".into(), "PEXPIRE slots 60000".into()]),
        ("scores after the expiry", vec!["ZADD slots 8000000000000 x".into(), "PEXPIRE slots 60000".into()]),
        (
            "half a millisecond",
            vec!["ZADD slots 1500000000000.5 x".into(), "PEXPIREAT slots 8000000000000".into()],
        ),
    ];
    let lines = [
        ("RLOCK.ACQUIRE slots a 1000 PERMITS 5", OWN_DATA),
        ("RLOCK.ACQUIRE slots a 1000 PERMITS 5 BLOCK 10", OWN_DATA),
        ("RLOCK.ACQUIRE slots ann 1000 PERMITS 5", OWN_DATA),
        ("RLOCK.ACQUIRE slots a 1000", WRONG_TYPE),
        ("RLOCK.ACQUIRE slots a 1000 READ", WRONG_TYPE),
        ("RLOCK.RELEASE slots x", WRONG_TYPE),
        ("RLOCK.RENEW slots ann 1000", WRONG_TYPE),
        ("RLOCK.FORCERELEASE slots", WRONG_TYPE),
        ("RLOCK.FORCERELEASE slots x", WRONG_TYPE),
        ("RLOCK.INFO slots", WRONG_TYPE),
    ];
    for (shape, writes) in &shapes {
        for line in writes {
            say(client, line);
        }
        let before = (say(client, "ZRANGE slots 0 -1 WITHSCORES"), say(client, "PEXPIRETIME slots"));
        for (line, expected) in lines {
            assert_eq!(say(client, line), expected, "{shape}: {line}");
        }
        let after = (say(client, "ZRANGE slots 0 -1 WITHSCORES"), say(client, "PEXPIRETIME slots"));
        assert_eq!(after, before, "{shape}");
        story(client, &[("DEL slots", "1")]);
    }
}

#[test]
fn permits_whose_key_is_persisted_are_no_lock_any_more() {
    let server = TestServer::start();
    let client = &mut server.connect();
    story(
        client,
        &[
            ("RLOCK.ACQUIRE slots a 60000 PERMITS 1", "[1, 60000, 0]"),
            ("PERSIST slots", "1"),
            ("RLOCK.ACQUIRE slots b 1000 PERMITS 2", OWN_DATA),
            ("RLOCK.RELEASE slots a", WRONG_TYPE),
            ("ZCARD slots", "1"),
        ],
    );
}

#[test]
fn locks_of_different_kinds_are_not_taken_for_each_other() {
    let server = TestServer::start();
    let client = &mut server.connect();
    story(
        client,
        &[
            ("RLOCK.ACQUIRE slots a 60000 PERMITS 2", "[1, 60000, 0]"),
            ("RLOCK.ACQUIRE slots b 60000", WITHOUT),
            ("RLOCK.ACQUIRE slots b 60000 READ", WITHOUT),
            ("RLOCK.ACQUIRE slots b 60000 WRITE BLOCK 100", WITHOUT),
            ("RLOCK.RENEW slots a 60000 READ", WITHOUT),
            ("RLOCK.RELEASE slots a WRITE", WITHOUT),
            ("RLOCK.ACQUIRE plain a 60000", "[1, 60000, 0]"),
            ("RLOCK.ACQUIRE plain b 60000 PERMITS 2", OTHER),
            ("RLOCK.ACQUIRE plain a 60000 PERMITS 2", OTHER),
            ("RLOCK.ACQUIRE shared a 60000 READ", "[1, 60000, 0]"),
            ("RLOCK.ACQUIRE shared b 60000 PERMITS 2 BLOCK 100", OTHER),
            // A hash with only `mode` left is free.
            ("HSET rest mode read", "1"),
            ("RLOCK.ACQUIRE rest a 60000 PERMITS 2", "[1, 60000, 0]"),
            ("TYPE rest", "zset"),
            ("SET text x", "OK"),
            ("RLOCK.ACQUIRE text a 60000 PERMITS 2", WRONG_TYPE),
        ],
    );
}

#[test]
fn wrong_arguments_change_nothing() {
    let server = TestServer::start();
    let client = &mut server.connect();
    story(
        client,
        &[
            ("RLOCK.ACQUIRE slots a 1000 PERMITS 0", RANGE),
            ("RLOCK.ACQUIRE slots a 1000 PERMITS -1", RANGE),
            ("RLOCK.ACQUIRE slots a 1000 PERMITS 2147483648", RANGE),
            ("RLOCK.ACQUIRE slots a 1000 PERMITS two", RANGE),
            ("RLOCK.ACQUIRE slots a 1000 PERMITS", "!ERR PERMITS needs a value"),
            ("RLOCK.ACQUIRE slots a 1000 PERMITS 1 PERMITS 2", "!ERR PERMITS appears twice; use it once"),
            ("RLOCK.ACQUIRE slots a 1000 PERMITS 1 READ", EXCLUDES),
            ("RLOCK.ACQUIRE slots a 1000 WRITE PERMITS 1", EXCLUDES),
            ("RLOCK.ACQUIRE slots a 1000 PERMITS 1 FAIR", EXCLUDES),
            ("RLOCK.ACQUIRE slots a 1000 FENCED PERMITS 1", EXCLUDES),
            ("RLOCK.ACQUIRE slots a 1000 HOLDS 2 PERMITS 5", EXCLUDES),
            ("EXISTS slots", "0"),
        ],
    );
}

#[test]
fn info_shows_the_permits_by_their_ends() {
    let server = TestServer::start();
    let client = &mut server.connect();
    story(
        client,
        &[
            ("RLOCK.ACQUIRE slots late 60000 PERMITS 9", "[1, 60000, 0]"),
            ("RLOCK.ACQUIRE slots soon 30000 PERMITS 9", "[1, 30000, 0]"),
            ("RLOCK.ACQUIRE slots gone 1 PERMITS 9", "[1, 1, 0]"),
        ],
    );
    std::thread::sleep(std::time::Duration::from_millis(10));
    let _waits =
        Waiting::start(&server, &["RLOCK.ACQUIRE", "slots", "w", "9000", "PERMITS", "2", "BLOCK", "0"]);
    let info = say(client, "RLOCK.INFO slots");
    for part in [
        r#""kind", "permits""#,
        r#""mode", "permit""#,
        r#""holder-count", 2"#,
        r#""waiter-count", 1"#,
        r#""permits", 2"#,
    ] {
        assert!(info.contains(part), "{part}: {info}");
    }
    let (soon, late) = (info.find("soon").expect("soon"), info.find("late").expect("late"));
    assert!(soon < late && !info.contains("gone"), "{info}");
    assert_eq!(say(client, "RLOCK.INFO slots LIMIT 1").matches("\"owner\"").count(), 2);
    // What a denied caller may wait is the lowest score.
    assert_eq!(say(client, "RLOCK.FORCERELEASE slots late"), "1");
    assert_eq!(say(client, "RLOCK.FORCERELEASE slots late"), "0");
    eventually("the waiter to have it", SOON, || {
        (say(client, "ZRANGE slots 0 -1") == r#"["w", "soon"]"#).then_some(())
    });
    assert_eq!(say(client, "RLOCK.FORCERELEASE slots"), "1");
    assert_eq!(say(client, "EXISTS slots"), "0");
}
