//! The contents that a key may have, and how each command treats them.

use std::thread;

use rlock_testkit::prelude::*;
use rlock_testkit::redisson::{GIVES_BACK, TAKES, run};

use crate::errors::NO_INTEGERS;

const WRONGTYPE: &str = "!WRONGTYPE Operation against a key holding the wrong kind of value";
const NO_LOCK: &str = "!WRONGLOCK the key holds a hash that is not a lock; use another key";
const READ_WRITE: &str = "!WRONGLOCK the key holds a read/write lock; pass READ or WRITE, or use another key";

/// Every command in every form, of the caller `me`.
const COMMANDS: [&str; 14] = [
    "RLOCK.ACQUIRE thing me 100000",
    "RLOCK.ACQUIRE thing me 100000 HOLDS 1",
    "RLOCK.ACQUIRE thing me 100000 HOLDS 2",
    "RLOCK.RELEASE thing me",
    "RLOCK.RELEASE thing me ALL",
    "RLOCK.RELEASE thing me HOLDS 0",
    "RLOCK.RELEASE thing me HOLDS 1",
    "RLOCK.RELEASE thing me LEASE 100000",
    "RLOCK.RENEW thing me 100000",
    "RLOCK.INFO thing",
    "RLOCK.INFO thing LIMIT 0",
    "RLOCK.FORCERELEASE thing",
    "RLOCK.FORCERELEASE thing me",
    "RLOCK.FORCERELEASE thing you",
];

/// Makes `thing` by each write, with and without an expiry; every command is refused and leaves it alone.
#[track_caller]
fn refused_and_left_alone<'a>(
    server: &TestServer,
    makers: impl IntoIterator<Item = &'a [&'a str]>,
    error: &str,
) {
    let client = &mut server.connect();
    let mut stream = ReplicaStream::open(server);
    for maker in makers {
        for expiry in ["PERSIST thing", "PEXPIRE thing 300000"] {
            say(client, "DEL thing");
            let made = say_words(client, maker);
            assert!(!made.starts_with('!'), "{maker:?}: {made}");
            say(client, expiry);
            let before = state(client, "thing");
            assert_ne!(before[0], "none", "{maker:?}");
            let _ = stream.so_far(server);
            for command in COMMANDS {
                assert_eq!(say(client, command), error, "{maker:?}: {command}");
            }
            assert_eq!(state(client, "thing"), before, "{maker:?}");
            assert!(stream.so_far(server).is_empty(), "{maker:?}: replicated");
        }
    }
}

#[test]
fn every_other_type_is_refused_and_left_alone() {
    let makers: [&[&str]; 12] = [
        &["SET", "thing", "1"],
        &["SET", "thing", ""],
        &["SETBIT", "thing", "7", "1"],
        &["PFADD", "thing", "me"],
        &["RPUSH", "thing", "me"],
        &["SADD", "thing", "me"],
        &["SADD", "thing", "1", "2"],
        &["ZADD", "thing", "1", "me"],
        &["GEOADD", "thing", "13.4", "52.5", "me"],
        &["XADD", "thing", "1-1", "me", "1"],
        &["XGROUP", "CREATE", "thing", "me", "$", "MKSTREAM"],
        &["SET", "thing", "a string that is too long to be kept beside its header"],
    ];
    refused_and_left_alone(&TestServer::start(), makers, WRONGTYPE);
}

/// Integers that are not a count of holds, which is from 1 to 2^53.
const NO_COUNTS: [&str; 5] = ["0", "-1", "9007199254740993", "9223372036854775807", "-9223372036854775808"];

#[test]
fn every_other_hash_is_refused_and_left_alone() {
    let server = TestServer::start();
    let no_counts = NO_INTEGERS.iter().chain(&NO_COUNTS);
    let of_one = |owner| no_counts.clone().map(move |value| ["HSET", "thing", owner, *value]);
    let (of_me, of_others): (Vec<_>, Vec<_>) = (of_one("me").collect(), of_one("you").collect());
    let odd_modes = ["1", "READ", "Write", "dark", "", "0", "read ", "fair"];
    let odd_modes = odd_modes.map(|value| ["HSET", "thing", "mode", value]);
    let one_field = of_me.iter().chain(&of_others).chain(&odd_modes).map(|maker| &maker[..]);
    let long = "v".repeat(1000);
    let several: [&[&str]; 9] = [
        &["HSET", "thing", "me", "1", "you", "1"],
        &["HSET", "thing", "you", "1", "them", "2"],
        &["HSET", "thing", "name", "x", "size", "y"],
        &["HSET", "thing", "mode", "1", "me", "1"],
        &["HSET", "thing", "mode", "dark", "me", "1"],
        &["HSET", "thing", "mode", "READ", "me", "1"],
        &["HSET", "thing", "Mode", "read", "me", "1"],
        &["HSET", "thing", "me", &long],
        &["HSET", "thing", "me", &long, "you", "1"],
    ];
    refused_and_left_alone(&server, one_field.chain(several), NO_LOCK);
}

#[test]
fn a_large_hash_is_refused_and_left_alone() {
    let fields: Vec<String> = (0..3000).map(|number| number.to_string()).collect();
    let mut maker = vec!["HSET", "thing"];
    maker.extend(fields.iter().flat_map(|field| [field.as_str(), "1"]));
    refused_and_left_alone(&TestServer::start(), [&maker[..]], NO_LOCK);
}

#[test]
fn a_read_write_lock_is_refused_as_a_plain_one() {
    let (_server, client) = &mut TestServer::start_and_connect();
    let makers = [
        "mode read me 1",
        "mode read you 1",
        "mode read me 2 you 1 them 1",
        "mode write me:write 1",
        "mode write you:write 3",
        "mode write me:write 1 me 1",
        "mode write you:write 1 you 2",
    ];
    for maker in makers {
        say(client, "DEL thing");
        say(client, &format!("HSET thing {maker}"));
        let before = state(client, "thing");
        for command in COMMANDS.iter().filter(|command| command.starts_with("RLOCK.ACQUIRE")) {
            assert_eq!(say(client, command), READ_WRITE, "{maker}: {command}");
        }
        assert_eq!(state(client, "thing"), before, "{maker}");
    }
}

#[test]
fn a_hash_with_only_mode_is_free() {
    let (_server, client) = &mut TestServer::start_and_connect();
    let cases = ["read", "write"].map(|mode| [(mode, "PERSIST thing"), (mode, "PEXPIRE thing 900000")]);
    for (mode, expiry) in cases.into_iter().flatten() {
        say(client, "DEL thing");
        say(client, &format!("HSET thing mode {mode}"));
        say(client, expiry);
        let before = state(client, "thing");
        let info = say(client, "RLOCK.INFO thing");
        assert!(info.starts_with(r#"["kind", "none", "mode", null, "lease-ms", -2,"#), "{info}");
        client.story(&[
            ("RLOCK.ACQUIRE thing me 100000 HOLDS 2", "null"),
            ("RLOCK.RELEASE thing me", "null"),
            ("RLOCK.RELEASE thing me ALL LEASE 5", "null"),
            ("RLOCK.RENEW thing me 100000", "0"),
            ("RLOCK.FORCERELEASE thing", "0"),
            ("RLOCK.FORCERELEASE thing me", "0"),
        ]);
        assert_eq!(state(client, "thing"), before, "{mode}");
        for holds in ["", "HOLDS 1"] {
            say(client, &format!("HSET thing mode {mode}"));
            say(client, "HDEL thing me");
            client.story(&[(format!("RLOCK.ACQUIRE thing me 100000 {holds}").as_str(), "[1, 100000, 0]")]);
            client.story(&[("HGETALL thing", r#"["me", "1"]"#), ("PTTL thing", "~100000")]);
        }
        client.story(&[("RLOCK.ACQUIRE thing you 100000", "null"), ("RLOCK.RELEASE thing me", "1")]);
    }
}

#[test]
fn one_field_with_a_canonical_count_is_a_lock() {
    let (_server, client) = &mut TestServer::start_and_connect();
    for holds in [1_i64, 2, 10, 99, 65_536, 4_294_967_296, (1 << 53) - 1, 1 << 53] {
        let (left, hash) = (holds - 1, format!(r#"["you", "{holds}"]"#));
        say(client, "DEL thing");
        say(client, &format!("HSET thing you {holds}"));
        let info = say(client, "RLOCK.INFO thing");
        let holder = format!(r#"["owner", "you", "mode", null, "holds", {holds}, "lease-ms", -1]"#);
        assert!(info.contains(r#""kind", "mutex""#) && info.contains(&holder), "{info}");
        client.story(&[
            ("RLOCK.ACQUIRE thing me 100000", "null"),
            ("RLOCK.RENEW thing me 100000", "0"),
            ("RLOCK.RELEASE thing me ALL", "null"),
            ("RLOCK.FORCERELEASE thing me", "0"),
            ("HGETALL thing", &hash),
            ("RLOCK.RENEW thing you 100000", "1"),
            ("HGETALL thing", &hash),
            ("RLOCK.RELEASE thing you", if left == 0 { "1" } else { "0" }),
        ]);
        let hash = if left == 0 { "[]".into() } else { format!(r#"["you", "{left}"]"#) };
        assert_eq!(say(client, "HGETALL thing"), hash);
        say(client, "RLOCK.FORCERELEASE thing");
        assert_eq!(say(client, "EXISTS thing"), "0");
    }
}

#[test]
fn a_redisson_clients_lock_excludes_and_is_released() {
    let (_server, client) = &mut TestServer::start_and_connect();
    let redisson = |client: &mut Connection, script, owner| run(client, script, "thing", owner, 100_000);
    // A Redisson client holds: rlock keeps others out, and serves the owner.
    assert_eq!(redisson(client, TAKES, "u-1:7"), "null");
    assert_eq!(redisson(client, TAKES, "u-1:7"), "null");
    client.story(&[
        ("RLOCK.ACQUIRE thing u-2:1 300000", "null"),
        ("RLOCK.RELEASE thing u-2:1", "null"),
        ("RLOCK.RENEW thing u-1:7 300000", "1"),
        ("RLOCK.ACQUIRE thing u-1:7 100000", "[3, ~300000, 0]"),
        ("RLOCK.RELEASE thing u-1:7", "0"),
        ("RLOCK.RELEASE thing u-1:7", "0"),
        ("RLOCK.RELEASE thing u-1:7", "1"),
        ("EXISTS thing", "0"),
    ]);
    // rlock holds: Redisson keeps others out, and serves the owner.
    client.story(&[("RLOCK.ACQUIRE thing u-2:1 100000 HOLDS 1", "[1, 100000, 0]")]);
    assert!(agrees(&redisson(client, TAKES, "u-1:7"), "~100000"));
    assert_eq!(redisson(client, GIVES_BACK, "u-1:7"), "null");
    assert_eq!(redisson(client, TAKES, "u-2:1"), "null");
    client.story(&[("RLOCK.ACQUIRE thing u-2:1 100000 HOLDS 3", "[3, ~100000, 0]")]);
    assert_eq!(["0", "0", "1"].map(|_| redisson(client, GIVES_BACK, "u-2:1")), ["0", "0", "1"]);
    // Either side's lock is taken away by force.
    assert_eq!(redisson(client, TAKES, "u-1:7"), "null");
    client.story(&[("RLOCK.FORCERELEASE thing u-2:1", "0"), ("RLOCK.FORCERELEASE thing u-1:7", "1")]);
    assert_eq!(redisson(client, GIVES_BACK, "u-1:7"), "null");
}

/// A server whose fields may expire, and which does not remove expired ones.
///
/// `None` where fields cannot expire, after a check that the server is an older one.
fn server_with_expiring_fields() -> Option<TestServer> {
    let server = TestServer::start();
    let client = &mut server.connect();
    let version = server.version();
    let has = version.is_at_least(ServerName::Redis, 7, 4) || version.is_at_least(ServerName::Valkey, 9, 0);
    let knows = say(client, "COMMAND INFO HPEXPIRE") != "[null]";
    assert_eq!(knows, has, "{version:?}");
    client.story(&[("DEBUG SET-ACTIVE-EXPIRE 0", "OK")]);
    has.then_some(server)
}

#[test]
fn a_field_that_has_expired_is_not_a_hold() {
    let Some(server) = server_with_expiring_fields() else { return };
    let client = &mut server.connect();
    for owner in ["me", "you"] {
        for (command, answer) in [
            ("RLOCK.ACQUIRE thing me 100000 HOLDS 2", "null"),
            ("RLOCK.RELEASE thing me", "null"),
            ("RLOCK.RENEW thing me 100000", "0"),
            ("RLOCK.FORCERELEASE thing", "0"),
            ("RLOCK.FORCERELEASE thing me", "0"),
            ("RLOCK.ACQUIRE thing me 100000", "[1, 100000, 0]"),
        ] {
            say(client, "DEL thing");
            say(client, &format!("HSET thing {owner} 1"));
            client.story(&[(format!("HPEXPIRE thing 5 FIELDS 1 {owner}").as_str(), "[1]")]);
            thread::sleep(Duration::from_millis(50));
            let info = say(client, "RLOCK.INFO thing");
            assert!(info.starts_with(r#"["kind", "none","#), "{owner}: {info}");
            assert_eq!(say(client, command), answer, "{owner}: {command}");
        }
        client.story(&[("HGETALL thing", r#"["me", "1"]"#), ("PTTL thing", "~100000")]);
        assert_eq!(say(client, "HPTTL thing FIELDS 1 me"), "[-1]", "the new hold has no end of its own");
    }
}

#[test]
fn a_field_that_has_not_expired_yet_is_a_hold() {
    let Some(server) = server_with_expiring_fields() else { return };
    let mut client = server.connect();
    client.story(&[
        ("HSET thing you 2", "1"),
        ("HPEXPIRE thing 100000 FIELDS 1 you", "[1]"),
        ("RLOCK.ACQUIRE thing me 100000", "null"),
        ("RLOCK.RENEW thing you 100000", "1"),
        ("RLOCK.RELEASE thing you", "0"),
        // As on a replica, which is sent HSET.
        ("HPTTL thing FIELDS 1 you", "[-1]"),
        ("RLOCK.RELEASE thing you", "1"),
        ("EXISTS thing", "0"),
    ]);
}

#[test]
fn an_expired_field_beside_a_hold_counts_until_the_server_clears_it_away() {
    let Some(server) = server_with_expiring_fields() else { return };
    let mut client = server.connect();
    client.story(&[("HSET thing me 1 you 1", "2"), ("HPEXPIRE thing 5 FIELDS 1 you", "[1]")]);
    thread::sleep(Duration::from_millis(50));
    client.story(&[("RLOCK.ACQUIRE thing them 100000", "!WRONGLOCK…")]);
    client.story(&[("HGETALL thing", r#"["me", "1"]"#), ("DEBUG SET-ACTIVE-EXPIRE 1", "OK")]);
    eventually("the server to clear the field away", Duration::from_secs(20), || {
        (say(&mut client, "RLOCK.ACQUIRE thing them 100000") == "null").then_some(())
    });
    client.story(&[("RLOCK.RELEASE thing me", "1")]);
}
