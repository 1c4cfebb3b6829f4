//! Whatever ends at one moment keeps no other client waiting, and takes a time that grows with the number, not with its
//! square: twenty thousand FAIR waiters that timed out together kept a server busy for seconds, forty thousand for half a
//! minute.
//!
//! The bounds hold on a loaded machine: each is far below the time of one search of the list for each waiter.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redis::Connection;
use rlock_testkit::commands::{counter, number, say, say_words, story};
use rlock_testkit::{Subscriber, TestServer, eventually};

/// As many as kept the server busy for some 3 s.
const MANY: usize = 20_000;

/// The longest that another client may wait here, where 25 ms are the aim on a quiet machine.
const STALL: Duration = Duration::from_millis(500);

/// The longest that all of it may take.
const WHOLE: Duration = Duration::from_secs(60);

const LIST: &str = "redisson_lock_queue:{lock}";
const DEADLINES: &str = "redisson_lock_timeout:{lock}";

fn server() -> (TestServer, Connection) {
    let server = TestServer::start();
    let mut client = server.connect();
    story(&mut client, &[("RLOCK.ACQUIRE lock alice 3600000", "[1, 3600000, 0]")]);
    (server, client)
}

/// `MANY` owners wait for a message on one channel.
fn enqueue(client: &mut Connection, how: &str) {
    enqueue_until(client, how, |_| 0);
}

/// The same, for a time that is asked for again and again.
fn enqueue_until(client: &mut Connection, how: &str, wait_ms: impl Fn(Duration) -> u128) {
    let (begin, words) = (Instant::now(), how.split_ascii_whitespace().collect::<Vec<&str>>());
    for first in (0..MANY).step_by(1_000) {
        let (mut pipe, wait_ms) = (redis::pipe(), wait_ms(begin.elapsed()));
        for waiter in first..first + 1_000 {
            let command = pipe.cmd("RLOCK.ACQUIRE").arg("lock").arg(format!("w{waiter}")).arg(3_600_000);
            command.arg(&words).arg("ENQUEUE").arg(wait_ms.to_string()).arg("news").ignore();
        }
        pipe.query::<()>(client).expect("they are enqueued");
    }
}

/// Does something, waits for its effect, and checks that no other client waited for that.
pub(crate) fn check(server: &TestServer, act: impl FnOnce(), done: impl FnMut() -> bool) {
    let over = Arc::new(AtomicBool::new(false));
    let mut other = server.connect();
    let pings = {
        let over = Arc::clone(&over);
        thread::spawn(move || {
            let mut longest = Duration::ZERO;
            while !over.load(Ordering::Relaxed) {
                let begin = Instant::now();
                say(&mut other, "PING");
                longest = longest.max(begin.elapsed());
                thread::sleep(Duration::from_millis(1));
            }
            longest
        })
    };
    act();
    let mut done = done;
    eventually("all of it to be done", WHOLE, || done().then_some(()));
    over.store(true, Ordering::Relaxed);
    let longest = pings.join().expect("the other client");
    println!("another client waited for {longest:?} at most");
    assert!(longest < STALL, "another client waited for {longest:?}");
}

/// No client waits, and `left` entries are left of the fair list.
fn is_over(server: &TestServer, client: &mut Connection, left: i64) -> bool {
    counter(server, "waiters") == 0
        && number(client, &format!("LLEN {LIST}")) == left
        && number(client, &format!("ZCARD {DEADLINES}")) == left
}

#[test]
fn fair_waiters_that_time_out_together() {
    let (server, mut client) = server();
    let _listens = Subscriber::channel(&server, "news");
    // Their waits end in the same moment, whenever each began.
    let ends = Duration::from_secs(6);
    enqueue_until(&mut client, "FAIR", |since| ends.saturating_sub(since).as_millis().max(1));
    check(&server, || {}, || is_over(&server, &mut client, 0));
    assert_eq!(counter(&server, "timeouts"), MANY as u64);
}

#[test]
fn fair_waiters_that_are_drained_behind_one_of_redissons() {
    let (server, mut client) = server();
    let mut act = server.connect();
    let _listens = Subscriber::channel(&server, "news");
    story(
        &mut client,
        &[(&format!("RPUSH {LIST} other"), "1"), (&format!("ZADD {DEADLINES} 99999999999999 other"), "1")],
    );
    enqueue(&mut client, "FAIR");
    let drain = || story(&mut act, &[("CONFIG SET rlock.accept no", "OK")]);
    check(&server, drain, || is_over(&server, &mut client, 1));
    assert_eq!(say(&mut client, &format!("LRANGE {LIST} 0 -1")), r#"["other"]"#);
    assert_eq!(counter(&server, "waiters_sent_away"), MANY as u64);
}

/// The entries in the middle of a list go, those of others before and behind them stay.
#[test]
fn fair_waiters_that_are_cancelled_among_others() {
    let (server, mut client) = server();
    let mut act = server.connect();
    enqueue(&mut client, "FAIR");
    let cancel = || {
        let mut pipe = redis::pipe();
        // Every one but each tenth, the last ones first.
        for waiter in (0..MANY).rev().filter(|waiter| waiter % 10 != 0) {
            pipe.cmd("RLOCK.CANCEL").arg("lock").arg(format!("w{waiter}")).ignore();
        }
        pipe.query::<()>(&mut act).expect("they are cancelled");
    };
    let left = MANY / 10;
    check(&server, cancel, || {
        number(&mut client, &format!("LLEN {LIST}")) == left as i64
            && number(&mut client, &format!("ZCARD {DEADLINES}")) == left as i64
    });
    let names = (0..MANY).step_by(10).map(|waiter| format!("\"w{waiter}\"")).collect::<Vec<_>>();
    assert_eq!(say(&mut client, &format!("LRANGE {LIST} 0 -1")), format!("[{}]", names.join(", ")));
}

#[test]
fn readers_that_a_writer_lets_in_together() {
    let server = TestServer::start();
    let (mut client, mut act) = (server.connect(), server.connect());
    story(&mut client, &[("RLOCK.ACQUIRE lock alice 3600000 WRITE", "[1, 3600000, 0]")]);
    let _listens = Subscriber::channel(&server, "news");
    enqueue(&mut client, "READ");
    let release = || story(&mut act, &[("RLOCK.RELEASE lock alice", "1")]);
    check(&server, release, || counter(&server, "waiters") == 0);
    assert_eq!(counter(&server, "hand_offs"), MANY as u64);
}

/// The channel on which all of them wait has no subscriber. The waiter behind them gets the lock in the end.
#[test]
fn waiters_that_are_dropped_with_their_channel() {
    let (server, mut client) = server();
    let mut act = server.connect();
    enqueue(&mut client, "");
    let _listens = Subscriber::channel(&server, "heard");
    story(&mut client, &[("RLOCK.ACQUIRE lock bob 3600000 ENQUEUE 0 heard", "[0, 0, 0]")]);
    let release = || story(&mut act, &[("RLOCK.RELEASE lock alice", "1")]);
    check(&server, release, || counter(&server, "waiters") == 0);
    assert_eq!((counter(&server, "waiters_gone"), counter(&server, "hand_offs")), (MANY as u64, 1));
    assert_eq!(say(&mut client, "HGETALL lock"), r#"["bob", "1"]"#);
}

#[test]
fn waiters_of_a_server_that_is_demoted() {
    let (server, mut client) = server();
    let mut act = server.connect();
    let _listens = Subscriber::channel(&server, "news");
    enqueue(&mut client, "FAIR");
    let demote = || story(&mut act, &[("REPLICAOF 127.0.0.1 1", "OK")]);
    check(&server, demote, || counter(&server, "waiters") == 0);
    assert_eq!(counter(&server, "waiters_sent_away"), MANY as u64);
    // The list is the new primary's.
    assert_eq!(number(&mut client, &format!("LLEN {LIST}")), MANY as i64);
}

/// FLUSHDB of another database checked every lock of all databases, and one of their own all of them at once.
#[test]
fn a_flush_with_many_awaited_locks() {
    let server = TestServer::start();
    let (mut client, mut act) = (server.connect(), server.connect());
    let _listens = Subscriber::channel(&server, "news");
    for first in (0..MANY).step_by(1_000) {
        let mut pipe = redis::pipe();
        for lock in first..first + 1_000 {
            pipe.cmd("RLOCK.ACQUIRE").arg(format!("lock{lock}")).arg("alice").arg(3_600_000).ignore();
            let command = pipe.cmd("RLOCK.ACQUIRE").arg(format!("lock{lock}")).arg("bob").arg(3_600_000);
            command.arg("ENQUEUE").arg(0).arg("news").ignore();
        }
        pipe.query::<()>(&mut client).expect("they are enqueued");
    }
    story(&mut act, &[("SELECT 1", "OK"), ("SET x y", "OK"), ("FLUSHDB", "OK"), ("SELECT 0", "OK")]);
    assert_eq!(counter(&server, "hand_offs"), 0);
    let flush = || story(&mut act, &[("FLUSHDB ASYNC", "OK")]);
    check(&server, flush, || counter(&server, "waiters") == 0);
    assert_eq!(
        (counter(&server, "hand_offs"), counter(&server, "found_flushed")),
        (MANY as u64, MANY as u64)
    );
}

/// The next `count` native waiters get the lock in their order, each when the one before it releases.
fn are_served_in_order(client: &mut Connection, count: usize) {
    let mut holder = "alice".to_owned();
    for waiter in 0..count {
        story(client, &[(&format!("RLOCK.RELEASE lock {holder}"), "1")]);
        holder = format!("w{waiter}");
        assert_eq!(say(client, "HGETALL lock"), format!("[\"{holder}\", \"1\"]"));
    }
}

/// Another client deletes Redisson's list and sorted set: the first natives go back, and the others keep their turns.
#[test]
fn natives_whose_fair_list_is_deleted() {
    let (server, mut client) = server();
    let mut act = server.connect();
    let _listens = Subscriber::channel(&server, "news");
    enqueue(&mut client, "FAIR");
    let delete = || story(&mut act, &[(&format!("DEL {LIST} {DEADLINES}"), "2")]);
    check(&server, delete, || say(&mut client, &format!("LRANGE {LIST} 0 1")) == r#"["w0", "w1"]"#);
    story(
        &mut client,
        &[(&format!("RPUSH {LIST} other"), "501"), (&format!("ZADD {DEADLINES} 99999999999999 other"), "1")],
    );
    // The same again, while most are not back.
    story(&mut client, &[(&format!("DEL {LIST}"), "1")]);
    are_served_in_order(&mut client, 1_600);
}

/// An administrator removes entries from a long list, and leaves their deadlines: the natives keep their turns.
#[test]
fn natives_that_are_removed_from_a_long_list() {
    let (server, mut client) = server();
    let _listens = Subscriber::channel(&server, "news");
    enqueue(&mut client, "FAIR");
    for waiter in [0, 5, 6, 700] {
        story(&mut client, &[(&format!("LREM {LIST} 1 w{waiter}"), "1")]);
    }
    are_served_in_order(&mut client, 1_000);
    story(&mut client, &[(&format!("LTRIM {LIST} 1000 -1"), "OK"), ("RLOCK.RELEASE lock w999", "1")]);
    assert_eq!(say(&mut client, "HGETALL lock"), r#"["w1000", "1"]"#);
}

/// The deadlines alone are deleted, or evicted: no waiter enters the list twice, and nothing is left of them in the end.
#[test]
fn natives_whose_deadlines_are_deleted() {
    let (server, mut client) = server();
    let mut act = server.connect();
    let _listens = Subscriber::channel(&server, "news");
    enqueue(&mut client, "FAIR");
    for _ in 0..3 {
        story(&mut client, &[(&format!("DEL {DEADLINES}"), "1")]);
        eventually("the deadline of the first is back", WHOLE, || {
            (say(&mut client, &format!("ZSCORE {DEADLINES} w0")) != "nil").then_some(())
        });
        assert_eq!(number(&mut client, &format!("LLEN {LIST}")), MANY as i64);
    }
    are_served_in_order(&mut client, 100);
    let drain = || story(&mut act, &[("CONFIG SET rlock.accept no", "OK")]);
    check(&server, drain, || is_over(&server, &mut client, 0));
}

/// Redisson waiters that died: their expired entries stand before the next caller. 400,000 kept a server busy for 1.5 s
/// in one command.
#[test]
fn expired_redisson_waiters_at_the_head() {
    const DEAD: usize = 400_000;
    let server = TestServer::start();
    let (mut client, mut act) = (server.connect(), server.connect());
    for first in (0..DEAD).step_by(10_000) {
        let dead = (first..first + 10_000).map(|waiter| format!("dead{waiter}")).collect::<Vec<_>>();
        let scores = dead.iter().map(|name| (1_000, name)).collect::<Vec<_>>();
        let mut pipe = redis::pipe();
        pipe.rpush(LIST, &dead).ignore().zadd_multiple(DEADLINES, &scores).ignore();
        pipe.query::<()>(&mut client).expect("they stand in the list");
    }
    let acquire = || story(&mut act, &[("RLOCK.ACQUIRE lock alice 60000 FAIR BLOCK 0", "[1, 60000, 0]")]);
    check(&server, acquire, || is_over(&server, &mut client, 0));
}

/// This number of owners hold permits that are tied to one connection.
fn tie(stream: &mut TcpStream, owners: usize) {
    const ANSWER: &[u8] = b"*3\r\n:1\r\n:3600000\r\n:0\r\n";
    for first in (0..owners).step_by(10_000) {
        let line = |owner| format!("RLOCK.ACQUIRE slots w{owner} 3600000 PERMITS 1000000 SESSION 1000\r\n");
        let lines: String = (first..first + 10_000).map(line).collect();
        stream.write_all(lines.as_bytes()).expect("they ask");
        let mut answers = vec![0; 10_000 * ANSWER.len()];
        stream.read_exact(&mut answers).expect("they hold permits");
        assert!(answers.ends_with(ANSWER));
    }
}

/// All ties of a semaphore that was deleted were freed at once: 0.7 s for half a million.
#[test]
fn the_ties_of_a_semaphore_that_is_deleted() {
    const TIES: usize = 500_000;
    let server = TestServer::start();
    let (mut client, mut act) = (TcpStream::connect(("127.0.0.1", server.port())).unwrap(), server.connect());
    tie(&mut client, TIES);
    assert_eq!(counter(&server, "ties"), TIES as u64);
    check(&server, || story(&mut act, &[("UNLINK slots", "1")]), || counter(&server, "ties") == 0);
}

/// A key whose expiry another client has lowered gets it back by the leases of all readers, if these are few. Of 64 readers with
/// a thousand holds each all were read, and that for many locks in one callback: 0.1 s for each.
#[test]
fn keys_of_many_readers_with_many_holds_that_are_shortened() {
    const LOCKS: usize = 12;
    let server = TestServer::start();
    let (mut client, mut act) = (server.connect(), server.connect());
    let readers = "for reader = 1, 63 do \
        redis.call('HSET', KEYS[1], 'mode', 'read', 'r' .. reader, 1000) \
        local lease = '{' .. KEYS[1] .. '}:r' .. reader .. ':rwlock_timeout:' \
        for hold = 1, 1000 do redis.call('SET', lease .. hold, 1, 'PX', 3000000) end \
        end return redis.call('PEXPIRE', KEYS[1], 3000000)";
    for lock in 0..LOCKS {
        let key = format!("lock{lock}");
        assert_eq!(say_words(&mut client, &["EVAL", readers, "1", &key]), "1");
        story(&mut client, &[(&format!("RLOCK.ACQUIRE {key} n:1 3600000 READ"), "[1, 3600000, 0]")]);
    }
    let shorten = || {
        let mut pipe = redis::pipe();
        for lock in 0..LOCKS {
            pipe.cmd("PEXPIRE").arg(format!("lock{lock}")).arg(60_000).ignore();
        }
        pipe.query::<()>(&mut act).expect("they are shortened");
    };
    check(&server, shorten, || {
        (0..LOCKS).all(|lock| number(&mut client, &format!("PTTL lock{lock}")) > 3_000_000)
    });
}

/// A connection ends with readers that have a thousand holds each: one callback wrote the lease keys of 250 of them, which took
/// 0.7 s.
#[test]
fn readers_with_many_holds_whose_connection_ends() {
    const READERS: usize = 250;
    let server = TestServer::start();
    let (mut client, mut bob) = (server.connect(), server.connect());
    for reader in 0..READERS {
        let mut pipe = redis::pipe();
        for _ in 0..1_000 {
            let words = [&format!("lock{reader}"), "bob", "3600000", "READ", "SESSION", "60000"];
            pipe.cmd("RLOCK.ACQUIRE").arg(&words[..]).ignore();
        }
        pipe.query::<()>(&mut bob).expect("bob reads");
    }
    let mut readers = 0..READERS;
    let mut is_long = |reader: &usize| {
        number(&mut client, &format!("PTTL {{lock{reader}}}:bob:rwlock_timeout:1000")) > 60_000
    };
    let mut long = readers.next();
    check(
        &server,
        || drop(bob),
        || {
            while long.as_ref().is_some_and(|reader| !is_long(reader)) {
                long = readers.next();
            }
            long.is_none()
        },
    );
}

/// Databases are swapped a hundred times before the fair lists of many locks are cleared: each time all of these locks were
/// visited, which took 25 ms.
#[test]
fn swaps_before_many_fair_lists_are_cleared() {
    let server = TestServer::start();
    let mut act = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let (mut client, mut looks) = (server.connect(), server.connect());
    for first in (0..MANY).step_by(1_000) {
        let mut pipe = redis::pipe();
        for lock in first..first + 1_000 {
            pipe.cmd("RLOCK.ACQUIRE").arg(format!("lock{lock}")).arg("alice").arg(3_600_000).ignore();
            let command = pipe.cmd("RLOCK.ACQUIRE").arg(format!("lock{lock}")).arg("bob").arg(3_600_000);
            command.arg("FAIR").arg("ENQUEUE").arg(0).arg("news").ignore();
        }
        pipe.query::<()>(&mut client).expect("they are enqueued");
    }
    story(&mut client, &[("CLIENT PAUSE 60000 WRITE", "OK"), ("CONFIG SET rlock.accept no", "OK")]);
    eventually("all waiters to be sent away", WHOLE, || (counter(&server, "waiters") == 0).then_some(()));
    let swaps = format!("MULTI\r\n{}EXEC\r\n", "SWAPDB 5 6\r\n".repeat(100));
    act.write_all(swaps.as_bytes()).expect("they wait for the end of the pause");
    let swap = || story(&mut client, &[("CLIENT UNPAUSE", "OK")]);
    check(&server, swap, || number(&mut looks, "DBSIZE") == MANY as i64);
}
