//! Hand-off: the command that frees a lock grants it to the first waiter.

use rlock_testkit::prelude::*;

/// A server with an AOF whose `lock` alice holds, what it replicates, and what it publishes.
struct Scene {
    server: TestServer,
    client: Connection,
    stream: ReplicaStream,
    listener: Subscriber,
}

impl Scene {
    fn new() -> Scene {
        let builder = TestServer::builder().with_aof().conf("notify-keyspace-events", "EA");
        let (server, mut client) = builder.start_and_connect();
        let (stream, listener) = (ReplicaStream::open(&server), Subscriber::pattern(&server, "*"));
        client.story(&[ALICE]);
        Scene { server, client, stream, listener }
    }

    /// An owner waits for `lock`, and what was replicated and published before is forgotten.
    #[track_caller]
    fn wait(&mut self, owner: &str, lease: &str) -> Waiting {
        let waiting = Waiting::line(&self.server, &format!("RLOCK.ACQUIRE lock {owner} {lease} BLOCK 60000"));
        self.replicated();
        self.heard();
        waiting
    }

    /// What was replicated since the last look; `@` stands for the end of the lease now.
    #[track_caller]
    fn replicated(&mut self) -> String {
        let expires = say(&mut self.client, "PEXPIRETIME lock");
        shown(&self.stream.so_far(&self.server)).replace(&expires, "@")
    }

    /// Events and messages since the last look, without the marks of the kit.
    #[track_caller]
    fn heard(&mut self) -> Vec<String> {
        self.listener.events()
    }
}

const HANDED_ON: &str = "(DEL lock; HSET lock bob 1; PEXPIREAT lock @)";

const UNLOCKED: &str = "redisson_lock__channel:{lock} 0";

#[test]
fn the_releasing_command_hands_the_lock_on() {
    let mut scene = Scene::new();
    let bob = scene.wait("bob", "50000");
    // Within one transaction nothing but the release itself can have done it.
    let lines = ["RLOCK.RELEASE lock alice", "HGETALL lock", "RLOCK.ACQUIRE lock alice 100000"];
    assert_eq!(transaction(&mut scene.client, &lines), r#"[1, ["bob", "1"], null]"#);
    assert_eq!(bob.answer(), "[1, 50000, 0]");
    assert_eq!(waiters(&mut scene.client, "lock"), "");
    scene.client.story(&[("RLOCK.RELEASE lock alice", "null"), ("RLOCK.RELEASE lock bob", "1")]);
}

#[test]
fn only_the_last_hold_hands_the_lock_on() {
    let mut scene = Scene::new();
    scene.client.story(&[("HSET lock alice 5", "0")]);
    let bob = scene.wait("bob", "50000");
    for line in [
        "RLOCK.RELEASE lock alice",
        "RLOCK.RELEASE lock alice LEASE 90000",
        "RLOCK.RELEASE lock alice HOLDS 2",
        "RLOCK.RELEASE lock alice HOLDS 1",
        "RLOCK.RELEASE lock alice HOLDS 1",
    ] {
        scene.client.story(&[(line, "0")]);
        assert!(bob.still_waits(), "{line}");
    }
    let others = [
        ("RLOCK.RELEASE lock carol", "null"),
        ("RLOCK.RELEASE lock bob ALL", "null"),
        ("RLOCK.FORCERELEASE lock carol", "0"),
        ("RLOCK.FORCERELEASE lock bob", "0"),
        ("RLOCK.RENEW lock bob 1", "0"),
        ("HGETALL lock", r#"["alice", "1"]"#),
    ];
    scene.client.story(&others);
    assert!(bob.still_waits());
    bob.granted_by(&mut scene.client, "RLOCK.RELEASE lock alice HOLDS 0");
}

#[test]
fn release_and_hand_off_are_one_transaction_for_replicas() {
    let mut scene = Scene::new();
    let bob = scene.wait("bob", "200000");
    scene.client.story(&[("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!(scene.replicated(), HANDED_ON);
    let events = ["del", "rlock.release", "hset", "expire", "rlock.handoff"];
    assert_eq!(scene.heard(), events.map(|event| format!("{event} lock")));
    assert_eq!(bob.answer(), "[1, 200000, 0]");
    let expires = say(&mut scene.client, "PEXPIRETIME lock");
    let persisted = shown(&aof_commands(scene.server.dir()));
    assert!(persisted.ends_with(&HANDED_ON.replace('@', &expires)), "{persisted}");
    // With a message: for replicas it belongs to the transaction, and the AOF does not have it.
    let _carol = scene.wait("carol", "50000");
    scene.client.story(&[("RLOCK.RELEASE lock bob", "1")]);
    let effects = "(DEL lock; HSET lock carol 1; PEXPIREAT lock @";
    assert_eq!(scene.replicated(), format!("{effects}; PUBLISH {UNLOCKED})"));
    let expires = say(&mut scene.client, "PEXPIRETIME lock");
    let persisted = shown(&aof_commands(scene.server.dir()));
    assert!(persisted.ends_with(&format!("{effects})").replace('@', &expires)), "{persisted}");
}

#[test]
fn waiting_itself_replicates_nothing_and_raises_no_event() {
    let mut scene = Scene::new();
    scene.client.story(&[("WATCH lock", "OK")]);
    let bob = scene.wait("bob", "50000");
    let again = Waiting::line(&scene.server, "RLOCK.ACQUIRE lock bob 1 BLOCK 60000");
    assert!(bob.answer().starts_with("!UNBLOCKED "));
    scene.client.story(&[("RLOCK.CANCEL lock bob", "1"), ("RLOCK.CANCEL lock bob", "0")]);
    assert_eq!(again.answer(), "null");
    scene.client.story(&[("RLOCK.ACQUIRE lock bob 1 BLOCK 1", "null")]);
    assert_eq!((scene.replicated().as_str(), scene.heard()), ("", Vec::new()));
    assert_eq!(transaction(&mut scene.client, &["PING"]), "[PONG]", "the watched lock has not changed");
}

#[test]
fn the_lease_is_the_waiters_own_and_counts_from_the_grant() {
    let mut scene = Scene::new();
    let bob = scene.wait("bob", "7000");
    bob.waits_on(Duration::from_millis(700));
    let before = server_time(&mut scene.client);
    scene.client.story(&[("RLOCK.RELEASE lock alice", "1")]);
    let after = server_time(&mut scene.client);
    let expires = say(&mut scene.client, "PEXPIRETIME lock").parse::<i64>().unwrap();
    assert!((before + 7_000..=after + 7_000).contains(&expires), "{before} {after} {expires}");
    assert_eq!(bob.answer(), "[1, 7000, 0]");
}

#[test]
fn a_release_in_multi_or_a_script_hands_on() {
    let mut scene = Scene::new();
    let bob = scene.wait("bob", "200000");
    let lines = ["SET a 1", "RLOCK.RELEASE lock alice", "SET b 2"];
    assert_eq!(transaction(&mut scene.client, &lines), "[OK, 1, OK]");
    let effects = "(SET a 1; DEL lock; HSET lock bob 1; PEXPIREAT lock @; SET b 2)";
    assert_eq!(scene.replicated(), effects);
    assert_eq!(bob.answer(), "[1, 200000, 0]");
    let carol = scene.wait("carol", "400000");
    let script = "EVAL redis.call('SET','a',1)return{redis.call('RLOCK.RELEASE',KEYS[1],'bob'),\
        redis.call('HGETALL',KEYS[1])} 1 lock";
    scene.client.story(&[(script, r#"[1, ["carol", "1"]]"#)]);
    assert_eq!(scene.replicated(), "(SET a 1; DEL lock; HSET lock carol 1; PEXPIREAT lock @)");
    assert_eq!(carol.answer(), "[1, 400000, 0]");
}

#[test]
fn one_transaction_may_hand_the_lock_on_many_times() {
    let mut scene = Scene::new();
    let owners = ["bob", "carol", "dave"];
    let waiting = owners.map(|owner| scene.wait(owner, "500000"));
    let lines = ["alice", "bob", "carol", "dave"].map(|owner| format!("RLOCK.RELEASE lock {owner}"));
    let lines = lines.each_ref().map(String::as_str);
    assert_eq!(transaction(&mut scene.client, &lines), "[1, 1, 1, 1]");
    for bob in waiting {
        assert_eq!(bob.answer(), "[1, 500000, 0]", "each had it, if only for a moment");
    }
    scene.client.story(&[("EXISTS lock", "0")]);
}

#[test]
fn a_forced_release_hands_on() {
    let mut scene = Scene::new();
    for (owner, next, line) in
        [("alice", "bob", "RLOCK.FORCERELEASE lock"), ("bob", "carol", "RLOCK.FORCERELEASE lock bob")]
    {
        let waiting = scene.wait(next, "200000");
        scene.client.story(&[(line, "1")]);
        assert_eq!(scene.replicated(), HANDED_ON.replace("bob", next));
        let effects = ["del", "rlock.forcerelease", "hset", "expire", "rlock.handoff"];
        assert_eq!(scene.heard(), effects.map(|event| format!("{event} lock")));
        assert_eq!(waiting.answer(), "[1, 200000, 0]");
        scene.client.story(&[(&format!("RLOCK.RENEW lock {owner} 1000"), "0")]);
    }
}

#[test]
fn a_hand_off_breaks_watch() {
    let mut scene = Scene::new();
    let bob = scene.wait("bob", "200000");
    // Handed on by the timer, where no command of a client does it.
    let mut watching = scene.server.connect();
    scene.client.story(&[("RLOCK.RENEW lock alice 300", "1")]);
    watching.story(&[("WATCH lock", "OK"), ("HGETALL lock", r#"["alice", "1"]"#)]);
    assert_eq!(bob.answer(), "[1, 200000, 0]");
    assert_eq!(transaction(&mut watching, &["PING"]), "null");
    let carol = scene.wait("carol", "200000");
    watching.story(&[("WATCH lock", "OK")]);
    scene.client.story(&[("RLOCK.RELEASE lock bob", "1")]);
    assert_eq!(transaction(&mut watching, &["PING"]), "null");
    assert_eq!(carol.answer(), "[1, 200000, 0]");
}

#[test]
fn redisson_waiters_are_notified_only_if_they_would_miss_the_lease_end() {
    let mut scene = Scene::new();
    // The holder's lease is 100 seconds at first.
    let hand_offs = [
        ("alice", "bob", "101000", "", false),
        ("bob", "carol", "100000", "", true),
        ("carol", "dave", "200000", "", false),
        ("dave", "eve", "1000", "", true),
        // The lease at the time of the release counts.
        ("eve", "frank", "50000", "RLOCK.RENEW lock eve 60000", true),
        ("frank", "grace", "50000", "PEXPIRE lock 30000", false),
        ("grace", "heidi", "8796093022208", "PERSIST lock", true),
    ];
    for (owner, next, lease, before, told) in hand_offs {
        let waiting = scene.wait(next, lease);
        if !before.is_empty() {
            scene.client.story(&[(before, "1")]);
        }
        scene.heard();
        scene.client.story(&[(&format!("RLOCK.RELEASE lock {owner}"), "1")]);
        let heard = scene.heard();
        assert_eq!(heard.iter().any(|line| line == UNLOCKED), told, "{owner} to {next}: {heard:?}");
        assert_eq!(waiting.outcome(SOON).map(|_| ()), Ok(()), "{next}");
    }
    scene.client.story(&[("RLOCK.RELEASE lock heidi", "1")]);
    assert_eq!(scene.heard().last().unwrap(), UNLOCKED, "no native waits");
}

#[test]
fn redisson_waiters_are_notified_of_a_deletion_if_they_would_miss_the_lease_end() {
    let mut scene = Scene::new();
    for (next, lease, told) in [("bob", "200000", false), ("carol", "50000", true)] {
        let waiting = scene.wait(next, lease);
        scene.client.story(&[("DEL lock", "1")]);
        assert_eq!(waiting.answer(), format!("[1, {lease}, 0]"));
        let heard = scene.heard();
        assert_eq!(heard.iter().any(|line| line == UNLOCKED), told, "{next}: {heard:?}");
    }
    // After a shortened lease has ended, Redisson waiters still sleep until the longer lease end that they
    // received before.
    let dave = scene.wait("dave", "1");
    dave.granted_by(&mut scene.client, "PEXPIRE lock 20");
    assert!(scene.heard().contains(&UNLOCKED.to_owned()));
    // A lease that ended as they received it leaves no waiter asleep.
    scene.client.story(&[("FLUSHALL", "OK"), ("RLOCK.ACQUIRE lock alice 500", "[1, 500, 0]")]);
    scene.heard();
    let erin = scene.wait("erin", "1");
    assert_eq!(erin.answer(), "[1, 1, 0]");
    assert!(!scene.heard().contains(&UNLOCKED.to_owned()));
}
