//! A server with Redisson clients that gets the module, at run time or by a restart: the locks that are held and
//! awaited at that time do not change, and both kinds of clients keep using them.

use redis::Connection;
use rlock_testkit::commands::{SOON, server_time, story};
use rlock_testkit::held::acquisition;
use rlock_testkit::redisson;
use rlock_testkit::redisson::{
    FAIR_GIVES_BACK, FAIR_TAKES, FENCED_TAKES, GIVES_BACK, READ, RENEW, TAKES, UNREAD, UNWRITE, WRITE,
};
use rlock_testkit::waiting::Waiting;
use rlock_testkit::{ServerBuilder, Subscriber, TestServer, module_path};

use crate::everything;

const LEASE: i64 = 1_000_000;
const BUDGET: i64 = 300_000;

/// Gives a server the module.
type Way = fn(TestServer) -> TestServer;

/// Ways to get the module, with all data that the server has stored.
const WAYS: [(&str, Way); 3] = [
    ("MODULE LOAD", |server| {
        let load = format!("MODULE LOAD {}", module_path().display());
        story(&mut server.connect(), &[(&load, "OK")]);
        server
    }),
    ("a snapshot", |server| {
        story(&mut server.connect(), &[("SAVE", "OK")]);
        TestServer::builder().dir(server.kill9()).start()
    }),
    ("an append only file", |server| with_aof().dir(server.kill9()).start()),
];

fn with_aof() -> ServerBuilder {
    TestServer::builder().conf("appendonly", "yes")
}

/// Acquires locks by Redisson's scripts on a server without the module, and loads the module in one of these ways: no
/// stored data changes by that.
#[track_caller]
fn loaded(way: usize, take: impl FnOnce(&mut Connection)) -> TestServer {
    let (name, way) = WAYS[way];
    let builder = if name == "an append only file" { with_aof() } else { TestServer::builder() };
    let server = builder.without_module().start();
    take(&mut server.connect());
    // A server that starts lowers the deadlines in a fair queue: it cannot know which waiters are dead.
    let everything = |server: &TestServer| everything(server, "ZCARD");
    let before = everything(&server);
    assert!(!before.is_empty());
    let server = way(server);
    assert_eq!(everything(&server), before, "{name}");
    server
}

#[track_caller]
fn is_called(waiter: &mut Subscriber, message: &str) {
    assert_eq!(waiter.next(SOON).expect("a message").1, message.as_bytes());
}

#[track_caller]
fn wait(server: &TestServer, key: &str, owner: &str, words: &str) -> Waiting {
    Waiting::line(server, &format!("RLOCK.ACQUIRE {key} {owner} 50000 {words} BLOCK 0"))
}

#[test]
fn plain_locks_continue() {
    for way in 0..WAYS.len() {
        let server = loaded(way, |client| {
            for _ in 0..2 {
                assert_eq!(redisson::run(client, TAKES, "lock", "j:1", LEASE), "null");
            }
        });
        let client = &mut server.connect();
        // Redisson's calls work as before, and native calls do the same to its hold.
        assert_eq!(redisson::run(client, RENEW, "lock", "j:1", LEASE), "1");
        story(client, &[("RLOCK.ACQUIRE lock n:1 50000", "null"), ("RLOCK.RENEW lock j:1 900000", "1")]);
        let mut waiter = Subscriber::channel(&server, "redisson_lock__channel:{lock}");
        let native = wait(&server, "lock", "n:1", "");
        assert_eq!(redisson::run(client, GIVES_BACK, "lock", "j:1", LEASE), "0");
        assert!(native.still_waits());
        assert_eq!(redisson::run(client, GIVES_BACK, "lock", "j:1", LEASE), "1");
        is_called(&mut waiter, "0");
        assert_eq!(native.answer(), "[1, 50000, 0]");
        assert_ne!(redisson::run(client, TAKES, "lock", "j:2", LEASE), "null");
        story(client, &[("RLOCK.RELEASE lock n:1", "1")]);
        is_called(&mut waiter, "0");
        assert_eq!(redisson::run(client, TAKES, "lock", "j:2", LEASE), "null");
        story(client, &[("RLOCK.RELEASE lock j:2", "1"), ("DBSIZE", "0")]);
    }
}

/// A subscriber need not subscribe again when the module is loaded at run time.
#[test]
fn a_redisson_waiter_is_called_after_the_module_is_loaded() {
    let server = TestServer::builder().without_module().start();
    let client = &mut server.connect();
    assert_eq!(redisson::run(client, TAKES, "lock", "j:1", LEASE), "null");
    let mut waiter = Subscriber::channel(&server, "redisson_lock__channel:{lock}");
    let server = WAYS[0].1(server);
    story(client, &[("RLOCK.RELEASE lock j:1", "1")]);
    is_called(&mut waiter, "0");
    assert_eq!(redisson::run(client, TAKES, "lock", "j:2", LEASE), "null");
    // The end of a lease that was given before the load wakes native waiters, too.
    story(client, &[("PEXPIRE lock 300", "1")]);
    assert_eq!(wait(&server, "lock", "n:1", "").answer(), "[1, 50000, 0]");
}

#[test]
fn readers_and_writers_continue() {
    for way in 0..WAYS.len() {
        let server = loaded(way, |client| {
            for owner in ["j:1", "j:1", "j:2"] {
                assert_eq!(redisson::run(client, READ, "page", owner, LEASE), "null");
            }
            assert_eq!(redisson::run(client, WRITE, "book", "j:1", LEASE), "null");
            assert_eq!(redisson::run(client, READ, "book", "j:1", LEASE), "null");
        });
        let client = &mut server.connect();
        // Readers share, and the waiting writer comes after the last of them, before the reader behind it.
        story(client, &[("RLOCK.ACQUIRE page n:1 50000 READ", "[1, 50000, 0]")]);
        let writer = wait(&server, "page", "n:2", "WRITE");
        let reader = wait(&server, "page", "n:3", "READ");
        story(client, &[("RLOCK.RELEASE page n:1", "1"), ("RLOCK.RELEASE page j:2", "1")]);
        assert_eq!(redisson::run(client, UNREAD, "page", "j:1", LEASE), "0");
        assert!(writer.still_waits());
        assert_eq!(redisson::run(client, UNREAD, "page", "j:1", LEASE), "1");
        assert_eq!(writer.answer(), "[1, 50000, 0]");
        assert!(reader.still_waits());
        let mut waiter = Subscriber::channel(&server, "redisson_rwlock:{page}");
        story(client, &[("RLOCK.RELEASE page n:2", "1")]);
        assert_eq!(reader.answer(), "[1, 50000, 0]");
        is_called(&mut waiter, "0");
        assert_eq!(redisson::run(client, READ, "page", "j:1", LEASE), "null");
        story(client, &[("RLOCK.RELEASE page n:3", "1"), ("RLOCK.RELEASE page j:1", "1")]);
        // The writer stays as a reader, and other readers join.
        let reader = wait(&server, "book", "n:1", "READ");
        assert_eq!(redisson::run(client, UNWRITE, "book", "j:1", LEASE), "1");
        assert_eq!(reader.answer(), "[1, 50000, 0]");
        story(client, &[("RLOCK.RELEASE book n:1", "1"), ("RLOCK.RELEASE book j:1", "1"), ("DBSIZE", "0")]);
    }
}

/// Redisson waiters from before the load come before native ones, and one that has died is passed.
#[test]
fn fair_locks_continue() {
    for way in 0..WAYS.len() {
        let fair = |client: &mut Connection, script: &str, owner: &str| {
            let now = server_time(client);
            redisson::run_fair(client, script, "lock", owner, BUDGET, now)
        };
        let server = loaded(way, |client| {
            assert_eq!(fair(client, FAIR_TAKES, "j:1"), "null");
            assert_ne!(fair(client, FAIR_TAKES, "j:2"), "null");
            assert_ne!(fair(client, FAIR_TAKES, "j:3"), "null");
        });
        let client = &mut server.connect();
        story(client, &[("CONFIG SET rlock.fair-turn-ms 20000", "OK")]);
        let native = wait(&server, "lock", "n:1", "FAIR");
        story(client, &[("LRANGE redisson_lock_queue:{lock} 0 -1", r#"["j:2", "j:3", "n:1"]"#)]);
        let mut second = Subscriber::channel(&server, "redisson_lock__channel:{lock}:j:2");
        assert_eq!(fair(client, FAIR_GIVES_BACK, "j:1"), "1");
        is_called(&mut second, "0");
        assert_eq!(fair(client, FAIR_TAKES, "j:2"), "null");
        assert!(native.still_waits());
        story(client, &[("CONFIG SET rlock.fair-turn-ms 300", "OK")]);
        assert_eq!(fair(client, FAIR_GIVES_BACK, "j:2"), "1");
        assert_eq!(native.answer(), "[1, 50000, 0]");
        assert_ne!(fair(client, FAIR_TAKES, "j:4"), "null");
        story(client, &[("RLOCK.RELEASE lock n:1", "1")]);
        assert_eq!(fair(client, FAIR_TAKES, "j:4"), "null");
        story(client, &[("RLOCK.RELEASE lock j:4", "1"), ("DBSIZE", "0")]);
    }
}

#[test]
fn fenced_locks_continue() {
    for way in 0..WAYS.len() {
        let server = loaded(way, |client| {
            assert_eq!(redisson::run(client, FENCED_TAKES, "lock", "j:1", LEASE), "1");
            assert_eq!(redisson::run(client, FENCED_TAKES, "lock", "j:1", LEASE), "2");
        });
        let client = &mut server.connect();
        let native = wait(&server, "lock", "n:1", "FENCED");
        story(client, &[("RLOCK.RELEASE lock j:1 ALL", "1")]);
        let answer = native.answer();
        let [holds, lease, token] = acquisition(&answer);
        assert!((holds, lease) == (1, 50_000) && token > 2, "{answer}");
        assert_eq!(redisson::run(client, GIVES_BACK, "lock", "n:1", LEASE), "1");
        assert_eq!(redisson::run(client, FENCED_TAKES, "lock", "j:1", LEASE), (token + 1).to_string());
        story(client, &[("RLOCK.FORCERELEASE lock", "1"), ("KEYS *", r#"["redisson_lock_token:{lock}"]"#)]);
    }
}
