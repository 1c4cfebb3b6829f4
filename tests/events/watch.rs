//! Whose view of a key a call invalidates: WATCH and client-side caches notice changes only.

use std::sync::mpsc::{Receiver, channel};

use redis::{PushInfo, PushKind};
use rlock_testkit::prelude::*;

use crate::effects::{CHANGES_NOTHING, GIVEN, LIFE};

/// The locks of these.
const KEYS: &str = "lock free string hash rw rest written shared";

/// What [`CHANGES_NOTHING`] is about.
fn given(client: &mut Connection) {
    for line in GIVEN {
        let said = say(client, line);
        assert!(!said.starts_with('!'), "{line}: {said}");
    }
}

/// Whether a transaction still runs that watched the keys while `happens` did.
#[track_caller]
fn transaction_runs(watcher: &mut Connection, happens: impl FnOnce(&mut Connection)) -> bool {
    watcher.story(&[(&format!("WATCH {KEYS}"), "OK")]);
    happens(watcher);
    watcher.story(&[("MULTI", "OK"), ("PING", "QUEUED")]);
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
    given(other);
    for (line, answer) in CHANGES_NOTHING {
        assert!(transaction_runs(watcher, |_| other.story(&[(line, answer)])), "{line}");
        // The watcher itself may ask as well.
        assert!(transaction_runs(watcher, |watcher| watcher.story(&[(line, answer)])), "{line}");
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
    for (line, answer, _) in LIFE {
        assert!(!transaction_runs(watcher, |_| other.story(&[(line, answer)])), "{line}");
    }
    let take = ("RLOCK.ACQUIRE rest alice 100000", "[1, 100000, 0]");
    other.story(&[("HSET rest mode read", "1")]);
    assert!(!transaction_runs(watcher, |_| other.story(&[(take.0, take.1)])));
    let own = "RLOCK.RENEW rest alice 200000";
    assert!(!transaction_runs(watcher, |watcher| watcher.story(&[(own, "1")])), "the watcher's own");
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
        client.story(&[("CLIENT TRACKING ON", "OK")]);
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
        self.client.story(&[("PING", "PONG")]);
        let pushes = self.pushes.try_iter().filter(|push| push.kind == PushKind::Invalidate);
        pushes.flat_map(|push| push.data.iter().map(text).collect::<Vec<_>>()).collect()
    }
}

#[test]
fn a_denied_call_does_not_invalidate_a_client_side_cache() {
    let (server, other) = &mut TestServer::start_and_connect();
    given(other);
    let mut cache = Cache::new(server);
    cache.read(&format!("EXISTS {KEYS}"));
    for (line, answer) in CHANGES_NOTHING {
        other.story(&[(line, answer)]);
        assert!(cache.invalidated().is_empty(), "{line}");
    }
    // It was listening.
    other.story(&[("RLOCK.RENEW lock alice 200000", "1")]);
    assert_eq!(cache.invalidated(), [r#"["lock"]"#]);
}

#[test]
fn a_change_invalidates_a_client_side_cache() {
    let (server, other) = &mut TestServer::start_and_connect();
    let mut cache = Cache::new(server);
    for read in ["HGETALL lock", "RLOCK.INFO lock"] {
        for (line, answer, _) in LIFE {
            cache.read(read);
            other.story(&[(line, answer)]);
            assert_eq!(cache.invalidated(), [r#"["lock"]"#], "{read}, {line}");
        }
        // The client's next reads are of a new lock.
        other.story(&[("RLOCK.FORCERELEASE lock", "1")]);
        cache.invalidated();
    }
    other.story(&[("HSET rest mode write", "1")]);
    cache.read("HGETALL rest");
    other.story(&[("RLOCK.ACQUIRE rest alice 100000", "[1, 100000, 0]")]);
    assert_eq!(cache.invalidated(), [r#"["rest"]"#]);
}
