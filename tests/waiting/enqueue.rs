//! ENQUEUE: waiting for a message, any number of owners by one connection.

use std::io::{Read, Write};
use std::net::TcpStream;

use redis::Pipeline;
use rlock_testkit::prelude::*;

pub(crate) const WAITS: &str = "[0, 0, 0]";

/// `owner` waits for `lock` on a channel, for ever and with a lease of 4 seconds.
#[track_caller]
pub(crate) fn enqueue(client: &mut Connection, owner: &str, channel: &str) {
    client.story(&[(&format!("RLOCK.ACQUIRE lock {owner} 4000 ENQUEUE 0 {channel}"), WAITS)]);
}

#[track_caller]
pub(crate) fn holder(client: &mut Connection) -> String {
    say(client, "HGETALL lock")
}

#[test]
fn answers_zeroes_and_tells_the_outcome_on_the_channel() {
    let (server, client, grants) = &mut TestServer::start_and_listen("grants");
    // A caller that can have the lock at once acquires it, and no message comes.
    client.story(&[("RLOCK.ACQUIRE lock alice 100000 ENQUEUE 0 grants", "[1, 100000, 0]")]);
    enqueue(client, "bob", "grants");
    client.story(&[("RLOCK.ACQUIRE lock carol 300 enqueue 100000 grants holds 1", WAITS)]);
    // A first hold is waited for, and nothing else.
    client.story(&[("RLOCK.ACQUIRE lock dave 4000 HOLDS 2 ENQUEUE 0 grants", "null")]);
    assert_eq!((holder(client), waiters(client, "lock")), (r#"["alice", "1"]"#.into(), "bob carol".into()));
    assert!(grants.texts().is_empty());
    client.story(&[("RLOCK.RELEASE lock alice", "1"), ("HGETALL lock", r#"["bob", "1"]"#)]);
    assert_eq!(grants.texts(), ["granted 0 bob lock 1 4000 0"]);
    assert!(agrees(&say(client, "PTTL lock"), "~4000"));
    client.story(&[("RLOCK.FORCERELEASE lock", "1"), ("HGETALL lock", r#"["carol", "1"]"#)]);
    assert_eq!(grants.texts(), ["granted 0 carol lock 1 300 0"]);
    assert_eq!((counter(server, "hand_offs"), counter(server, "waiters")), (2, 0));
}

#[test]
fn a_grant_must_be_confirmed() {
    let (server, client, grants) = &mut TestServer::start_and_listen("grants");
    client.story(&[ALICE, ("CONFIG GET rlock.grant-confirm-ms", r#"["rlock.grant-confirm-ms", "5000"]"#)]);
    // The owner, the command that confirms its grant, and the answer.
    let confirmations = [
        ("bob", "RLOCK.RENEW lock bob 900000", "1"),
        ("carol", "RLOCK.ACQUIRE lock carol 900000 HOLDS 1", "[1, 900000, 0]"),
        ("dave", "RLOCK.ACQUIRE lock dave 900000 HOLDS 1 ENQUEUE 0 grants", "[1, 900000, 0]"),
        ("erin", "RLOCK.ACQUIRE lock erin 900000", "[2, 900000, 0]"),
    ];
    for (owner, ..) in confirmations {
        let line = format!("RLOCK.ACQUIRE lock {owner} 900000 ENQUEUE 0 grants");
        client.story(&[(&line, WAITS)]);
    }
    enqueue(client, "last", "grants");
    let mut before = "alice";
    for (owner, confirm, answer) in confirmations {
        client.story(&[(&format!("RLOCK.RELEASE lock {before} ALL"), "1")]);
        // The smaller of what was asked for and what the option says.
        assert_eq!(grants.texts(), [format!("granted 0 {owner} lock 1 5000 0")]);
        let left = number(client, "PTTL lock");
        assert!((1..=5_000).contains(&left), "{left}");
        client.story(&[(confirm, answer)]);
        let left = number(client, "PTTL lock");
        assert!((800_000..=900_000).contains(&left), "{confirm}: {left}");
        before = owner;
    }
    assert_eq!(counter(server, "unconfirmed_grants"), 0);
}

#[test]
fn an_unconfirmed_grant_passes_on() {
    let (server, client, grants) = &mut TestServer::start_and_listen("grants");
    client.story(&[("CONFIG SET rlock.grant-confirm-ms 200", "OK"), ALICE]);
    for owner in ["bob", "carol"] {
        enqueue(client, owner, "grants");
    }
    client.story(&[("RLOCK.ACQUIRE lock dave 50 ENQUEUE 0 grants", WAITS)]);
    let begin = Instant::now();
    client.story(&[("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!(grants.next_text(), "granted 0 bob lock 1 200 0");
    assert_eq!(grants.next_text(), "granted 0 carol lock 1 200 0");
    let passed = begin.elapsed();
    assert!((199..5_000).contains(&passed.as_millis()), "{passed:?}");
    assert_eq!(grants.next_text(), "granted 0 dave lock 1 50 0");
    assert!(begin.elapsed().as_millis() >= 399);
    client.story(&[("RLOCK.RENEW lock bob 1000", "0"), ("RLOCK.RELEASE lock carol", "null")]);
    assert_eq!((counter(server, "unconfirmed_grants"), counter(server, "waiters")), (2, 0));
}

#[test]
fn a_wait_ends_with_a_message() {
    let (server, client, grants) = &mut held_and_listen("grants");
    let begin = Instant::now();
    client.story(&[("RLOCK.ACQUIRE lock bob 4000 ENQUEUE 200 grants", WAITS)]);
    enqueue(client, "carol", "grants");
    assert_eq!(grants.next_text(), "timeout 0 bob lock");
    let passed = begin.elapsed();
    assert!((199..5_000).contains(&passed.as_millis()), "{passed:?}");
    client.story(&[("RLOCK.CANCEL lock bob", "0"), ("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!(grants.texts(), ["granted 0 carol lock 1 4000 0"]);
    assert_eq!((counter(server, "timeouts"), counter(server, "waiters")), (1, 0));
}

#[test]
fn a_channel_without_a_subscriber_is_dropped() {
    let (server, client, grants) = &mut TestServer::start_and_listen("grants");
    client.story(&[ALICE, ("RLOCK.ACQUIRE other alice 100000", "[1, 100000, 0]")]);
    let deaf = Waiting::line(server, "RLOCK.ACQUIRE lock blocked 4000 BLOCK 0");
    for (owner, channel) in
        [("bob", "deaf"), ("carol", "deaf2"), ("dave", "grants"), ("erin", "deaf"), ("frank", "grants")]
    {
        enqueue(client, owner, channel);
    }
    client.story(&[("RLOCK.ACQUIRE other grace 4000 ENQUEUE 0 deaf", WAITS)]);
    client.story(&[("RLOCK.RELEASE lock alice", "1"), ("RLOCK.RELEASE lock blocked", "1")]);
    assert_eq!(deaf.answer(), "[1, 4000, 0]");
    assert_eq!(grants.texts(), ["granted 0 dave lock 1 4000 0"]);
    assert_eq!((waiters(client, "lock"), waiters(client, "other")), ("frank".into(), "grace".into()));
    assert_eq!(counter(server, "waiters_gone"), 3);
    // A client that subscribes in time receives the grant.
    let mut late = Subscriber::channel(server, "deaf");
    client.story(&[("RLOCK.FORCERELEASE other", "1")]);
    assert_eq!(late.texts(), ["granted 0 grace other 1 4000 0"]);
}

#[test]
fn a_repeat_keeps_the_place_and_takes_the_new_channel() {
    let (server, client, one) = &mut TestServer::start_and_listen("one");
    let mut two = Subscriber::channel(server, "two");
    client.story(&[ALICE]);
    for owner in ["bob", "carol", "dave"] {
        enqueue(client, owner, "one");
    }
    // Enqueued, then blocked, then enqueued again: always the first.
    let bob = Waiting::line(server, "RLOCK.ACQUIRE lock bob 4000 BLOCK 0");
    let vias = |client: &mut Connection| {
        let entries = queue(client, "lock").into_iter();
        entries.map(|entry| format!("{} {}", entry.owner, entry.via)).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(vias(client), "bob block, carol enqueue, dave enqueue");
    assert_eq!(queue(client, "lock")[0].client_id, bob.client_id());
    client.story(&[("RLOCK.ACQUIRE lock bob 3000 ENQUEUE 0 two", WAITS)]);
    assert_eq!(bob.answer(), "!UNBLOCKED the same owner waits by a later call");
    assert_eq!(vias(client), "bob enqueue, carol enqueue, dave enqueue");
    // The later wait counts as well.
    client.story(&[("RLOCK.ACQUIRE lock carol 4000 ENQUEUE 1 two", WAITS)]);
    assert_eq!(two.next_text(), "timeout 0 carol lock");
    client.story(&[("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!(two.texts(), ["granted 0 bob lock 1 3000 0"]);
    // The replaced wait receives nothing.
    assert!(one.texts().is_empty());
    client.story(&[("RLOCK.RELEASE lock bob", "1")]);
    assert_eq!(one.texts(), ["granted 0 dave lock 1 4000 0"]);
    assert_eq!(counter(server, "waiters"), 0);
}

/// The message of the first wait is on its way, or held up with the repeat: an owner that takes it for the end of
/// both, and cancels nothing, is granted a lock without knowing it.
#[test]
fn a_repeat_after_the_end_of_a_wait_begins_another() {
    let (_server, client, grants) = &mut TestServer::start_and_listen("grants");
    let bob = "RLOCK.ACQUIRE lock bob 4000 ENQUEUE 1 grants";
    client.story(&[ALICE, (bob, WAITS)]);
    assert_eq!(grants.next_text(), "timeout 0 bob lock");
    client.story(&[("RLOCK.ACQUIRE lock bob 4000 ENQUEUE 0 grants", WAITS)]);
    assert_eq!(waiters(client, "lock"), "bob");
    client.story(&[("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!(grants.texts(), ["granted 0 bob lock 1 4000 0"]);
    client.story(&[("RLOCK.CANCEL lock bob", "0"), ("RLOCK.RELEASE lock bob ALL", "1")]);
    assert_eq!(grants.texts(), Vec::<String>::new());
}

/// A name as the messages have it.
fn encoded(name: &[u8]) -> String {
    const KEPT: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~:{}";
    let byte = |byte: &u8| match KEPT.contains(byte) {
        true => char::from(*byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    name.iter().map(byte).collect()
}

#[test]
fn names_of_any_bytes_are_percent_encoded() {
    let server = TestServer::start();
    let key: Vec<u8> = (0..=255).collect();
    let owner: Vec<u8> = (0..=255).rev().collect();
    let channel = b"\0 grants\r\n\xff".as_slice();
    let (client, mut grants) = (&mut server.connect(), Subscriber::channel(&server, channel));
    assert_eq!(encoded(b"a Z\0%/{x}:~\xe9"), "a%20Z%00%25%2F{x}:~%E9");
    let (key_shown, owner_shown) = (encoded(&key), encoded(&owner));
    let acquire = |owner: &[u8], wait: &[u8]| {
        [&b"RLOCK.ACQUIRE"[..], &key, owner, b"4000", b"ENQUEUE", wait, channel].map(<[u8]>::to_vec)
    };
    for (owner, answer) in [(&b"alice"[..], "[1, 4000, 0]"), (&owner, WAITS), (b"a b", WAITS)] {
        let wait: &[u8] = if owner == b"a b" { b"1" } else { b"0" };
        assert_eq!(text(&ask(client, &acquire(owner, wait))), answer);
    }
    assert_eq!(grants.next_text(), format!("timeout 0 a%20b {key_shown}"));
    assert_eq!(text(&ask(client, &[b"RLOCK.RELEASE", &key[..], b"alice"])), "1");
    assert_eq!(grants.texts(), [format!("granted 0 {owner_shown} {key_shown} 1 4000 0")]);
    assert_eq!(text(&ask(client, &[b"RLOCK.RENEW", &key[..], &owner, b"4000"])), "1");
}

#[test]
fn bad_channels_are_refused() {
    let (server, client) = &mut held();
    let (longest, too_long) = (["x"; 512].concat(), ["x"; 513].concat());
    const CHANNEL: &str = "!ERR invalid channel: ENQUEUE wait-ms needs one of 1 to 512 bytes";
    const WAIT: &str =
        "!ERR invalid ENQUEUE: use an integer from 0 (forever) to 8796093022208 (milliseconds)";
    let cases: &[(&[&str], &str)] = &[
        (&["ENQUEUE", "0"], CHANNEL),
        (&["ENQUEUE", "0", ""], CHANNEL),
        (&["ENQUEUE", "0", &too_long], CHANNEL),
        (&["ENQUEUE"], "!ERR ENQUEUE needs a value"),
        (&["ENQUEUE", "grants", "0"], WAIT),
        (&["ENQUEUE", "-1", "grants"], WAIT),
        (&["ENQUEUE", "01", "grants"], WAIT),
        (&["ENQUEUE", "8796093022209", "grants"], WAIT),
        (&["ENQUEUE", "0", "a", "ENQUEUE", "0", "b"], "!ERR ENQUEUE appears twice; use it once"),
        (&["ENQUEUE", "0", "a", "BLOCK", "1"], "!ERR BLOCK and ENQUEUE exclude each other; use one"),
        (&["BLOCK", "1", "ENQUEUE", "0", "a"], "!ERR BLOCK and ENQUEUE exclude each other; use one"),
    ];
    for (words, refusal) in cases {
        for key in ["lock", "free"] {
            let words = [&["RLOCK.ACQUIRE", key, "bob", "4000"][..], words].concat();
            assert_eq!(text(&ask(client, &words)), *refusal, "{words:?}");
        }
    }
    assert_eq!((counter(server, "waiters"), say(client, "DBSIZE")), (0, "1".into()));
    for (owner, channel) in [("bob", longest.as_str()), ("carol", "x"), ("dave", "ENQUEUE")] {
        enqueue(client, owner, channel);
    }
    client.story(&[("RLOCK.ACQUIRE lock erin 4000 ENQUEUE 8796093022208 x", WAITS)]);
}

#[test]
fn the_channel_must_be_allowed_by_acl() {
    let (server, client, grants) = &mut TestServer::start_and_listen("ok:1");
    let rules = "reset on >secret ~lock +rlock.acquire +rlock.release +multi +exec +eval resetchannels &ok:*";
    client.story(&[(&format!("ACL SETUSER app {rules}"), "OK"), ALICE]);
    let app = &mut server.connect_as("app", "secret");
    for words in ["ENQUEUE 0 no:1", "enqueue 0 no:1 HOLDS 1", "HOLDS 1 Enqueue 0 no:1"] {
        for owner in ["alice", "bob"] {
            app.story(&[(&format!("RLOCK.ACQUIRE lock {owner} 4000 {words}"), "!NOPERM …")]);
        }
    }
    let script = "return redis.call('RLOCK.ACQUIRE', KEYS[1], 'bob', 4000, 'ENQUEUE', 0, ARGV[1])";
    let said = text(&ask(app, &["EVAL", script, "1", "lock", "no:1"]));
    assert!(said.starts_with('!') && said.contains("channel"), "{said}");
    assert!(say(client, "HGETALL lock") == r#"["alice", "1"]"# && counter(server, "waiters") == 0);
    // No other channel than that is needed, not even for the release.
    enqueue(app, "bob", "ok:1");
    assert_eq!(text(&ask(app, &["EVAL", &script.replace("bob", "carol"), "1", "lock", "ok:1"])), WAITS);
    app.story(&[("RLOCK.RELEASE lock alice", "1"), ("RLOCK.RELEASE lock bob", "1")]);
    let granted = ["bob", "carol"].map(|owner| format!("granted 0 {owner} lock 1 4000 0"));
    assert_eq!(grants.texts(), granted);
    client.story(&[("ACL SETUSER app allchannels", "OK")]);
    enqueue(app, "dave", "no:1");
}

/// Sends commands by the thousand on one connection; the answers.
pub(crate) fn pipelined(client: &mut Connection, lines: impl Iterator<Item = String>) -> Vec<Value> {
    let lines: Vec<String> = lines.collect();
    let send = |lines: &[String]| {
        let mut pipeline = Pipeline::new();
        for line in lines {
            let mut words = line.split(' ');
            pipeline.cmd(words.next().unwrap()).arg(words.collect::<Vec<_>>());
        }
        pipeline.query::<Vec<Value>>(client).unwrap()
    };
    lines.chunks(1_000).flat_map(send).collect()
}

#[test]
fn ten_thousand_owners_wait_on_one_connection() {
    const OWNERS: usize = 10_000;
    let (server, client, grants) = &mut TestServer::start_and_listen("grants");
    client.story(&[("RLOCK.ACQUIRE lock o0 100000", "[1, 100000, 0]")]);
    let begin = Instant::now();
    let enqueues = (1..=OWNERS).map(|n| format!("RLOCK.ACQUIRE lock o{n} 4000 ENQUEUE 900000 grants"));
    assert!(pipelined(client, enqueues).iter().all(|answer| text(answer) == WAITS));
    assert_eq!((counter(server, "waiters"), counter(server, "waiters_peak")), (10_000, 10_000));
    // Each is the holder when its turn to release comes.
    let releases = pipelined(client, (0..=OWNERS).map(|n| format!("RLOCK.RELEASE lock o{n}")));
    assert!(releases.iter().all(|answer| *answer == Value::Int(1)));
    let granted: Vec<_> = (1..=OWNERS).map(|n| format!("granted 0 o{n} lock 1 4000 0")).collect();
    assert!(grants.texts() == granted, "not in order, or not all");
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    assert_eq!((counter(server, "waiters"), say(client, "DBSIZE")), (0, "0".into()));
}

#[test]
fn an_enqueued_waiter_takes_less_than_512_bytes() {
    const OWNERS: i64 = 20_000;
    let (server, client) = &mut TestServer::start_and_connect();
    // The connection has its buffers, and the observer its own, before anything is measured.
    let line = |n, owner: &str| format!("RLOCK.ACQUIRE lock {owner}{n} 4000 ENQUEUE 900000 grants");
    client.story(&[ALICE]);
    pipelined(client, (0..1_000).map(|n| line(n, "o")));
    pipelined(client, (0..1_000).map(|n| format!("RLOCK.CANCEL lock o{n}")));
    let used = || server.info("memory")["used_memory"].parse::<i64>().unwrap();
    let before = used();
    pipelined(client, (0..OWNERS).map(|n| line(n, "o")));
    let each = (used() - before) / OWNERS;
    assert_eq!(counter(server, "waiters"), 20_000);
    assert!((32..512).contains(&each), "{each} bytes for each");
    // And gives nearly all of it back.
    pipelined(client, (0..OWNERS).map(|n| format!("RLOCK.CANCEL lock o{n}")));
    let kept = (used() - before) / OWNERS;
    assert!(counter(server, "waiters") == 0 && kept < 128, "{kept} bytes for each are kept");
}

/// A client that asks again now and then was shown as one that had just come.
#[test]
fn a_repeat_has_waited_since_it_came() {
    let (_server, client) = &mut held();
    enqueue(client, "bob", "grants");
    wait_for("some time in the queue", || queue(client, "lock")[0].age_ms >= 100);
    enqueue(client, "bob", "grants");
    assert!(queue(client, "lock")[0].age_ms >= 100);
}

#[test]
fn info_shows_enqueued_waiters() {
    let server = TestServer::start();
    let (client, other) = (&mut server.connect(), &mut server.connect());
    client.story(&[ALICE]);
    let (bobs, carols) = (number(client, "CLIENT ID"), number(other, "CLIENT ID"));
    enqueue(client, "bob", "grants");
    other.story(&[("RLOCK.ACQUIRE lock carol 4000 ENQUEUE 100000 grants", WAITS)]);
    let bob = format!(
        r#"["owner", "bob", "mode", null, "via", "enqueue", "age-ms", ~20000, "wait-left-ms", -1, "client-id", {bobs}]"#
    );
    let carol = format!(
        r#"["owner", "carol", "mode", null, "via", "enqueue", "age-ms", ~20000, "wait-left-ms", ~100000, "client-id", {carols}]"#
    );
    for (line, list) in [
        ("RLOCK.INFO lock", format!("[{bob}, {carol}]")),
        ("RLOCK.INFO lock LIMIT 1", format!("[{bob}]")),
        ("RLOCK.INFO lock LIMIT 0", "[]".into()),
    ] {
        let said = say(client, line);
        let (before, shown) = said.split_once(r#""queue", "#).unwrap();
        assert!(before.contains(r#""waiter-count", 2, "#), "{said}");
        assert!(agrees(shown, &format!("{list}]")), "{line}: {shown}");
    }
}

/// The server writes to that client first whose output was added last. The message was there before the reply: the releaser was
/// answered and woken first, and the next holder learned of its grant later, by 100 µs on an idle machine.
#[test]
fn a_message_follows_the_reply_of_the_command_that_it_comes_from() {
    let server = TestServer::start();
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let lines = [
        "HELLO 3",
        "SUBSCRIBE grants",
        "RLOCK.ACQUIRE lock alice 4000",
        "RLOCK.ACQUIRE lock bob 4000 ENQUEUE 0 grants",
        "RLOCK.RELEASE lock alice",
    ];
    stream.write_all(lines.map(|line| format!("{line}\r\n")).concat().as_bytes()).unwrap();
    let message = "granted 0 bob lock 1 4000 0";
    let mut all = String::new();
    while !all.contains(message) {
        let mut piece = [0; 4_096];
        let size = stream.read(&mut piece).unwrap();
        assert!(size > 0, "closed after {all}");
        all.push_str(std::str::from_utf8(&piece[..size]).unwrap());
    }
    let end = format!(":1\r\n>3\r\n$7\r\nmessage\r\n$6\r\ngrants\r\n${}\r\n{message}\r\n", message.len());
    assert!(all.ends_with(&end), "{all:?}");
}
