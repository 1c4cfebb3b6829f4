//! PERMITS: a limited number of owners hold a lock at once, each with a lease of its own.

use rlock_testkit::prelude::*;

const WITHOUT: &str =
    "!WRONGLOCK the key holds a lock with permits; acquire it with PERMITS, and leave READ and WRITE out";
const OTHER: &str = "!WRONGLOCK the key holds a lock without permits; leave PERMITS out, or use another key";
const OWN_DATA: &str = "!WRONGLOCK the key holds a sorted set that is not a lock; use another key";
const WRONG_TYPE: &str = "!WRONGTYPE Operation against a key holding the wrong kind of value";
const EXCLUDES: &str = "!ERR PERMITS excludes READ, WRITE, FAIR, FENCED and HOLDS above 1; leave them out";
const RANGE: &str = "!ERR invalid PERMITS: use an integer from 1 to 2147483647";

/// The score of a member; the server's clock in ms counts from 1970.
pub(crate) fn score(client: &mut Connection, owner: &str) -> i64 {
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
fn as_many_owners_as_permits_hold_it_at_once() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[
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
        ("RLOCK.RELEASE slots stranger", "null"),
        ("RLOCK.ACQUIRE slots c 60000 PERMITS 2", "null"),
        ("RLOCK.RELEASE slots a", "1"),
        ("RLOCK.ACQUIRE slots c 60000 PERMITS 2", "[1, 60000, 0]"),
        ("RLOCK.RELEASE slots b", "1"),
        ("RLOCK.RELEASE slots c", "1"),
        ("EXISTS slots", "0"),
    ]);
}

#[test]
fn an_owner_has_one_permit_which_never_gets_shorter_by_asking_again() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[
        ("RLOCK.ACQUIRE slots a 60000 PERMITS 1", "[1, 60000, 0]"),
        ("RLOCK.ACQUIRE slots a 90000 PERMITS 1 HOLDS 1", "[1, 90000, 0]"),
        // Holders keep what they have, however small the limit and whether the server is drained.
        ("RLOCK.ACQUIRE slots b 60000 PERMITS 2", "[1, 60000, 0]"),
        ("CONFIG SET rlock.accept no", "OK"),
        ("RLOCK.ACQUIRE slots b 80000 PERMITS 1", "[1, 80000, 0]"),
        ("CONFIG SET rlock.accept yes", "OK"),
        ("ZCARD slots", "2"),
    ]);
    expires_with_the_last(client);
    let ends = score(client, "a");
    assert!(say(client, "RLOCK.ACQUIRE slots a 1000 PERMITS 1").starts_with("[1, "));
    assert_eq!(score(client, "a"), ends);
    assert!(say(client, "CONFIG SET rlock.accept no") == "OK");
    client.story(&[("RLOCK.ACQUIRE slots c 1000 PERMITS 5", "!ERR this server is drained…")]);
}

#[test]
fn a_lease_is_renewed_and_cut_short() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[
        ("RLOCK.ACQUIRE slots a 60000 PERMITS 3", "[1, 60000, 0]"),
        ("RLOCK.ACQUIRE slots b 30000 PERMITS 3", "[1, 30000, 0]"),
        ("RLOCK.RENEW slots a 10000", "1"),
    ]);
    expires_with_the_last(client);
    assert!(score(client, "a") < score(client, "b"));
    client.story(&[("RLOCK.RENEW slots b 90000", "1"), ("RLOCK.RENEW slots c 1000", "0")]);
    expires_with_the_last(client);
    client
        .story(&[("RLOCK.RELEASE slots b HOLDS 1", "0"), ("RLOCK.RELEASE slots b HOLDS 1 LEASE 5000", "0")]);
    expires_with_the_last(client);
    assert!(score(client, "b") < score(client, "a"));
    // The last one goes: the key ends with the other.
    client.story(&[("RLOCK.RELEASE slots a", "1")]);
    expires_with_the_last(client);
}

#[test]
fn a_permit_that_has_ended_counts_no_more_and_is_removed() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[
        ("RLOCK.ACQUIRE slots a 60000 PERMITS 2", "[1, 60000, 0]"),
        ("RLOCK.ACQUIRE slots b 150 PERMITS 2", "[1, 150, 0]"),
        ("RLOCK.ACQUIRE slots c 60000 PERMITS 2", "null"),
    ]);
    std::thread::sleep(Duration::from_millis(200));
    client.story(&[
        ("ZCARD slots", "2"),
        ("RLOCK.RENEW slots b 60000", "0"),
        ("RLOCK.RELEASE slots b", "null"),
        ("ZCARD slots", "2"),
        ("RLOCK.ACQUIRE slots c 60000 PERMITS 2", "[1, 60000, 0]"),
        ("ZRANGE slots 0 -1", r#"["a", "c"]"#),
        ("RLOCK.ACQUIRE slots b 60000 PERMITS 2", "null"),
    ]);
}

#[test]
fn thousands_of_ended_permits_keep_no_owner_out() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[("RLOCK.ACQUIRE slots last 60000 PERMITS 2", "[1, 60000, 0]")]);
    for batch in 0..10 {
        let batch: Vec<String> =
            (0..100).map(|n| format!("RLOCK.ACQUIRE slots o{batch}-{n} 1 PERMITS 2000")).collect();
        let lines: Vec<&str> = batch.iter().map(String::as_str).collect();
        transaction(client, &lines);
    }
    std::thread::sleep(Duration::from_millis(20));
    client.story(&[
        ("RLOCK.ACQUIRE slots a 60000 PERMITS 2", "[1, 60000, 0]"),
        ("RLOCK.ACQUIRE slots b 60000 PERMITS 2", "null"),
    ]);
    // Each write removes some of them.
    for _ in 0..20 {
        client.story(&[
            ("RLOCK.RELEASE slots a", "1"),
            ("RLOCK.ACQUIRE slots a 60000 PERMITS 2", "[1, 60000, 0]"),
        ]);
    }
    client.story(&[("ZCARD slots", "2")]);
}

/// Sorted sets that are not locks, and the lines that make them.
fn own_data() -> [(&'static str, Vec<&'static str>); 7] {
    [
        ("a member before all", vec!["ZADD slots -inf x 8000000000000 y", "PEXPIREAT slots 8000000000000"]),
        ("a leaderboard", vec!["ZADD slots 100 ann 250 bob"]),
        ("a leaderboard with an expiry", vec!["ZADD slots 100 ann", "PEXPIRE slots 60000"]),
        ("another library's semaphore", vec!["ZADD slots 8000000000000 x 8000000000000 y"]),
        ("the same with an expiry", vec!["ZADD slots 1500000000000 x", "PEXPIRE slots 60000"]),
        ("scores after the expiry", vec!["ZADD slots 8000000000000 x", "PEXPIRE slots 60000"]),
        ("half a millisecond", vec!["ZADD slots 1500000000000.5 x", "PEXPIREAT slots 8000000000000"]),
    ]
}

#[test]
fn no_other_sorted_set_is_ever_changed() {
    let (_server, client) = &mut TestServer::start_and_connect();
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
    for (shape, writes) in own_data() {
        for line in writes {
            say(client, line);
        }
        let before = (say(client, "ZRANGE slots 0 -1 WITHSCORES"), say(client, "PEXPIRETIME slots"));
        for (line, expected) in lines {
            assert_eq!(say(client, line), expected, "{shape}: {line}");
        }
        let after = (say(client, "ZRANGE slots 0 -1 WITHSCORES"), say(client, "PEXPIRETIME slots"));
        assert_eq!(after, before, "{shape}");
        client.story(&[("DEL slots", "1")]);
    }
}

#[test]
fn permits_whose_key_is_persisted_stop_being_a_lock() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[
        ("RLOCK.ACQUIRE slots a 60000 PERMITS 1", "[1, 60000, 0]"),
        ("PERSIST slots", "1"),
        ("RLOCK.ACQUIRE slots b 1000 PERMITS 2", OWN_DATA),
        ("RLOCK.RELEASE slots a", WRONG_TYPE),
        ("ZCARD slots", "1"),
    ]);
}

#[test]
fn locks_of_different_kinds_are_not_taken_for_each_other() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[
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
    ]);
}

#[test]
fn wrong_arguments_change_nothing() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[
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
    ]);
}

#[test]
fn info_shows_the_permits_by_their_ends() {
    let (server, client) = &mut TestServer::start_and_connect();
    client.story(&[
        ("RLOCK.ACQUIRE slots late 60000 PERMITS 9", "[1, 60000, 0]"),
        ("RLOCK.ACQUIRE slots soon 30000 PERMITS 9", "[1, 30000, 0]"),
        ("RLOCK.ACQUIRE slots gone 1 PERMITS 9", "[1, 1, 0]"),
    ]);
    std::thread::sleep(Duration::from_millis(10));
    let _waits = Waiting::line(server, "RLOCK.ACQUIRE slots w 9000 PERMITS 2 BLOCK 0");
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
    // The lowest score is the longest that a denied caller may wait.
    assert_eq!(say(client, "RLOCK.FORCERELEASE slots late"), "1");
    assert_eq!(say(client, "RLOCK.FORCERELEASE slots late"), "0");
    wait_for("the waiter to have it", || say(client, "ZRANGE slots 0 -1") == r#"["w", "soon"]"#);
    assert_eq!(say(client, "RLOCK.FORCERELEASE slots"), "1");
    assert_eq!(say(client, "EXISTS slots"), "0");
}
