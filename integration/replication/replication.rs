//! Replicas: with the module and without it, as long as they are replicas and after that.

use std::thread::sleep;
use std::time::Duration;

use rlock_testkit::commands::{say, state, story};
use rlock_testkit::{Subscriber, TestServer, module_path, wait_for_replicas_in_sync};

use crate::aof::{goes_on, locks, use_locks};

/// How long a message may take to a subscriber of a replica.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn a_replica_without_the_module_has_the_locks() {
    let primary = TestServer::start();
    let replica = TestServer::builder().without_module().start();
    let (here, there) = (&mut primary.connect(), &mut replica.connect());
    // One lock comes with the snapshot, the others as commands.
    assert_eq!(say(here, "RLOCK.ACQUIRE before alice 1000000"), "[1, 1000000, 0]");
    replica.replicate_from(&primary);
    use_locks(here);
    wait_for_replicas_in_sync(&primary, &replica);
    assert_eq!(locks(&replica), locks(&primary));
    assert_eq!(state(there, "before"), state(here, "before"));
    assert_eq!(say(there, "HGETALL again"), r#"["alice", "2"]"#);
    assert_eq!(say(there, "DBSIZE"), "9");
    assert!(say(there, "RLOCK.INFO taken").starts_with("!ERR unknown command"));
    assert_eq!(say(here, "RLOCK.FORCERELEASE before"), "1");
    wait_for_replicas_in_sync(&primary, &replica);
    assert_eq!(say(there, "EXISTS before"), "0");
}

#[test]
fn the_unlock_message_reaches_subscribers_of_a_replica() {
    let primary = TestServer::start();
    let (with, without) = (TestServer::start(), TestServer::builder().without_module().start());
    // A replica of a replica as well.
    let last = TestServer::builder().without_module().start();
    with.replicate_from(&primary);
    without.replicate_from(&primary);
    last.replicate_from(&with);
    let subscribe = |server: &&TestServer| Subscriber::pattern(server, "*");
    let mut subscribers = [&primary, &with, &without, &last].map(|server| subscribe(&server));
    let client = &mut primary.connect();
    let lines = [("lock", "RLOCK.RELEASE lock alice"), ("{a}b", "RLOCK.FORCERELEASE {a}b")];
    for (key, free) in lines {
        assert_eq!(say(client, &format!("RLOCK.ACQUIRE {key} alice 100000")), "[1, 100000, 0]");
        assert_eq!(say(client, &format!("RLOCK.RELEASE {key} bob")), "null");
        assert_eq!(say(client, free), "1");
    }
    for (place, subscriber) in subscribers.iter_mut().enumerate() {
        for channel in ["redisson_lock__channel:{lock}", "redisson_lock__channel:{a}b"] {
            let message = (channel.as_bytes().to_vec(), b"0".to_vec());
            assert_eq!(subscriber.next(SOON), Some(message), "server {place}");
        }
        // Once, and nothing else.
        assert!(subscriber.drain().is_empty(), "server {place}");
    }
}

#[test]
fn info_works_on_a_replica_with_the_module() {
    let (primary, replica) = (TestServer::start(), TestServer::start());
    replica.replicate_from(&primary);
    let (here, there) = (&mut primary.connect(), &mut replica.connect());
    assert_eq!(say(here, "DEBUG SET-ACTIVE-EXPIRE 0"), "OK");
    story(
        here,
        &[
            ("RLOCK.ACQUIRE lock alice 1000000", "[1, 1000000, 0]"),
            ("RLOCK.ACQUIRE lock alice 1000000 HOLDS 2", "[2, ~1000000, 0]"),
            ("RLOCK.ACQUIRE short alice 1", "[1, 1, 0]"),
        ],
    );
    wait_for_replicas_in_sync(&primary, &replica);
    let held = r#"["kind", "mutex", "mode", null, "lease-ms", ~1000000, "token", 0, "holder-count", 1, "waiter-count", 0, "holders", [["owner", "alice", "mode", null, "holds", 2, "lease-ms", ~1000000]], "queue", []]"#;
    let free = r#"["kind", "none", "mode", null, "lease-ms", -2, "token", 0, "holder-count", 0, "waiter-count", 0, "holders", [], "queue", []]"#;
    // A lease ends here as well, whether the primary has deleted the key or not.
    sleep(Duration::from_millis(50));
    story(there, &[("RLOCK.INFO lock", held), ("RLOCK.INFO free", free), ("RLOCK.INFO short", free)]);
    let before = state(there, "lock");
    for line in [
        "RLOCK.ACQUIRE lock alice 1000000",
        "RLOCK.ACQUIRE free bob 1000",
        "RLOCK.RELEASE lock alice",
        "RLOCK.RENEW lock alice 1000",
        "RLOCK.FORCERELEASE lock",
    ] {
        let said = say(there, line);
        assert!(said.starts_with("!READONLY "), "{line}: {said}");
    }
    assert_eq!(state(there, "lock"), before);
}

#[test]
fn a_promoted_replica_serves_the_locks_on() {
    let (primary, replica) = (TestServer::start(), TestServer::start());
    replica.replicate_from(&primary);
    let here = &mut primary.connect();
    use_locks(here);
    wait_for_replicas_in_sync(&primary, &replica);
    drop(primary.kill9());
    let client = &mut replica.connect();
    assert!(say(client, "RLOCK.INFO slots").contains(r#""holder-count", 2"#));
    story(client, &[("REPLICAOF NO ONE", "OK")]);
    goes_on(&replica);
}

#[test]
fn a_module_loaded_on_a_replica_serves_once_that_is_promoted() {
    let (primary, replica) = (TestServer::start(), TestServer::builder().without_module().start());
    replica.replicate_from(&primary);
    assert_eq!(say(&mut primary.connect(), "RLOCK.ACQUIRE lock alice 1000000"), "[1, 1000000, 0]");
    wait_for_replicas_in_sync(&primary, &replica);
    let load = format!("MODULE LOAD {}", module_path().display());
    story(
        &mut replica.connect(),
        &[
            (&load, "OK"),
            ("REPLICAOF NO ONE", "OK"),
            ("RLOCK.ACQUIRE lock bob 1000", "null"),
            ("RLOCK.RELEASE lock alice", "1"),
        ],
    );
}
