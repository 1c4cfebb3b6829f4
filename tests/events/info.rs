//! RLOCK.INFO: shows the holders of a lock and leaves no trace.

use std::thread;

use rlock_testkit::prelude::*;

const FREE: &str = r#"{"kind": "none", "mode": null, "lease-ms": -2, "token": 0, "holder-count": 0, "waiter-count": 0, "holders": [], "queue": []}"#;

/// What a lock that `owner` holds answers in RESP3.
fn held_by(owner: &str, holds: i64, lease_ms: &str) -> String {
    let holder = format!(r#"{{"owner": "{owner}", "mode": null, "holds": {holds}, "lease-ms": {lease_ms}}}"#);
    format!(
        r#"{{"kind": "mutex", "mode": null, "lease-ms": {lease_ms}, "token": 0, "holder-count": 1, "waiter-count": 0, "holders": [{holder}], "queue": []}}"#
    )
}

#[test]
fn shows_the_holder_of_the_lock() {
    let server = TestServer::start();
    let mut client = server.connect_resp3();
    client.story(&[
        ("RLOCK.ACQUIRE lock alice:1 100000", "[1, 100000, 0]"),
        ("RLOCK.INFO lock", &held_by("alice:1", 1, "~100000")),
        ("RLOCK.ACQUIRE lock alice:1 300000", "[2, 300000, 0]"),
        ("RLOCK.ACQUIRE lock bob:1 300000", "null"),
        ("RLOCK.INFO lock", &held_by("alice:1", 2, "~300000")),
        ("RLOCK.RENEW lock alice:1 100000", "1"),
        ("RLOCK.RELEASE lock alice:1", "0"),
        ("RLOCK.INFO lock", &held_by("alice:1", 1, "~100000")),
        ("RLOCK.RELEASE lock alice:1", "1"),
        ("RLOCK.ACQUIRE lock bob:1 200000", "[1, 200000, 0]"),
        ("RLOCK.INFO lock", &held_by("bob:1", 1, "~200000")),
        ("RLOCK.INFO other", FREE),
    ]);
}

#[test]
fn shows_that_a_lock_is_free() {
    let server = TestServer::start();
    let client = &mut server.connect_resp3();
    client.story(&[
        ("RLOCK.INFO lock", FREE),
        ("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]"),
        ("RLOCK.RELEASE lock alice", "1"),
        ("RLOCK.INFO lock", FREE),
        ("RLOCK.ACQUIRE lock alice 1", "[1, 1, 0]"),
    ]);
    wait_for("the lease to end", || say(client, "RLOCK.INFO lock") == FREE);
}

#[test]
fn is_a_map_in_resp3_and_flat_in_resp2() {
    let server = TestServer::start();
    let lines = ["HSET lock alice 2", "RLOCK.INFO lock", "DEL lock"];
    let bulk = |word: &str| format!("${}\r\n{word}\r\n", word.len());
    for (protocol, outer, inner, null) in [(2, "*16", "*8", "$-1"), (3, "%8", "%4", "_")] {
        // Words, and what is sent as it stands.
        let reply = format!(
            "{outer} kind mutex mode {null} lease-ms :-1 token :0 holder-count :1 waiter-count :0 holders *1 \
             {inner} owner alice mode {null} holds :2 lease-ms :-1 queue *0"
        );
        let sent = |part: &str| {
            if part.starts_with(char::is_alphabetic) { bulk(part) } else { format!("{part}\r\n") }
        };
        let expected: String = reply.split(' ').map(sent).collect();
        assert_eq!(on_the_wire(&server, protocol, &lines), format!(":1\r\n{expected}:1\r\n"));
    }
}

#[test]
fn shows_redissons_last_token() {
    let server = TestServer::start();
    let client = &mut server.connect_resp3();
    // the lock, the key of its token, what that holds, what is shown
    let cases = [
        ("lock", "redisson_lock_token:{lock}", "SET _ 42", 42),
        ("{lock}:a", "redisson_lock_token:{lock}:a", "SET _ 9223372036854775807", i64::MAX),
        ("lo{ck", "redisson_lock_token:lo{ck", "SET _ 7", 7),
        ("lock", "redisson_lock_token:{other}", "SET _ 42", 0),
        ("lock", "redisson_lock_token:lock", "SET _ 42", 0),
        ("lock", "redisson_lock_token:{lock}", "SET _ many", 0),
        ("lock", "redisson_lock_token:{lock}", "RPUSH _ 42", 0),
        ("lock", "redisson_lock_token:{lock}", "HSET _ 42 42", 0),
    ];
    for (lock, key, write, token) in cases {
        let shown = format!(r#""token": {token},"#);
        say(client, "FLUSHALL");
        say(client, &write.replace('_', key));
        let encoding = format!("OBJECT ENCODING {key}");
        let (before, stored) = (state(client, key), say(client, &encoding));
        let free = say(client, &format!("RLOCK.INFO {lock}"));
        assert!(free.contains(r#""kind": "none""#) && free.contains(&shown), "{key}, free: {free}");
        // Held, the reply of ACQUIRE has no token; and the key stays as it is.
        client.story(&[(format!("RLOCK.ACQUIRE {lock} alice 100000").as_str(), "[1, 100000, 0]")]);
        let held = say(client, &format!("RLOCK.INFO {lock}"));
        assert!(held.contains(r#""kind": "mutex""#) && held.contains(&shown), "{key}, held: {held}");
        assert_eq!((state(client, key), say(client, &encoding)), (before, stored));
    }
}

#[test]
fn limit_cuts_the_lists_not_the_counts() {
    let server = TestServer::start();
    let client = &mut server.connect_resp3();
    client.story(&[("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]")]);
    let whole = held_by("alice", 1, "~100000");
    for limit in ["", "LIMIT 1", "LIMIT 100", "limit 4294967295"] {
        client.story(&[(format!("RLOCK.INFO lock {limit}").as_str(), &whole)]);
    }
    let (before, _) = whole.split_once(r#""holders": "#).unwrap();
    let cut = format!(r#"{before}"holders": [], "queue": []}}"#);
    client.story(&[("RLOCK.INFO lock LIMIT 0", &cut), ("RLOCK.INFO free LIMIT 0", FREE)]);
}

#[test]
fn a_limit_above_ten_thousand_counts_as_that() {
    const PERMITS: usize = 10_500;
    let (server, client) = &mut TestServer::start_and_connect();
    let _listens = Subscriber::channel(server, "news");
    for first in (0..PERMITS).step_by(500) {
        let mut pipe = redis::pipe();
        for owner in first..first + 500 {
            let hold = pipe.cmd("RLOCK.ACQUIRE").arg("slots").arg(format!("o{owner}")).arg(900_000);
            hold.arg("PERMITS").arg(PERMITS).ignore();
        }
        pipe.query::<()>(client).expect("they hold");
    }
    for first in (0..PERMITS).step_by(500) {
        let mut pipe = redis::pipe();
        for owner in first..first + 500 {
            let wait = pipe.cmd("RLOCK.ACQUIRE").arg("slots").arg(format!("w{owner}")).arg(900_000);
            wait.arg("PERMITS").arg(1).arg("ENQUEUE").arg(0).arg("news").ignore();
            let wait = pipe.cmd("RLOCK.ACQUIRE").arg(format!("lock{owner}")).arg("a").arg(900_000);
            wait.ignore().cmd("RLOCK.ACQUIRE").arg(format!("lock{owner}")).arg("b").arg(900_000);
            pipe.arg("ENQUEUE").arg(0).arg("news").ignore();
        }
        pipe.query::<()>(client).expect("they wait");
    }
    let lengths = |client: &mut Connection, limit: &str| {
        let info = fields(ask(client, &["RLOCK.INFO", "slots", "LIMIT", limit]));
        let length = |name: &str| {
            let (_, list) = info.iter().find(|(field, _)| field == name).expect("the list");
            list.as_sequence().expect("a list").len()
        };
        [length("holders"), length("queue")]
    };
    assert_eq!(lengths(client, "4294967295"), [10_000, 10_000]);
    assert_eq!(lengths(client, "9999"), [9_999, 9_999]);
    let list = ask(client, &["RLOCK.LIST", "0", "LIMIT", "4294967295"]);
    let entries = list.as_sequence().and_then(|page| page.get(1)?.as_sequence());
    assert_eq!(entries.map(<[_]>::len), Some(10_000));
}

/// Redis 7.0, which counts a miss and raises `keymiss` for every read of a missing key, by a module too.
fn is_redis_7_0(server: &TestServer) -> bool {
    let version = server.version();
    version.name == ServerName::Redis && (version.major, version.minor) == (7, 0)
}

/// Counters of the server, by their names in INFO; hits and misses only where a read can leave them out.
fn counts(server: &TestServer) -> Vec<(&'static str, String)> {
    let (stats, persistence) = (server.info("stats"), server.info("persistence"));
    let fields = ["keyspace_hits", "keyspace_misses", "rdb_changes_since_last_save"];
    let fields = fields.into_iter().filter(|name| !name.starts_with("keyspace") || !is_redis_7_0(server));
    fields.map(|name| (name, stats.get(name).unwrap_or_else(|| &persistence[name]).clone())).collect()
}

#[test]
fn leaves_no_trace() {
    let server = TestServer::builder().conf("notify-keyspace-events", "KAm").start();
    let client = &mut server.connect();
    client.story(&[("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]"), ("SET text 1", "OK")]);
    for key in ["lock", "text"] {
        eventually("the key to be idle for a second", Duration::from_secs(30), || {
            (say(client, &format!("OBJECT IDLETIME {key}")) != "0").then_some(())
        });
    }
    let (mut events, mut stream) = (Subscriber::pattern(&server, "__key*"), ReplicaStream::open(&server));
    client.story(&[("WATCH lock text free", "OK")]);
    for (key, says) in [("lock", "mutex"), ("text", "!WRONGTYPE"), ("free", "none")] {
        let before = counts(&server);
        let answer = say(client, &format!("RLOCK.INFO {key}"));
        assert!(answer.contains(says), "{key}: {answer}");
        assert_eq!(counts(&server), before, "{key}");
        let mut raised: Vec<_> = events.drain().into_iter().map(|(_, event)| event).collect();
        raised.retain(|event| event != b"keymiss" || !is_redis_7_0(&server));
        assert!(raised.is_empty(), "{key}: {raised:?}");
    }
    assert!(stream.so_far(&server).is_empty());
    client.story(&[("MULTI", "OK"), ("PING", "QUEUED"), ("EXEC", "[PONG]")]);
    for key in ["lock", "text"] {
        assert_ne!(say(client, &format!("OBJECT IDLETIME {key}")), "0", "{key} counts as used");
    }
}

#[test]
fn an_ended_lock_is_left_to_the_server_to_clear_away() {
    let server = TestServer::start();
    let mut client = server.connect_resp3();
    let ends_at_once = ("RLOCK.ACQUIRE lock alice 1", "[1, 1, 0]");
    client.story(&[("DEBUG SET-ACTIVE-EXPIRE 0", "OK"), ends_at_once]);
    let mut stream = ReplicaStream::open(&server);
    thread::sleep(Duration::from_millis(20));
    // Redis 7.0 deletes an expired key on any read.
    let cleared = is_redis_7_0(&server);
    client.story(&[("RLOCK.INFO lock", FREE), ("DBSIZE", if cleared { "0" } else { "1" })]);
    assert_eq!(stream.so_far(&server).is_empty(), !cleared);
}
