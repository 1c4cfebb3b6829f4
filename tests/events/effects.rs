//! What a change sends to replicas and AOF: its effects in one transaction. What changes nothing
//! sends nothing.

use std::thread::sleep;

use rlock_testkit::prelude::*;

const FREED: &str = "(DEL lock; PUBLISH redisson_lock__channel:{lock} 0)";

/// A lock's life: line, answer, effects; `@` is the time at which the lock expires.
pub(crate) const LIFE: [(&str, &str, &str); 13] = [
    // Taken.
    ("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]", "(HSET lock alice 1; PEXPIREAT lock @)"),
    // Re-entered, with a longer lease and a shorter one.
    ("RLOCK.ACQUIRE lock alice 200000", "[2, 200000, 0]", "(HSET lock alice 2; PEXPIREAT lock @)"),
    ("RLOCK.ACQUIRE lock alice 1000", "[3, ~200000, 0]", "HSET lock alice 3"),
    // Repeated, with a longer lease.
    ("RLOCK.ACQUIRE lock alice 300000 HOLDS 3", "[3, 300000, 0]", "PEXPIREAT lock @"),
    // Released in part: with the same lease, and with another.
    ("RLOCK.RELEASE lock alice", "0", "HSET lock alice 2"),
    ("RLOCK.RELEASE lock alice LEASE 50000", "0", "(HSET lock alice 1; PEXPIREAT lock @)"),
    ("RLOCK.RELEASE lock alice HOLDS 1 LEASE 90000", "0", "PEXPIREAT lock @"),
    // Renewed, for longer and shorter.
    ("RLOCK.RENEW lock alice 500000", "1", "PEXPIREAT lock @"),
    ("RLOCK.RENEW lock alice 60000", "1", "PEXPIREAT lock @"),
    // Freed.
    ("RLOCK.RELEASE lock alice", "1", FREED),
    ("RLOCK.ACQUIRE lock bob 100000 HOLDS 1", "[1, 100000, 0]", "(HSET lock bob 1; PEXPIREAT lock @)"),
    ("RLOCK.FORCERELEASE lock", "1", FREED),
    ("RLOCK.ACQUIRE lock eve 100000", "[1, 100000, 0]", "(HSET lock eve 1; PEXPIREAT lock @)"),
];

/// A server with an AOF, a client of it, and what it replicates.
struct Scene {
    server: TestServer,
    client: Connection,
    stream: ReplicaStream,
}

impl Scene {
    fn new() -> Scene {
        let (server, client) = TestServer::builder().with_aof().start_and_connect();
        let stream = ReplicaStream::open(&server);
        Scene { server, client, stream }
    }

    /// Says lines whose effects are of no interest.
    #[track_caller]
    fn given(&mut self, lines: &[&str]) {
        for line in lines {
            let said = say(&mut self.client, line);
            assert!(!said.starts_with('!'), "{line}: {said}");
        }
        self.replicated();
    }

    /// Says a line, and compares its answer and what it replicates.
    #[track_caller]
    fn step(&mut self, line: &str, answer: &str, effects: &str) {
        let said = say(&mut self.client, line);
        assert!(agrees(&said, answer), "{line}: {said}, and not {answer}");
        let expires = say(&mut self.client, "PEXPIRETIME lock");
        assert_eq!(self.replicated(), effects.replace('@', &expires), "{line}");
    }

    /// What was replicated since the last look.
    #[track_caller]
    fn replicated(&mut self) -> String {
        shown(&self.stream.so_far(&self.server))
    }
}

#[test]
fn each_change_is_replicated_as_its_effect() {
    let mut scene = Scene::new();
    for (line, answer, effects) in LIFE {
        scene.step(line, answer, effects);
    }
    scene.step("RLOCK.FORCERELEASE lock eve", "1", FREED);
    the_aof_has_the_effects_but_no_messages();
}

fn the_aof_has_the_effects_but_no_messages() {
    let mut scene = Scene::new();
    for (line, ..) in LIFE {
        say(&mut scene.client, line);
    }
    let replicated = scene.replicated();
    let persisted = shown(&aof_commands(scene.server.dir()));
    assert_eq!(persisted, replicated.replace("; PUBLISH redisson_lock__channel:{lock} 0", ""));
    assert!(persisted.contains("(DEL lock)"), "{persisted}");
}

#[test]
fn a_hash_with_only_mode_left_is_replaced() {
    let mut scene = Scene::new();
    scene.given(&["HSET lock mode write", "PEXPIRE lock 1000000"]);
    let effects = "(DEL lock; HSET lock alice 1; PEXPIREAT lock @)";
    scene.step("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]", effects);
}

#[test]
fn a_lock_without_an_expiry_gets_one_only_when_told() {
    let mut scene = Scene::new();
    scene.given(&["HSET lock alice 1"]);
    scene.step("RLOCK.ACQUIRE lock alice 100000", "[2, -1, 0]", "HSET lock alice 2");
    scene.step("RLOCK.ACQUIRE lock alice 100000 HOLDS 2", "[2, -1, 0]", "");
    scene.step("RLOCK.RELEASE lock alice", "0", "HSET lock alice 1");
    scene.step("RLOCK.RENEW lock alice 100000", "1", "PEXPIREAT lock @");
    scene.given(&["PERSIST lock"]);
    scene.step("RLOCK.RELEASE lock alice HOLDS 1 LEASE 100000", "0", "PEXPIREAT lock @");
}

#[test]
fn a_lock_whose_lease_has_ended_is_deleted_before_it_is_taken() {
    let mut scene = Scene::new();
    scene.given(&["DEBUG SET-ACTIVE-EXPIRE 0", "RLOCK.ACQUIRE lock alice 20"]);
    sleep(Duration::from_millis(100));
    assert_eq!(say(&mut scene.client, "RLOCK.ACQUIRE lock bob 100000"), "[1, 100000, 0]");
    let expires = say(&mut scene.client, "PEXPIRETIME lock");
    // With which of the two it deletes what has expired is the server's own business.
    let replicated = scene.replicated().replace("UNLINK", "DEL");
    assert_eq!(replicated, format!("(DEL lock; HSET lock bob 1; PEXPIREAT lock {expires})"));
}

#[test]
fn a_transaction_replicates_the_effects_of_its_commands() {
    let mut scene = Scene::new();
    scene.given(&["MULTI", "RLOCK.ACQUIRE lock alice 100000", "RLOCK.ACQUIRE lock alice 1000"]);
    scene.given(&["RLOCK.ACQUIRE lock bob 100000", "RLOCK.RENEW lock bob 1"]);
    let answers = "[[1, 100000, 0], [2, ~100000, 0], null, 0]";
    scene.step("EXEC", answers, "(HSET lock alice 1; PEXPIREAT lock @; HSET lock alice 2)");
    scene.given(&["MULTI", "RLOCK.RELEASE lock alice", "RLOCK.RELEASE lock alice"]);
    let freed = "DEL lock; PUBLISH redisson_lock__channel:{lock} 0";
    scene.step("EXEC", "[0, 1]", &format!("(HSET lock alice 1; {freed})"));
    scene.given(&["MULTI", "RLOCK.RELEASE lock alice", "RLOCK.INFO lock", "RLOCK.RENEW lock mode 1"]);
    let answers = say(&mut scene.client, "EXEC");
    assert!(answers.starts_with("[null, [") && answers.contains("!ERR "), "{answers}");
    assert_eq!(scene.replicated(), "");
}

#[test]
fn a_script_replicates_the_effects_of_its_commands() {
    let mut scene = Scene::new();
    let take = "EVAL return{redis.call('RLOCK.ACQUIRE',KEYS[1],ARGV[1],'100000'),\
        redis.call('RLOCK.ACQUIRE',KEYS[1],'bob','100000')==false} 1 lock alice";
    scene.step(take, "[[1, 100000, 0], 1]", "(HSET lock alice 1; PEXPIREAT lock @)");
    let free = "EVAL return{redis.call('RLOCK.RELEASE',KEYS[1],ARGV[1])} 1 lock";
    scene.step(&format!("{free} bob"), "[null]", "");
    scene.step(&format!("{free} alice"), "[1]", FREED);
}

#[test]
fn any_bytes_are_replicated_as_they_are() {
    let mut scene = Scene::new();
    let (key, owner): (&[u8], &[u8]) = (b"\0l{\r\n \xff", b"\xfe\0\r\n '\"");
    assert_eq!(say_words(&mut scene.client, &[b"RLOCK.ACQUIRE", key, owner, b"100000"]), "[1, 100000, 0]");
    let expires = say_words(&mut scene.client, &[b"PEXPIRETIME", key]).into_bytes();
    assert_eq!(say_words(&mut scene.client, &[b"RLOCK.RELEASE", key, owner]), "1");
    let channel = [b"redisson_lock__channel:", key].concat();
    let expected: [&[&[u8]]; 8] = [
        &[b"MULTI"],
        &[b"HSET", key, owner, b"1"],
        &[b"PEXPIREAT", key, &expires],
        &[b"EXEC"],
        &[b"MULTI"],
        &[b"DEL", key],
        &[b"PUBLISH", &channel, b"0"],
        &[b"EXEC"],
    ];
    assert_eq!(scene.stream.so_far(&scene.server), expected);
}

#[test]
fn effects_go_to_the_database_that_the_client_selected() {
    let (server, client) = &mut TestServer::start_and_connect();
    let mut stream = ReplicaStream::open(server).with_select();
    say(client, "SELECT 3");
    say(client, "RLOCK.ACQUIRE lock alice 100000");
    say(client, "RLOCK.RELEASE lock alice");
    let mut seen = stream.so_far(server);
    // Which of them opens the transaction is the server's own business.
    seen.retain(|command| ![&b"MULTI"[..], b"EXEC", b"PEXPIREAT"].contains(&command[0].as_slice()));
    let effects = "SELECT 3; HSET lock alice 1; DEL lock; PUBLISH redisson_lock__channel:{lock} 0";
    assert!(shown(&seen).starts_with(effects), "{}", shown(&seen));
    assert_eq!(say(&mut server.connect(), "EXISTS lock"), "0");
}

/// The life of a read/write lock: line, answer, effects; `@` is the time at which the lock expires.
const SHARED_LIFE: [(&str, &str, &str); 14] = [
    (
        "RLOCK.ACQUIRE lock a 100000 READ",
        "[1, 100000, 0]",
        "(HSET lock mode read a 1; PEXPIREAT lock @; SET {lock}:a:rwlock_timeout:1 1 PXAT @)",
    ),
    (
        "RLOCK.ACQUIRE lock b 200000 READ",
        "[1, 200000, 0]",
        "(HSET lock b 1; PEXPIREAT lock @; SET {lock}:b:rwlock_timeout:1 1 PXAT @)",
    ),
    (
        "RLOCK.ACQUIRE lock b 100 READ",
        "[2, ~200000, 0]",
        "(HSET lock b 2; SET {lock}:b:rwlock_timeout:2 1 PXAT @)",
    ),
    (
        "RLOCK.RELEASE lock b",
        "0",
        "(HSET lock b 1; SET {lock}:b:rwlock_timeout:1 1 PXAT @; DEL {lock}:b:rwlock_timeout:2)",
    ),
    ("RLOCK.RENEW lock b 300000", "1", "(PEXPIREAT lock @; SET {lock}:b:rwlock_timeout:1 1 PXAT @)"),
    // The key ends with the leases that remain: waiting Redisson clients must not sleep longer.
    ("RLOCK.RELEASE lock b", "1", "(HDEL lock b; PEXPIREAT lock @; DEL {lock}:b:rwlock_timeout:1)"),
    (
        "RLOCK.RELEASE lock a",
        "1",
        "(DEL lock; DEL {lock}:a:rwlock_timeout:1; PUBLISH redisson_rwlock:{lock} 0)",
    ),
    (
        "RLOCK.ACQUIRE lock w 100000 WRITE",
        "[1, 100000, 0]",
        "(HSET lock mode write w:write 1; PEXPIREAT lock @)",
    ),
    ("RLOCK.ACQUIRE lock w 200000 WRITE", "[2, 200000, 0]", "(HSET lock w:write 2; PEXPIREAT lock @)"),
    (
        "RLOCK.ACQUIRE lock w 300000 READ",
        "[1, 300000, 0]",
        "(HSET lock w 1; PEXPIREAT lock @; SET {lock}:w:rwlock_timeout:1 1 PXAT @)",
    ),
    ("RLOCK.RELEASE lock w WRITE", "0", "HSET lock w:write 1"),
    (
        "RLOCK.RELEASE lock w WRITE",
        "1",
        "(HSET lock mode read; HDEL lock w:write; PUBLISH redisson_rwlock:{lock} 0; PUBLISH redisson_rwlock:{lock} 1)",
    ),
    (
        "RLOCK.FORCERELEASE lock",
        "1",
        "(DEL lock; PUBLISH redisson_rwlock:{lock} 0; PUBLISH redisson_rwlock:{lock} 1)",
    ),
    (
        "RLOCK.ACQUIRE lock w 100000 WRITE",
        "[1, 100000, 0]",
        "(HSET lock mode write w:write 1; PEXPIREAT lock @)",
    ),
];

#[test]
fn each_change_of_a_read_write_lock_is_replicated_as_its_effect() {
    let mut scene = Scene::new();
    for (line, answer, effects) in SHARED_LIFE {
        scene.step(line, answer, effects);
    }
    let freed = "(DEL lock; PUBLISH redisson_rwlock:{lock} 0; PUBLISH redisson_rwlock:{lock} 1)";
    scene.step("RLOCK.RELEASE lock w", "1", freed);
}

/// A fair lock's queue is written by the server's own commands, each with the change that it belongs to.
#[test]
fn each_change_of_permits_is_replicated_as_its_effect() {
    let mut scene = Scene::new();
    let held = "(ZADD lock @ alice; PEXPIREAT lock @)";
    scene.step("RLOCK.ACQUIRE lock alice 100000 PERMITS 3", "[1, 100000, 0]", held);
    scene.step("RLOCK.ACQUIRE lock alice 200000 PERMITS 3", "[1, 200000, 0]", held);
    scene.step("RLOCK.ACQUIRE lock alice 1000 PERMITS 3", "[1, ~200000, 0]", "");
    scene.step(
        "RLOCK.ACQUIRE lock bob 300000 PERMITS 3",
        "[1, 300000, 0]",
        "(ZADD lock @ bob; PEXPIREAT lock @)",
    );
    scene.step("RLOCK.RENEW lock alice 400000", "1", held);
    scene.step("RLOCK.ACQUIRE lock carol 500000 PERMITS 2", "null", "");
    // The last one goes: the key ends with the one before.
    scene.step("RLOCK.RELEASE lock alice", "1", "(ZREM lock alice; PEXPIREAT lock @)");
    // An ended permit is removed by the next change.
    scene.given(&["RLOCK.ACQUIRE lock carol 1 PERMITS 3"]);
    sleep(Duration::from_millis(5));
    scene.step("RLOCK.RENEW lock bob 600000", "1", "(ZREM lock carol; ZADD lock @ bob; PEXPIREAT lock @)");
    scene.step("RLOCK.RELEASE lock bob", "1", "DEL lock");
}

#[test]
fn the_fair_queue_is_replicated_with_what_it_belongs_to() {
    let mut scene = Scene::new();
    let (list, deadlines) = ("redisson_lock_queue:{lock}", "redisson_lock_timeout:{lock}");
    scene.step("RLOCK.ACQUIRE lock a 100000 FAIR", "[1, 100000, 0]", "(HSET lock a 1; PEXPIREAT lock @)");
    assert_eq!(say(&mut scene.client, "RLOCK.ACQUIRE lock b 50000 FAIR ENQUEUE 0 grants"), "[0, 0, 0]");
    let deadline = say(&mut scene.client, &format!("ZSCORE {deadlines} b")).replace('"', "");
    assert_eq!(scene.replicated(), format!("(RPUSH {list} b; ZADD {deadlines} {deadline} b)"));
    let _grants = Subscriber::channel(&scene.server, "grants");
    let handed_on = format!(
        "(DEL lock; HSET lock b 1; PEXPIREAT lock @; LPOP {list} 1; ZREM {deadlines} b; \
        PUBLISH redisson_lock__channel:{{lock}} 0)"
    );
    scene.step("RLOCK.RELEASE lock a", "1", &handed_on);
}

#[test]
fn what_changes_nothing_replicates_nothing() {
    let mut scene = Scene::new();
    scene.given(&GIVEN);
    let persisted = aof_commands(scene.server.dir());
    let unsaved = |scene: &Scene| scene.server.info("persistence")["rdb_changes_since_last_save"].clone();
    let before = unsaved(&scene);
    for (line, answer) in CHANGES_NOTHING {
        let said = say(&mut scene.client, line);
        assert!(agrees(&said, answer), "{line}: {said}, and not {answer}");
        assert_eq!(scene.replicated(), "", "{line}");
    }
    assert_eq!(aof_commands(scene.server.dir()), persisted);
    assert_eq!(unsaved(&scene), before);
}

/// Two holds of alice's, and keys of every kind beside that lock.
pub(crate) const GIVEN: [&str; 8] = [
    "RLOCK.ACQUIRE lock alice 100000",
    "RLOCK.ACQUIRE lock alice 100000 HOLDS 2",
    "SET string x",
    "HSET hash a b",
    "HSET rw mode read a 1 a:w 1",
    "HSET rest mode read",
    "RLOCK.ACQUIRE written a 100000 WRITE",
    "RLOCK.ACQUIRE shared a 100000 READ",
];

/// Calls that are denied, find their result already true, or are errors.
pub(crate) const CHANGES_NOTHING: [(&str, &str); 33] = [
    ("RLOCK.ACQUIRE lock bob 100000", "null"),
    ("RLOCK.ACQUIRE lock bob 100000 HOLDS 1", "null"),
    ("RLOCK.ACQUIRE lock alice 100000 HOLDS 4", "null"),
    ("RLOCK.ACQUIRE lock alice 1000 HOLDS 2", "[2, ~100000, 0]"),
    ("RLOCK.ACQUIRE lock alice 1000 HOLDS 1", "[2, ~100000, 0]"),
    ("RLOCK.ACQUIRE free bob 100000 HOLDS 2", "null"),
    ("RLOCK.ACQUIRE rest bob 100000 HOLDS 2", "null"),
    ("RLOCK.RELEASE lock bob", "null"),
    ("RLOCK.RELEASE lock bob ALL LEASE 1", "null"),
    ("RLOCK.RELEASE free bob", "null"),
    ("RLOCK.RELEASE rest bob", "null"),
    ("RLOCK.RELEASE lock alice HOLDS 2", "0"),
    ("RLOCK.RELEASE lock alice HOLDS 7", "0"),
    ("RLOCK.RENEW lock bob 1", "0"),
    ("RLOCK.RENEW free bob 1", "0"),
    ("RLOCK.FORCERELEASE lock bob", "0"),
    ("RLOCK.FORCERELEASE free", "0"),
    ("RLOCK.FORCERELEASE rest", "0"),
    ("RLOCK.INFO lock LIMIT x", "!ERR …"),
    ("RLOCK.ACQUIRE lock alice 0", "!ERR …"),
    ("RLOCK.ACQUIRE lock mode 100000", "!ERR …"),
    ("RLOCK.RELEASE lock alice ALL HOLDS 1", "!ERR …"),
    ("RLOCK.RENEW lock alice", "!ERR …"),
    ("RLOCK.ACQUIRE string alice 100000", "!WRONGTYPE …"),
    ("RLOCK.RELEASE hash alice", "!WRONGLOCK …"),
    ("RLOCK.ACQUIRE rw b 100000", "!WRONGLOCK …"),
    ("RLOCK.RENEW rw a 100000", "0"),
    ("RLOCK.ACQUIRE written b 100000 READ", "null"),
    ("RLOCK.ACQUIRE written b 100000 WRITE", "null"),
    ("RLOCK.RELEASE written b READ", "null"),
    ("RLOCK.ACQUIRE shared a 1000 READ HOLDS 1", "[1, ~100000, 0]"),
    ("RLOCK.RELEASE shared a READ HOLDS 1", "0"),
    ("RLOCK.ACQUIRE shared a 100000 WRITE", "null"),
];

/// Of two renewals in one millisecond the second changes nothing. Now and then a millisecond ends between the two.
#[test]
fn a_renewal_to_the_same_point_in_time_replicates_nothing() {
    let mut scene = Scene::new();
    scene.given(&["RLOCK.ACQUIRE lock alice 1000"]);
    let twice = "EVAL redis.call('RLOCK.RENEW',KEYS[1],'alice','100000')\
        ;return{redis.call('RLOCK.RENEW',KEYS[1],'alice','100000')} 1 lock";
    let replicated = (0..100).map(|_| {
        assert_eq!(say(&mut scene.client, twice), "[1]");
        let expires = say(&mut scene.client, "PEXPIRETIME lock");
        scene.replicated().replace(&expires, "@")
    });
    let seen: Vec<String> = replicated.take(100).collect();
    assert!(seen.iter().any(|effects| effects == "PEXPIREAT lock @"), "{seen:?}");
}
