//! Dead readers of a read/write lock stall no other client, however many of them a waiting writer finds. All of them were
//! removed in one callback: 60 ms for fifty thousand.

use redis::Connection;
use rlock_testkit::commands::{counter, number, say, say_words, story};
use rlock_testkit::{Subscriber, TestServer};

use crate::stalls::check;

/// This number of readers of a lock whose leases have ended.
fn die(client: &mut Connection, key: &str, readers: usize) {
    let dead = "for reader = 1, ARGV[1] do redis.call('HSET', KEYS[1], 'mode', 'read', 'dead' .. reader, 1) end \
        return redis.call('PEXPIRE', KEYS[1], 3600000)";
    assert_eq!(say_words(client, &["EVAL", dead, "1", key, &readers.to_string()]), "1");
}

/// A living reader stands somewhere among them: the writer waits for its release.
#[test]
fn dead_readers_beside_a_living_one() {
    let server = TestServer::start();
    let (mut client, mut act) = (server.connect(), server.connect());
    let _listens = Subscriber::channel(&server, "news");
    die(&mut client, "lock", 50_000);
    story(&mut client, &[("RLOCK.ACQUIRE lock alice 60000 READ", "[1, 60000, 0]")]);
    let wait = || {
        let waits = ("RLOCK.ACQUIRE lock bob 60000 WRITE ENQUEUE 0 news", "[0, 0, 0]");
        story(&mut act, &[waits, ("RLOCK.RELEASE lock alice", "1")]);
    };
    check(&server, wait, || counter(&server, "waiters") == 0);
    assert_eq!(say(&mut client, "HGETALL lock"), r#"["mode", "write", "bob:write", "1"]"#);
}

/// The writers ask in one transaction: each of its commands removes a few, and the timer the others of all locks.
#[test]
fn dead_readers_of_many_locks() {
    const LOCKS: usize = 10;
    let server = TestServer::start();
    let (mut client, mut act) = (server.connect(), server.connect());
    let _listens = Subscriber::channel(&server, "news");
    for lock in 0..LOCKS {
        die(&mut client, &format!("lock{lock}"), 80_000);
    }
    let wait = || {
        let mut pipe = redis::pipe();
        for lock in 0..LOCKS {
            let command = pipe.atomic().cmd("RLOCK.ACQUIRE").arg(format!("lock{lock}")).arg("bob");
            command.arg(60_000).arg("WRITE").arg("ENQUEUE").arg(0).arg("news").ignore();
        }
        pipe.query::<()>(&mut act).expect("they wait");
    };
    check(&server, wait, || counter(&server, "waiters") == 0);
    assert!((0..LOCKS).all(|lock| number(&mut client, &format!("HLEN lock{lock}")) == 2));
    assert_eq!(counter(&server, "hand_offs"), LOCKS as u64);
}

/// One that does not wait is denied the lock while more readers are left than one look checks.
#[test]
fn a_writer_that_asks_again_and_again_has_the_lock_in_the_end() {
    let server = TestServer::start();
    let client = &mut server.connect();
    die(client, "lock", 2_500);
    let asks = "RLOCK.ACQUIRE lock bob 60000 WRITE";
    story(client, &[(asks, "null"), ("HLEN lock", "1501"), (asks, "null"), (asks, "[1, 60000, 0]")]);
    assert_eq!(number(client, "HLEN lock"), 2);
}

/// INFO of a lock with many dead readers, each with a thousand holds, looked for the lease keys of all of them.
#[test]
fn info_of_dead_readers_with_many_holds() {
    let (server, client) = &mut TestServer::start_and_connect();
    let mut act = server.connect();
    let dead = "for reader = 1, 5000 do redis.call('HSET', KEYS[1], 'mode', 'read', 'dead' .. reader, 1000) end \
        return redis.call('PEXPIRE', KEYS[1], 3600000)";
    assert_eq!(say_words(client, &["EVAL", dead, "1", "lock"]), "1");
    let ask_for_all = || {
        let info = say(&mut act, "RLOCK.INFO lock LIMIT 4294967295");
        assert!(info.starts_with(r#"["kind", "#), "{info}");
    };
    check(server, ask_for_all, || true);
}
