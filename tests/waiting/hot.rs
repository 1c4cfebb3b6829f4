//! RLOCK.HOT: the locks that cost most waiting.

use std::thread::sleep;

use rlock_testkit::prelude::*;

/// An entry of the reply.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hot {
    lock: String,
    waited: i64,
    error: i64,
    waits: i64,
    longest: i64,
    denied: i64,
    waiters: i64,
}

const FIELDS: [&str; 8] = ["db", "key", "waited-ms", "error-ms", "waits", "longest-ms", "denied", "waiters"];

#[track_caller]
fn hot(client: &mut Connection) -> Vec<Hot> {
    let Value::Array(entries) = ask(client, &["RLOCK.HOT"]) else { panic!("no array") };
    entries.into_iter().map(entry).collect()
}

#[track_caller]
fn entry(value: Value) -> Hot {
    let fields = fields(value);
    let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, FIELDS);
    let number = |place: usize| text(&fields[place].1).parse::<i64>().unwrap();
    let lock = format!("{}:{}", number(0), text(&fields[1].1).trim_matches('"'));
    let (waited, error, waits) = (number(2), number(3), number(4));
    Hot { lock, waited, error, waits, longest: number(5), denied: number(6), waiters: number(7) }
}

fn locks(hot: &[Hot]) -> Vec<&str> {
    hot.iter().map(|hot| hot.lock.as_str()).collect()
}

/// Alice holds a lock, and bob waits for it by message.
#[track_caller]
fn enqueue(client: &mut Connection, key: &str, bob: &str) {
    say(client, &format!("RLOCK.ACQUIRE {key} alice 1000000 HOLDS 1"));
    let queued = say(client, &format!("RLOCK.ACQUIRE {key} {bob} 1000000 ENQUEUE 0 news"));
    assert_eq!(queued, "[0, 0, 0]");
}

/// Bob waits this long for a lock, and leaves.
#[track_caller]
fn wait(client: &mut Connection, key: &str, ms: u64) {
    enqueue(client, key, "bob");
    sleep(Duration::from_millis(ms));
    client.story(&[(&format!("RLOCK.CANCEL {key} bob"), "1"), (&format!("DEL {key}"), "1")]);
}

#[test]
fn shows_the_locks_with_the_most_waiting_first() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[("RLOCK.HOT", "[]"), ("RLOCK.HOT LIMIT 7", "[]")]);
    // A lock without waiters is not hot.
    client.story(&[("RLOCK.ACQUIRE calm alice 1000", "[1, 1000, 0]"), ("RLOCK.RELEASE calm alice", "1")]);
    wait(client, "short", 40);
    client.story(&[("SELECT 3", "OK")]);
    wait(client, "long", 150);
    let hot = hot(client);
    assert_eq!(locks(&hot), ["3:long", "0:short"]);
    assert!(hot[0].waited >= 150 && (40..hot[0].waited).contains(&hot[1].waited), "{hot:?}");
    assert!(hot.iter().all(|hot| (hot.error, hot.waits, hot.waiters) == (0, 1, 0)), "{hot:?}");
    let Value::Array(some) = ask(client, &["rlock.hot", "limit", "1"]) else { panic!("no array") };
    assert_eq!(some.into_iter().map(entry).collect::<Vec<_>>(), hot[..1]);
    client.story(&[("RLOCK.HOT RESET", "OK"), ("RLOCK.HOT", "[]")]);
}

#[test]
fn is_a_map_in_resp3() {
    let server = TestServer::start();
    let denied = ["RLOCK.ACQUIRE k alice 100000", "RLOCK.ACQUIRE k bob 1", "RLOCK.HOT"];
    for (protocol, map) in [(2, "*16\r\n"), (3, "%8\r\n")] {
        let heard = on_the_wire(&server, protocol, &denied);
        let body = heard.split_once("*1\r\n").unwrap().1;
        let first = format!("{map}$2\r\ndb\r\n:0\r\n$3\r\nkey\r\n$1\r\nk\r\n$9\r\nwaited-ms\r\n:0\r\n");
        assert!(body.starts_with(&first), "{heard}");
    }
}

/// A hand-off, a time-out, a cancelled wait, a client that has gone, a waiter that was sent away.
#[test]
fn every_end_of_a_wait_counts() {
    let (server, client) = &mut TestServer::start_and_connect();
    let _listener = Subscriber::channel(server, "news");
    client.story(&[("RLOCK.ACQUIRE k alice 1000000", "[1, 1000000, 0]")]);
    let begun = Instant::now();
    let handed = Waiting::line(server, "RLOCK.ACQUIRE k a 1000000 BLOCK 0");
    let timed_out = Waiting::line(server, "RLOCK.ACQUIRE k b 1000000 BLOCK 150");
    let cancelled = Waiting::line(server, "RLOCK.ACQUIRE k c 1000000 BLOCK 0");
    enqueue(client, "k", "d");
    assert_eq!(timed_out.answer(), "null");
    client.story(&[("RLOCK.CANCEL k c", "1"), ("RLOCK.RELEASE k alice", "1")]);
    assert_eq!((cancelled.answer(), handed.answer()), ("null".into(), "[1, 1000000, 0]".into()));
    // A blocked client that is killed, and a waiter that is sent away.
    let gone = Waiting::line(server, "RLOCK.ACQUIRE k e 1000000 BLOCK 0");
    client.story(&[(&format!("CLIENT KILL ID {}", gone.client_id()), "1")]);
    wait_for("the client to go", || hot(client)[0].waits == 4);
    client.story(&[("CONFIG SET rlock.accept no", "OK")]);
    let k = hot(client).remove(0);
    let most = i64::try_from(begun.elapsed().as_millis()).unwrap();
    assert_eq!((k.waits, k.waiters, k.denied), (5, 0, 0), "{k:?}");
    assert!((150..=most).contains(&k.longest) && (450..=5 * most).contains(&k.waited), "{k:?} of {most}");
}

/// No wait for it ends: without the sweep it would never appear. A server with `hz` 500, or with many clients, beats fifty times as
/// often: it swept every 0.2 s, and fifty thousand waiters cost it a quarter of its time.
#[test]
fn a_lock_that_is_stuck_shows_after_the_next_sweep() {
    let (_server, client) = &mut TestServer::builder().conf("hz", 500).start_and_connect();
    enqueue(client, "stuck", "b1");
    enqueue(client, "stuck", "b2");
    assert_eq!(hot(client), [], "the sweep has not come by");
    let begun = Instant::now();
    // Every ten seconds.
    let stuck = eventually("the sweep", 2 * SOON, || hot(client).pop());
    assert!((5..15).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    assert_eq!((stuck.lock.as_str(), stuck.waits, stuck.waiters), ("0:stuck", 0, 2));
    assert!(
        stuck.longest > 0 && (stuck.longest..=2 * stuck.longest + 2).contains(&stuck.waited),
        "{stuck:?}"
    );
    // From then on each reply is up to date.
    sleep(Duration::from_millis(100));
    let later = hot(client).remove(0);
    assert!(
        later.waited >= stuck.waited + 200 && later.longest >= stuck.longest + 100,
        "{stuck:?} {later:?}"
    );
    // What was before a RESET does not come back.
    client.story(&[("RLOCK.HOT RESET", "OK"), ("RLOCK.CANCEL stuck b1", "1")]);
    let after = hot(client).remove(0);
    assert!(after.waited < 200 && after.waits == 1 && after.waiters == 1, "{after:?}");
}

#[test]
fn a_new_lock_replaces_the_one_with_the_least_waiting() {
    let (_server, client) = &mut TestServer::builder().conf("rlock.hot-locks", 2).start_and_connect();
    wait(client, "most", 200);
    wait(client, "least", 30);
    wait(client, "new", 10);
    let hot = hot(client);
    assert_eq!(locks(&hot), ["0:most", "0:new"]);
    let new = &hot[1];
    assert!(new.error >= 30 && new.waited >= new.error + 10 && new.waits == 1, "{hot:?}");
}

#[test]
fn the_table_has_the_configured_size() {
    let (_server, client) = &mut TestServer::start_and_connect();
    for key in ["a", "b", "c"] {
        wait(client, key, 5);
    }
    assert_eq!(hot(client).len(), 3);
    client.story(&[("CONFIG SET rlock.hot-locks 1", "OK")]);
    assert_eq!(hot(client).len(), 1);
    client.story(&[("CONFIG SET rlock.hot-locks 0", "OK"), ("RLOCK.HOT", "[]")]);
    wait(client, "d", 5);
    client.story(&[("CONFIG SET rlock.hot-locks 1", "OK"), ("RLOCK.HOT", "[]")]);
}

#[test]
fn a_denial_needs_room() {
    let (_server, client) = &mut TestServer::builder().conf("rlock.hot-locks", 2).start_and_connect();
    let held = |client: &mut Connection, key: &str| {
        say(client, &format!("RLOCK.ACQUIRE {key} alice 1000000"));
    };
    let deny = |client: &mut Connection, key: &str| {
        assert_eq!(say(client, &format!("RLOCK.ACQUIRE {key} bob 1000")), "null");
    };
    for key in ["a", "a", "b", "c"] {
        held(client, key);
        deny(client, key);
    }
    let shown = hot(client);
    assert_eq!(locks(&shown), ["0:b", "0:a"]);
    assert_eq!(shown.iter().map(|hot| hot.denied).collect::<Vec<_>>(), [1, 2]);
    // A wait needs none: it takes the place of a lock that cost no waiting.
    enqueue(client, "c", "bob");
    sleep(Duration::from_millis(5));
    client.story(&[("RLOCK.CANCEL c bob", "1")]);
    assert_eq!(locks(&hot(client))[0], "0:c");
}

/// Whether with BLOCK or ENQUEUE or not: a call that could not wait was denied at once.
#[test]
fn a_null_at_once_is_a_denial_and_a_timeout_is_not() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]")]);
    let mut denials = 0;
    for (line, counts) in [
        ("RLOCK.ACQUIRE lock bob 1000", 1),
        ("RLOCK.ACQUIRE lock bob 1000 BLOCK 1", 0),
        ("RLOCK.ACQUIRE lock bob 1000 HOLDS 2", 1),
        // The hold that it builds on is lost: no wait brings it back.
        ("RLOCK.ACQUIRE lock bob 1000 HOLDS 2 BLOCK 100000", 1),
        ("RLOCK.ACQUIRE lock bob 1000 HOLDS 2 ENQUEUE 100000 news", 1),
    ] {
        client.story(&[(line, "null")]);
        denials += counts;
        assert_eq!(hot(client)[0].denied, denials, "{line}");
    }
    let script = "EVAL return{redis.call('RLOCK.ACQUIRE',KEYS[1],'bob',1000,'BLOCK',100000)} 1 lock";
    client.story(&[
        (script, "[null]"),
        ("MULTI", "OK"),
        ("RLOCK.ACQUIRE lock bob 1000 BLOCK 100000", "QUEUED"),
        ("EXEC", "[null]"),
    ]);
    assert_eq!(hot(client)[0].denied, denials + 2);
}

#[test]
fn every_name_is_counted() {
    let (_server, client) = &mut TestServer::start_and_connect();
    let longest = "x".repeat(1_024);
    wait(client, &longest, 2);
    assert_eq!(locks(&hot(client)), [format!("0:{longest}")]);
    say_words(client, &[&b"RLOCK.ACQUIRE"[..], b"\0\xff\n", b"alice", b"100000"]);
    say_words(client, &[&b"RLOCK.ACQUIRE"[..], b"\0\xff\n", b"bob", b"100000"]);
    let Value::Array(entries) = ask(client, &["RLOCK.HOT"]) else { panic!("no array") };
    assert!(
        entries.iter().any(|entry| fields(entry.clone())[1].1 == Value::BulkString(b"\0\xff\n".to_vec()))
    );
}

#[test]
fn a_flush_and_a_swap_of_databases_keep_the_table() {
    let (server, client) = &mut TestServer::start_and_connect();
    let _listener = Subscriber::channel(server, "news");
    wait(client, "k", 5);
    enqueue(client, "held", "bob");
    let before = locks(&hot(client)).join(" ");
    assert_eq!(before, "0:k");
    client.story(&[("FLUSHALL", "OK")]);
    // The waiter got the lock that the flush removed.
    wait_for("the hand-off", || hot(client).len() == 2);
    client.story(&[("SWAPDB 0 1", "OK"), ("FLUSHDB", "OK")]);
    let mut after = hot(client);
    after.sort_by(|a, b| a.lock.cmp(&b.lock));
    assert_eq!(locks(&after), ["0:held", "0:k"]);
}

#[test]
fn a_demoted_server_keeps_the_table() {
    let (_server, client) = &mut TestServer::start_and_connect();
    enqueue(client, "k", "bob");
    sleep(Duration::from_millis(5));
    client.story(&[("REPLICAOF 127.0.0.1 1", "OK")]);
    eventually("the waiter to be sent away", SOON, || {
        let hot = hot(client).pop()?;
        (hot.lock == "0:k" && hot.waits == 1 && hot.waiters == 0 && hot.waited >= 5).then_some(())
    });
    assert_eq!(say_words(client, &["REPLICAOF", "NO", "ONE"]), "OK");
    enqueue(client, "k", "bob");
    let hot = hot(client).remove(0);
    assert_eq!((hot.waits, hot.waiters), (1, 1));
    client.story(&[("RLOCK.HOT RESET", "OK")]);
}

#[test]
fn works_in_transactions_and_scripts_and_changes_no_data() {
    let (server, client) = &mut TestServer::start_and_connect();
    wait(client, "k", 2);
    let changes = |server: &TestServer| server.info("persistence")["rdb_changes_since_last_save"].clone();
    let before = changes(server);
    let answer = transaction(client, &["RLOCK.HOT LIMIT 1", "RLOCK.HOT RESET", "RLOCK.HOT"]);
    assert!(answer.starts_with(r#"[[["db", 0, "key", "k", "waited-ms", "#), "{answer}");
    assert!(answer.ends_with(r#""OK", []]"#) || answer.ends_with("OK, []]"), "{answer}");
    let script = say_words(client, &["EVAL", "return redis.call('RLOCK.HOT')", "0"]);
    assert_eq!(script, "[]");
    let script = say_words(client, &["EVAL_RO", "return redis.call('RLOCK.HOT', 'RESET')", "0"]);
    assert_eq!(script, "OK");
    assert_eq!(changes(server), before);
    assert_eq!(say(client, "COMMAND GETKEYS RLOCK.HOT LIMIT 1"), "!ERR The command has no key arguments");
}

#[test]
fn wrong_arguments_are_refused() {
    let server = TestServer::start();
    let limit = "!ERR invalid LIMIT: use an integer from 1 to 4294967295";
    let both = "!ERR LIMIT and RESET exclude each other; RESET shows nothing";
    server.connect().story(&[
        ("RLOCK.HOT LIMIT 0", limit),
        ("RLOCK.HOT LIMIT x", limit),
        ("RLOCK.HOT LIMIT", "!ERR LIMIT needs a value"),
        ("RLOCK.HOT LIMIT 1 LIMIT 1", "!ERR LIMIT appears twice; use it once"),
        ("RLOCK.HOT RESET RESET", "!ERR RESET appears twice; use it once"),
        ("RLOCK.HOT RESET LIMIT 1", both),
        ("RLOCK.HOT LIMIT 1 RESET", both),
        ("RLOCK.HOT k", "!ERR unknown option 'k'; see COMMAND DOCS"),
    ]);
}

/// It shows the names of the locks of all databases, so permission to lock does not include it.
#[test]
fn is_for_operators() {
    let (server, client) = &mut TestServer::start_and_connect();
    let version = server.version();
    if version.name == ServerName::Redis && !version.is_at_least(ServerName::Redis, 7, 4) {
        return;
    }
    client.story(&[("ACL SETUSER app on >secret ~* &* +@rlock", "OK")]);
    for line in ["RLOCK.HOT", "RLOCK.HOT RESET"] {
        let refused = say(&mut server.connect_as("app", "secret"), line);
        assert!(refused.starts_with("!NOPERM "), "{refused}");
    }
    // ACL CAT lists commands of modules on some servers only.
    let described = say(client, "COMMAND INFO rlock.hot");
    assert!(described.contains("@dangerous"), "{described}");
    client.story(&[("ACL SETUSER eye on >secret +rlock.hot", "OK")]);
    server.connect_as("eye", "secret").story(&[("RLOCK.HOT", "[]")]);
}
