//! Whose view of a key a call invalidates: WATCH and client-side caches notice changes only.

use std::sync::mpsc::{Receiver, channel};

use redis::{Connection, PushInfo, PushKind};
use rlock_testkit::TestServer;
use rlock_testkit::commands::{agrees, say, text};

/// Calls that change nothing, while alice has two holds, and their answers.
const NO_CHANGES: [(&str, &str); 15] = [
    ("RLOCK.ACQUIRE lock bob 100000", "null"),
    ("RLOCK.ACQUIRE lock bob 100000 HOLDS 1", "null"),
    ("RLOCK.ACQUIRE lock alice 100000 HOLDS 4", "null"),
    ("RLOCK.ACQUIRE lock alice 1000 HOLDS 2", "[2, ~100000, 0]"),
    ("RLOCK.ACQUIRE lock alice 1000 HOLDS 1", "[2, ~100000, 0]"),
    ("RLOCK.RELEASE lock bob", "null"),
    ("RLOCK.RELEASE lock bob ALL", "null"),
    ("RLOCK.RELEASE lock alice HOLDS 2", "0"),
    ("RLOCK.RENEW lock bob 100000", "0"),
    ("RLOCK.FORCERELEASE lock bob", "0"),
    ("RLOCK.ACQUIRE free bob 100000 HOLDS 2", "null"),
    ("RLOCK.RELEASE free bob", "null"),
    ("RLOCK.RENEW free bob 100000", "0"),
    ("RLOCK.FORCERELEASE free", "0"),
    ("RLOCK.RENEW hash bob 100000", "!WRONGLOCK "),
];

/// Calls each of which changes the lock, in this order, and their answers.
const CHANGES: [(&str, &str); 12] = [
    ("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]"),
    ("RLOCK.ACQUIRE lock alice 1000", "[2, ~100000, 0]"),
    ("RLOCK.ACQUIRE lock alice 200000 HOLDS 2", "[2, 200000, 0]"),
    ("RLOCK.ACQUIRE lock alice 300000", "[3, 300000, 0]"),
    ("RLOCK.RELEASE lock alice", "0"),
    ("RLOCK.RELEASE lock alice HOLDS 2 LEASE 50000", "0"),
    ("RLOCK.RELEASE lock alice LEASE 60000", "0"),
    ("RLOCK.RENEW lock alice 70000", "1"),
    ("RLOCK.RELEASE lock alice", "1"),
    ("RLOCK.ACQUIRE lock bob 100000", "[1, 100000, 0]"),
    ("RLOCK.FORCERELEASE lock bob", "1"),
    ("RLOCK.ACQUIRE lock bob 100000", "[1, 100000, 0]"),
];

/// Says a line; of an error the prefix is enough.
#[track_caller]
fn say_expecting(client: &mut Connection, line: &str, answer: &str) {
    let said = say(client, line);
    let agreed = agrees(&said, answer) || answer.starts_with('!') && said.starts_with(answer);
    assert!(agreed, "{line}: {said}, and not {answer}");
}

/// Two holds of alice, and somebody's hash.
fn alice_holds(client: &mut Connection) {
    say_expecting(client, "RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]");
    say_expecting(client, "RLOCK.ACQUIRE lock alice 100000", "[2, 100000, 0]");
    say_expecting(client, "HSET hash a b", "1");
}

/// Whether a transaction still runs that watched the keys while `happens` did.
#[track_caller]
fn transaction_runs(watcher: &mut Connection, happens: impl FnOnce(&mut Connection)) -> bool {
    say_expecting(watcher, "WATCH lock free hash rest", "OK");
    happens(watcher);
    say_expecting(watcher, "MULTI", "OK");
    say_expecting(watcher, "PING", "QUEUED");
    match say(watcher, "EXEC").as_str() {
        "[PONG]" => true,
        "null" => false,
        other => panic!("EXEC: {other}"),
    }
}

#[test]
fn a_denied_call_does_not_break_watch() {
    let server = TestServer::start();
    let (watcher, other) = (&mut server.connect(), &mut server.connect());
    alice_holds(other);
    for (line, answer) in NO_CHANGES {
        assert!(transaction_runs(watcher, |_| say_expecting(other, line, answer)), "{line}");
        // The watcher itself may ask as well.
        assert!(transaction_runs(watcher, |watcher| say_expecting(watcher, line, answer)), "{line}");
    }
    for key in ["lock", "free", "hash"] {
        let asks = |_: &mut Connection| drop(say(other, &format!("RLOCK.INFO {key}")));
        assert!(transaction_runs(watcher, asks), "INFO {key}");
    }
}

#[test]
fn a_change_breaks_watch() {
    let server = TestServer::start();
    let (watcher, other) = (&mut server.connect(), &mut server.connect());
    for (line, answer) in CHANGES {
        assert!(!transaction_runs(watcher, |_| say_expecting(other, line, answer)), "{line}");
    }
    let take = ("RLOCK.ACQUIRE rest alice 100000", "[1, 100000, 0]");
    say_expecting(other, "HSET rest mode read", "1");
    assert!(!transaction_runs(watcher, |_| say_expecting(other, take.0, take.1)));
    let own = "RLOCK.RENEW rest alice 200000";
    assert!(!transaction_runs(watcher, |watcher| say_expecting(watcher, own, "1")), "the watcher's own");
}

/// A client that caches what it reads, and the invalidations that the server sends it.
struct Cache {
    client: Connection,
    pushes: Receiver<PushInfo>,
}

impl Cache {
    fn new(server: &TestServer) -> Cache {
        let (sender, pushes) = channel();
        let mut client = server.connect_resp3();
        client.set_push_sender(sender);
        say_expecting(&mut client, "CLIENT TRACKING ON", "OK");
        Cache { client, pushes }
    }

    #[track_caller]
    fn read(&mut self, line: &str) {
        let said = say(&mut self.client, line);
        assert!(!said.starts_with('!'), "{line}: {said}");
    }

    /// The keys that the server has declared invalid since the last look.
    #[track_caller]
    fn invalidated(&mut self) -> Vec<String> {
        // The server sends them before whatever it answers later.
        say_expecting(&mut self.client, "PING", "PONG");
        let pushes = self.pushes.try_iter().filter(|push| push.kind == PushKind::Invalidate);
        pushes.flat_map(|push| push.data.iter().map(text).collect::<Vec<_>>()).collect()
    }
}

#[test]
fn a_denied_call_does_not_invalidate_a_client_side_cache() {
    let server = TestServer::start();
    let other = &mut server.connect();
    alice_holds(other);
    let mut cache = Cache::new(&server);
    for line in ["HGETALL lock", "HGETALL free", "HGETALL hash"] {
        cache.read(line);
    }
    for (line, answer) in NO_CHANGES {
        say_expecting(other, line, answer);
        assert!(cache.invalidated().is_empty(), "{line}");
    }
    // It was listening.
    say_expecting(other, "RLOCK.RENEW lock alice 200000", "1");
    assert_eq!(cache.invalidated(), [r#"["lock"]"#]);
}

#[test]
fn a_change_invalidates_a_client_side_cache() {
    let server = TestServer::start();
    let other = &mut server.connect();
    let mut cache = Cache::new(&server);
    for (line, answer) in CHANGES {
        cache.read("HGETALL lock");
        say_expecting(other, line, answer);
        assert_eq!(cache.invalidated(), [r#"["lock"]"#], "{line}");
    }
    say_expecting(other, "HSET rest mode write", "1");
    cache.read("HGETALL rest");
    say_expecting(other, "RLOCK.ACQUIRE rest alice 100000", "[1, 100000, 0]");
    assert_eq!(cache.invalidated(), [r#"["rest"]"#]);
}

#[test]
fn what_info_tells_can_be_cached() {
    let server = TestServer::start();
    let other = &mut server.connect();
    let mut cache = Cache::new(&server);
    for (line, answer) in CHANGES {
        cache.read("RLOCK.INFO lock");
        say_expecting(other, line, answer);
        assert_eq!(cache.invalidated(), [r#"["lock"]"#], "{line}");
    }
}
