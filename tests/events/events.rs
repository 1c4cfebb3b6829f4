//! The notifications of a change: keyspace events and the unlock message.

use rlock_testkit::prelude::*;

/// A client, and a subscriber to every message of the server.
struct Scene {
    server: TestServer,
    client: Connection,
    listener: Subscriber,
}

impl Scene {
    /// `events` is the server's `notify-keyspace-events`.
    fn new(events: &str) -> Scene {
        let server = TestServer::builder().conf("notify-keyspace-events", events).start();
        let (client, listener) = (server.connect(), Subscriber::pattern(&server, "*"));
        Scene { server, client, listener }
    }

    /// Says a line, and compares all messages that it causes, in order.
    #[track_caller]
    fn step(&mut self, line: &str, expected: &[&str]) {
        let said = say(&mut self.client, line);
        assert!(!said.starts_with('!'), "{line}: {said}");
        assert_eq!(self.heard(), expected, "{line}");
    }

    /// What was published since the last look: channel and message.
    #[track_caller]
    fn heard(&mut self) -> Vec<String> {
        self.listener.events()
    }
}

const UNLOCKED: &str = "redisson_lock__channel:{lock} 0";

#[test]
fn each_change_raises_the_events_of_its_effects_and_those_of_rlock() {
    let mut scene = Scene::new("EA");
    let acquired = ["hset lock", "expire lock", "rlock.acquire lock"];
    let released = ["del lock", "rlock.release lock", UNLOCKED];
    scene.step("RLOCK.ACQUIRE lock alice 100000", &acquired);
    scene.step("RLOCK.ACQUIRE lock alice 200000", &acquired);
    scene.step("RLOCK.ACQUIRE lock alice 1000", &["hset lock", "rlock.acquire lock"]);
    scene.step("RLOCK.ACQUIRE lock alice 300000 HOLDS 3", &["expire lock"]);
    scene.step("RLOCK.RELEASE lock alice", &["hset lock", "rlock.release lock"]);
    scene.step("RLOCK.RELEASE lock alice LEASE 9000", &["hset lock", "expire lock", "rlock.release lock"]);
    scene.step("RLOCK.RELEASE lock alice HOLDS 1 LEASE 90000", &["expire lock"]);
    scene.step("RLOCK.RENEW lock alice 500000", &["expire lock"]);
    scene.step("RLOCK.RELEASE lock alice", &released);
    scene.step("RLOCK.ACQUIRE lock bob 100000", &acquired);
    scene.step("RLOCK.FORCERELEASE lock", &["del lock", "rlock.forcerelease lock", UNLOCKED]);
    scene.step("HSET lock mode read", &["hset lock"]);
    let replaced = [&["del lock"], &acquired[..]].concat();
    scene.step("RLOCK.ACQUIRE lock alice 100000", &replaced);
    scene.step("RLOCK.RELEASE lock alice ALL", &released);
}

#[test]
fn each_change_of_permits_raises_the_events_of_its_effects_and_those_of_rlock() {
    let mut scene = Scene::new("EA");
    let acquired = ["zadd lock", "expire lock", "rlock.acquire lock"];
    scene.step("RLOCK.ACQUIRE lock alice 100000 PERMITS 2", &acquired);
    scene.step("RLOCK.ACQUIRE lock alice 200000 PERMITS 2", &["zadd lock", "expire lock"]);
    scene.step("RLOCK.ACQUIRE lock alice 1000 PERMITS 2", &[]);
    scene.step("RLOCK.ACQUIRE lock bob 1000 PERMITS 2", &["zadd lock", "rlock.acquire lock"]);
    scene.step("RLOCK.RENEW lock bob 2000", &["zadd lock"]);
    scene.step("RLOCK.ACQUIRE lock carol 1000 PERMITS 2", &[]);
    scene.step("RLOCK.RELEASE lock alice", &["zrem lock", "expire lock", "rlock.release lock"]);
    scene.step("RLOCK.RELEASE lock bob", &["del lock", "rlock.release lock"]);
    scene.step("RLOCK.ACQUIRE lock dora 1000 PERMITS 2", &acquired);
    scene.step("RLOCK.FORCERELEASE lock", &["del lock", "rlock.forcerelease lock"]);
}

/// Of rlock only: lease keys have events of their own.
#[test]
fn each_release_of_readers_and_writers_raises_its_event() {
    let mut scene = Scene::new("Ed");
    let (acquired, released) = (["rlock.acquire lock"], "rlock.release lock");
    for owner in ["alice", "alice", "bob"] {
        scene.step(&format!("RLOCK.ACQUIRE lock {owner} 100000 READ"), &acquired);
    }
    scene.step("RLOCK.RELEASE lock alice", &[released]);
    scene.step("RLOCK.RELEASE lock alice", &[released]);
    scene.step("RLOCK.RELEASE lock bob", &[released, "redisson_rwlock:{lock} 0"]);
    scene.step("RLOCK.ACQUIRE lock alice 100000 WRITE", &acquired);
    scene.step("RLOCK.ACQUIRE lock alice 100000 READ", &acquired);
    scene.step(
        "RLOCK.RELEASE lock alice WRITE",
        &[released, "redisson_rwlock:{lock} 0", "redisson_rwlock:{lock} 1"],
    );
}

#[test]
fn the_events_of_rlock_are_of_class_d() {
    let mut scene = Scene::new("Ed");
    scene.step("RLOCK.ACQUIRE lock alice 100000", &["rlock.acquire lock"]);
    scene.step("RLOCK.RENEW lock alice 100000", &[]);
    scene.step("RLOCK.RELEASE lock alice", &["rlock.release lock", UNLOCKED]);
    scene.step("RLOCK.ACQUIRE lock alice 100000", &["rlock.acquire lock"]);
    scene.step("RLOCK.FORCERELEASE lock alice", &["rlock.forcerelease lock", UNLOCKED]);
    let mut others = Scene::new("Egh");
    others.step("RLOCK.ACQUIRE lock alice 100000", &["hset lock", "expire lock"]);
    others.step("RLOCK.RELEASE lock alice", &["del lock", UNLOCKED]);
    let mut none = Scene::new("");
    none.step("RLOCK.ACQUIRE lock alice 100000", &[]);
}

#[test]
fn events_carry_the_database_and_a_key_of_any_bytes() {
    let mut scene = Scene::new("KEd");
    scene.step("SELECT 5", &[]);
    let key = b"\0 {l}\r\n\xff";
    assert_eq!(say_words(&mut scene.client, &[b"RLOCK.ACQUIRE", &key[..], b"o", b"99"]), "[1, 99, 0]");
    let name = key.escape_ascii().to_string();
    let expected =
        [format!("__keyspace@5__:{name} rlock.acquire"), format!("__keyevent@5__:rlock.acquire {name}")];
    assert_eq!(scene.heard(), expected);
}

#[test]
fn transactions_and_scripts_raise_the_same_events() {
    let mut scene = Scene::new("EA");
    for line in ["MULTI", "RLOCK.ACQUIRE lock alice 100000", "RLOCK.RELEASE lock alice"] {
        scene.step(line, &[]);
    }
    let taken = ["hset lock", "expire lock", "rlock.acquire lock"];
    let freed = ["del lock", "rlock.release lock", UNLOCKED];
    scene.step("EXEC", &[&taken[..], &freed].concat());
    let call = |line: &str| format!("EVAL return{{redis.call({line})}} 0");
    scene.step(&call("'RLOCK.ACQUIRE','lock','alice','100000'"), &taken);
    scene.step(&call("'RLOCK.RELEASE','lock','alice'"), &freed);
}

#[test]
fn what_changes_nothing_raises_no_event() {
    // All classes, those of missed and new keys included.
    let mut scene = Scene::new("KEAmn");
    for line in ["RLOCK.ACQUIRE lock alice 100000", "RLOCK.ACQUIRE lock alice 100000", "HSET hash a b"] {
        say(&mut scene.client, line);
    }
    scene.heard();
    for line in [
        "RLOCK.ACQUIRE lock bob 100000",
        "RLOCK.ACQUIRE lock alice 1000 HOLDS 2",
        "RLOCK.ACQUIRE lock alice 1000 HOLDS 9",
        "RLOCK.ACQUIRE free alice 1000 HOLDS 2",
        "RLOCK.RELEASE lock bob",
        "RLOCK.RELEASE free bob",
        "RLOCK.RELEASE lock alice HOLDS 2",
        "RLOCK.RENEW lock bob 1000",
        "RLOCK.RENEW free bob 1000",
        "RLOCK.FORCERELEASE lock bob",
        "RLOCK.FORCERELEASE free",
    ] {
        scene.step(line, &[]);
    }
    for error in ["RLOCK.ACQUIRE lock alice 0", "RLOCK.RELEASE hash alice", "RLOCK.FORCERELEASE hash"] {
        assert!(say(&mut scene.client, error).starts_with('!'));
        assert!(scene.heard().is_empty(), "{error}");
    }
}

#[test]
fn freeing_a_lock_publishes_redissons_message() {
    let mut scene = Scene::new("");
    let keys: [&[u8]; 7] = [b"lock", b"{a}b", b"a{b", b"a}b", b"{}", b"\0\r\n \xff", b"\xff{\0}"];
    for key in keys {
        let name = key.escape_ascii();
        let channel = if key.contains(&b'{') { format!(":{name}") } else { format!(":{{{name}}}") };
        let unlocked = format!("redisson_lock__channel{channel} 0");
        let frees: [&[&[u8]]; 4] = [
            &[b"RLOCK.RELEASE", key, b"\0o"],
            &[b"RLOCK.RELEASE", key, b"\0o", b"ALL"],
            &[b"RLOCK.FORCERELEASE", key],
            &[b"RLOCK.FORCERELEASE", key, b"\0o"],
        ];
        for words in frees {
            say_words(&mut scene.client, &[b"RLOCK.ACQUIRE", key, b"\0o", b"100000"]);
            assert!(scene.heard().is_empty());
            assert_eq!(say_words(&mut scene.client, words), "1");
            assert_eq!(scene.heard(), [unlocked.as_str()], "{}", words[0].escape_ascii());
        }
    }
    assert_eq!(scene.server.info("rlock")["rlock_unlock_messages"], "28");
}

#[test]
fn a_release_calls_the_head_of_redissons_fair_queue() {
    let mut scene = Scene::new("");
    let called = ["redisson_lock__channel:{lock} 0", "redisson_lock__channel:{lock}:w:1 0"];
    for free in ["RLOCK.RELEASE lock alice", "RLOCK.FORCERELEASE lock"] {
        say(&mut scene.client, "RPUSH redisson_lock_queue:{lock} w:1 w:2");
        say(&mut scene.client, "RLOCK.ACQUIRE lock alice 100000");
        assert_eq!(say(&mut scene.client, free), "1");
        assert_eq!(scene.heard(), called, "{free}");
        assert_eq!(say(&mut scene.client, "LRANGE redisson_lock_queue:{lock} 0 -1"), r#"["w:1", "w:2"]"#);
        say(&mut scene.client, "DEL redisson_lock_queue:{lock}");
    }
    // A key of another type by that name calls no waiter.
    say(&mut scene.client, "SET redisson_lock_queue:{lock} w:1");
    say(&mut scene.client, "RLOCK.ACQUIRE lock alice 100000");
    assert_eq!(say(&mut scene.client, "RLOCK.RELEASE lock alice"), "1");
    assert_eq!(scene.heard(), called[..1]);
}

#[test]
fn only_freeing_a_lock_publishes() {
    let mut scene = Scene::new("");
    for (line, answer) in [
        ("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE lock alice 100000 HOLDS 2", "[2, ~100000, 0]"),
        ("RLOCK.ACQUIRE lock bob 100000", "null"),
        ("RLOCK.RELEASE lock bob", "null"),
        ("RLOCK.RELEASE lock alice HOLDS 1", "0"),
        ("RLOCK.RENEW lock alice 100000", "1"),
        ("RLOCK.FORCERELEASE lock bob", "0"),
        ("RLOCK.RELEASE free alice", "null"),
    ] {
        let said = say(&mut scene.client, line);
        assert!(agrees(&said, answer), "{line}: {said}");
        assert!(scene.heard().is_empty(), "{line}");
    }
}
