//! Every error says what to do next, and whatever a server refuses is one of them.

mod common;

use std::collections::BTreeSet;
use std::time::Duration;

use common::{connect, connect_with, eventually, run, url, waiters, within};
use rlock_client::{Client, Durability, Error, Lost, MultiLock, RedLock};
use rlock_testkit::TestServer;

/// What an error's text must say to do, and what its advice. Without a default: a new variant does not compile until it has
/// both.
fn advice(error: &Error) -> (usize, &'static [&'static str], &'static [&'static str]) {
    match error {
        Error::Timeout { .. } => (0, &["wait longer", "RLOCK.INFO lock"], &[]),
        Error::Lost { .. } => (1, &["stop the work and check its results"], &[]),
        Error::NotHeld { .. } => {
            (2, &["check the results of the work"], &["the lease ended", "forced release"])
        }
        Error::OutcomeUnknown { .. } => (3, &["it is free now or at its lease end"], &[]),
        Error::Durability { .. } => (4, &["ask for fewer", "allow more time"], &["INFO replication"]),
        Error::ModuleNotLoaded { .. } => {
            (5, &["loadmodule /path/to/librlock.so"], &["restart", "MODULE LOAD"])
        }
        Error::Permission { .. } => {
            let grants = &["+@rlock", "+subscribe", "&rlock:grants:*", "+cluster|slots", "Waiting::Polling"];
            (6, &["check the user's password and permissions"], grants)
        }
        Error::QueueFull { .. } => (
            7,
            &["try again later", "raise the server's limit"],
            &["rlock.max-waiters-per-key", "Waiting::Polling"],
        ),
        Error::NotALock { .. } => (8, &["choose another name"], &[]),
        Error::Refused { .. } => (9, &["fix the cause", "try again"], &[]),
        Error::Transport { .. } => (10, &["check its address, its state and the network"], &[]),
        Error::Tls { .. } => (
            11,
            &["check its port and the certificates"],
            &["TLS port", "root_certificates", "client_certificate"],
        ),
        // What is wrong differs, and so does what would be right: see the test of bad settings.
        Error::Invalid { .. } => (12, &[], &[]),
        Error::ShutDown => (13, &["create a new one"], &[]),
        Error::Unflushed { .. } => {
            (14, &["drop their guards earlier, or allow more time"], &["free at their lease ends"])
        }
    }
}

/// How many variants there are.
const VARIANTS: usize = 15;

fn one_of_each() -> Vec<Error> {
    let (lock, message) = (|| "lock".to_string(), || "what was said".to_string());
    let waited = Duration::from_millis(1_500);
    vec![
        Error::Timeout { lock: lock(), waited },
        Error::Lost { lock: lock(), why: Lost::Taken },
        Error::NotHeld { lock: lock() },
        Error::OutcomeUnknown { lock: lock(), cause: message() },
        Error::Durability { lock: lock(), wanted: 2, reached: 1 },
        Error::ModuleNotLoaded { message: message() },
        Error::Permission { message: message() },
        Error::QueueFull { lock: lock(), message: message() },
        Error::NotALock { lock: lock(), message: message() },
        Error::Refused { message: message() },
        Error::Transport { message: message() },
        Error::Tls { message: message() },
        Error::Invalid { message: message() },
        Error::ShutDown,
        Error::Unflushed { locks: 3 },
    ]
}

#[test]
fn every_message_tells_what_to_do_and_what_about() {
    let all = one_of_each();
    let numbers: BTreeSet<usize> = all.iter().map(|error| advice(error).0).collect();
    assert_eq!(numbers, (0..VARIANTS).collect(), "an example of each");
    for error in all {
        let (message, (_, words, more)) = (error.to_string(), advice(&error));
        for word in words {
            assert!(message.contains(word), "{error:?} does not say {word:?}: {message}");
        }
        assert!(message.len() < 140, "a short text: {message}");
        assert_eq!(error.advice().is_some(), !more.is_empty(), "{error:?}");
        let advice = error.advice().unwrap_or_default();
        for word in more {
            assert!(advice.contains(word), "{error:?} does not advise {word:?}: {advice}");
        }
        // What it knows it says: about which lock, and what the server or the driver said.
        let known = format!("{error:?}");
        for fact in ["lock", "what was said"] {
            assert!(!known.contains(&format!("\"{fact}\"")) || message.contains(fact), "{message}");
        }
    }
    let reasons = [Lost::Expired, Lost::Taken, Lost::Unreachable, Lost::ShutDown];
    let told: BTreeSet<String> = reasons.iter().map(Lost::to_string).collect();
    assert_eq!(told.len(), reasons.len(), "{told:?}");
}

#[tokio::test]
async fn bad_settings_are_told_with_what_would_be_right() {
    let server = TestServer::start();
    let client = connect(&server).await;
    let invalid = |error: Error, words: &[&str]| {
        let Error::Invalid { message } = &error else { panic!("{error:?}") };
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    };
    for lease in [Duration::ZERO, Duration::MAX] {
        invalid(client.lock("lock").lease(lease).lock().await.unwrap_err(), &["from 1 ms to"]);
    }
    invalid(MultiLock::new([]).unwrap_err(), &["at least one lock"]);
    invalid(RedLock::new([], "lock").unwrap_err(), &["at least one server", "five"]);
    let twice = [connect(&server).await, client.clone()];
    invalid(RedLock::new(&twice, "lock").unwrap_err(), &["twice", "name each server once"]);
    // The second panicked where a request was given the time that was left of a wait.
    for response in [Duration::ZERO, Duration::from_micros(999)] {
        let builder = Client::builder().response_timeout(response);
        invalid(builder.connect(&url(&server)).await.unwrap_err(), &["1 ms or more"]);
    }
    for url in ["localhost", "http://localhost", "redis+sentinel://localhost"] {
        invalid(Client::connect(url).await.unwrap_err(), &["write redis://"]);
    }
    let cluster = url(&server).replace("redis://", "redis+cluster://");
    invalid(Client::connect(&cluster).await.unwrap_err(), &["connect with redis://"]);
}

/// What the server refuses comes as the variant that tells what to do about it, with the server's own words; what
/// no variant is made for is `Refused`.
#[tokio::test(flavor = "multi_thread")]
async fn each_refusal_of_a_server_has_a_variant() {
    let server = TestServer::start();
    let (client, mut raw) = (connect(&server).await, server.connect());
    let refusal = async |name: &str, code: &str| {
        let error = within("a refusal", client.lock(name).lock()).await.unwrap_err();
        let (message, (_, words, _)) = (error.to_string(), advice(&error));
        assert!(message.contains(code) && words.iter().all(|word| message.contains(word)), "{message}");
        error
    };
    run::<()>(&mut raw, "SET text value");
    assert!(matches!(refusal("text", "WRONGTYPE").await, Error::NotALock { .. }));
    run::<()>(&mut raw, "HSET hash field value");
    assert!(matches!(refusal("hash", "WRONGLOCK").await, Error::NotALock { .. }));
    run::<()>(&mut raw, "CONFIG SET rlock.max-waiters 0");
    let guard = client.lock("lock").lock().await.unwrap();
    assert!(matches!(refusal("lock", "QUEUEFULL").await, Error::QueueFull { .. }));
    guard.unlock().await.unwrap();
    run::<()>(&mut raw, "CONFIG SET rlock.accept no");
    // Who has time to wait waits for the end of that.
    let error = client.lock("lock").try_lock().await.unwrap_err();
    assert!(matches!(&error, Error::Refused { message } if message.contains("rlock.accept")), "{error}");
    run::<()>(&mut raw, "CONFIG SET rlock.accept yes");
    run::<()>(&mut raw, "CONFIG SET maxmemory 1");
    assert!(matches!(refusal("lock", "OOM").await, Error::Refused { .. }));
    run::<()>(&mut raw, "CONFIG SET maxmemory 0");
    run::<()>(&mut raw, "CONFIG SET min-replicas-to-write 1");
    assert!(matches!(refusal("lock", "NOREPLICAS").await, Error::Refused { .. }));
    run::<()>(&mut raw, "CONFIG SET min-replicas-to-write 0");
    run::<()>(&mut raw, "ACL SETUSER default -rlock.acquire");
    assert!(matches!(refusal("lock", "NOPERM").await, Error::Permission { .. }));
    run::<()>(&mut raw, "ACL SETUSER default +@all");
    let replica = TestServer::start();
    replica.replicate_from(&server);
    let reader = connect(&replica).await;
    let error = within("a refusal", reader.lock("lock").lock()).await.unwrap_err();
    assert!(matches!(&error, Error::Refused { message } if message.contains("READONLY")), "{error}");
    let few = connect_with(&server, Client::builder().durability(Durability::Replicas(9))).await;
    let error = within("too few replicas", few.lock("lock").lock()).await.unwrap_err();
    assert!(matches!(error, Error::Durability { .. }), "{error}");
    let bare = TestServer::builder().without_module().start();
    let error = Client::connect(&url(&bare)).await.unwrap_err();
    assert!(matches!(error, Error::ModuleNotLoaded { .. }), "{error}");
}

/// Whoever waited without a limit heard of nothing, though no wait mends a wrong password.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_is_not_let_in_is_told_and_does_not_wait() {
    let server = TestServer::start();
    let mut raw = server.connect();
    run::<()>(&mut raw, "ACL SETUSER app on >secret ~* &* +@all");
    let with = |login: &str| url(&server).replace("://", &format!("://{login}@"));
    let client = Client::builder().connect_lazy(&with("app:wrong")).unwrap();
    let error = within("a refusal", client.lock("lock").lock()).await.unwrap_err();
    assert!(matches!(&error, Error::Permission { message } if message.contains("WRONGPASS")), "{error}");
    // Also when it was let in before.
    let client = within("a client", Client::connect(&with("app:secret"))).await.unwrap();
    run::<Vec<u64>>(&mut raw, "RLOCK.ACQUIRE lock somebody 60000");
    let waiting = tokio::spawn(client.lock("lock").lock());
    eventually("a waiter", || (waiters(&server) == 1).then_some(())).await;
    run::<()>(&mut raw, "ACL SETUSER app resetpass >other");
    run::<u64>(&mut raw, "CLIENT KILL USER app");
    let error = within("a refusal", waiting).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Permission { .. }), "{error}");
}
