//! Yielding to a waiting Redisson writer, while natives read one after the other so that the lock always has a reader.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use rlock_testkit::prelude::*;
use rlock_testkit::redisson;
use rlock_testkit::redisson::{READ, RENEW_READ, UNWRITE, WRITE};

const CHANNEL: &str = "redisson_rwlock:{lock}";

/// A server that yields to Redisson writers after `readers` readers, or `turn_ms`.
fn server(readers: u64, turn_ms: u64, window_ms: u64) -> (TestServer, Connection) {
    TestServer::builder().foreign_turns(readers, turn_ms, window_ms).start_and_connect()
}

/// The same, where one of them listens.
fn listened_to(readers: u64, turn_ms: u64, window_ms: u64) -> (TestServer, Connection, Subscriber) {
    let (server, client) = server(readers, turn_ms, window_ms);
    let java = Subscriber::channel(&server, CHANNEL);
    (server, client, java)
}

#[track_caller]
fn writes(client: &mut Connection, owner: &str) -> bool {
    redisson::run(client, WRITE, "lock", owner, 100_000) == "null"
}

#[track_caller]
fn reads(client: &mut Connection, owner: &str) -> bool {
    let answer = say(client, &format!("RLOCK.ACQUIRE lock {owner} 100000 READ"));
    assert!(["null", "[1, 100000, 0]"].contains(&answer.as_str()), "{answer}");
    answer != "null"
}

/// `count` owners read, and all but the last release the lock.
#[track_caller]
fn read_in_a_row(client: &mut Connection, count: u32) {
    for number in 0..count {
        assert!(reads(client, &format!("r{number}")), "reader {number}");
        if number > 0 {
            client.story(&[(&format!("RLOCK.RELEASE lock r{}", number - 1), "1")]);
        }
    }
}

#[test]
fn a_writer_of_redissons_is_not_kept_out_for_ever() {
    let (server, client, java) = &mut listened_to(5, 1_000_000, 60_000);
    assert!(reads(client, "r"));
    client.story(&[("RLOCK.RELEASE lock r", "1")]);
    java.drain();
    read_in_a_row(client, 5);
    // The module yields to the writer: new readers wait, as behind a native writer.
    assert!(!reads(client, "late"));
    let late = Waiting::line(server, "RLOCK.ACQUIRE lock late 50000 READ BLOCK 0");
    late.waits_on(Duration::from_millis(100));
    // Readers that hold the lock may read again.
    client.story(&[("RLOCK.ACQUIRE lock r4 100000 READ", "[2, 100000, 0]")]);
    client.story(&[("RLOCK.RELEASE lock r4 ALL", "1")]);
    assert!(java.next(SOON).is_some(), "the writer learns that the lock is free");
    late.waits_on(Duration::from_millis(100));
    assert!(writes(client, "j:1"));
    assert_eq!(redisson::run(client, UNWRITE, "lock", "j:1", 100_000), "1");
    assert_eq!(late.answer(), "[1, 50000, 0]");
}

/// Redisson's readers do not know of the turn. It was renewed for as long as one of them read, and natives were kept out
/// for a writer that could not come in.
#[test]
fn where_redissons_readers_never_go_natives_read_again() {
    let (server, client, _java) = &mut listened_to(3, 1_000_000, 60_000);
    assert_eq!(redisson::run(client, READ, "lock", "j:1", 1_000_000), "null");
    for owner in ["a", "b", "c"] {
        client.story(&[(&format!("RLOCK.ACQUIRE lock {owner} 1500 READ"), "[1, 1500, 0]")]);
    }
    // Not before the present readers have gone: the writer might acquire the lock.
    let began = Instant::now();
    let late = Waiting::line(server, "RLOCK.ACQUIRE lock late 50000 READ BLOCK 0");
    assert!(!reads(client, "other"));
    assert_eq!(late.answer(), "[1, 50000, 0]");
    assert!(began.elapsed() > Duration::from_millis(400), "{:?}", began.elapsed());
    // It is the first reader of a new count.
    assert!(reads(client, "second") && reads(client, "third"));
    assert!(!reads(client, "fourth"));
}

#[test]
fn without_native_waiters_the_lock_is_left_free_for_a_moment() {
    let (_server, client, _java) = &mut listened_to(3, 1_000_000, 60_000);
    read_in_a_row(client, 3);
    assert!(!reads(client, "late"));
    client.story(&[("RLOCK.RELEASE lock r2", "1"), ("EXISTS lock", "0")]);
    // Free, and not for natives.
    assert!(!reads(client, "late"));
    client.story(&[("RLOCK.ACQUIRE lock late 100000 WRITE", "null")]);
    assert!(writes(client, "j:1"));
    assert_eq!(redisson::run(client, UNWRITE, "lock", "j:1", 100_000), "1");
}

#[test]
fn an_unused_yield_window_ends() {
    let (server, client, _java) = &mut listened_to(3, 1_000_000, 200);
    read_in_a_row(client, 3);
    let late = Waiting::line(server, "RLOCK.ACQUIRE lock late 50000 READ BLOCK 0");
    late.granted_by(client, "RLOCK.RELEASE lock r2");
    // Others read on, and are counted anew.
    assert!(reads(client, "other"));
    client.story(&[("RLOCK.RELEASE lock late", "1"), ("RLOCK.RELEASE lock other", "1")]);
    // The same without native waiters.
    read_in_a_row(client, 3);
    assert!(!reads(client, "late"));
    client.story(&[("RLOCK.RELEASE lock r2", "1")]);
    wait_for("the moment to pass", || reads(client, "late"));
}

/// A lock that was free before the next reader came, without a check in between: a new row of readers begins.
#[test]
fn a_lock_that_was_free_unnoticed_counts_its_readers_anew() {
    let (_server, client, _java) = &mut listened_to(5, 1_000_000, 100);
    for gone in ["HDEL lock r3", "DEL lock", "PEXPIREAT lock 1"] {
        read_in_a_row(client, 4);
        // In one event-loop cycle: the timer does not see that the lock was free.
        let answers = transaction(client, &[gone, "RLOCK.ACQUIRE lock first 100000 READ"]);
        assert_eq!(answers, "[1, [1, 100000, 0]]", "{gone}");
        for reader in ["a", "b", "c", "d"] {
            assert!(reads(client, reader), "{gone}, {reader}");
        }
        assert!(!reads(client, "late"), "{gone}");
        client.story(&[("FLUSHALL", "OK")]);
        wait_for("the moment of the writers to be over", || reads(client, "x"));
        client.story(&[("RLOCK.RELEASE lock x", "1")]);
    }
}

/// A dead reader that returns counts as a new one, and passes no waiter.
#[test]
fn a_dead_reader_that_returns_does_not_pass_a_redisson_writer() {
    let (server, client, _java) = &mut listened_to(5, 1_000_000, 60_000);
    client.story(&[("RLOCK.ACQUIRE lock r4 100000 READ", "[1, 100000, 0]")]);
    say(client, "RLOCK.ACQUIRE lock dead 1 READ");
    wait_for("the lease to end", || say(client, "EXISTS {lock}:dead:rwlock_timeout:1") == "0");
    for reader in ["a", "b", "c"] {
        assert!(reads(client, reader), "{reader}");
    }
    assert!(!reads(client, "late"));
    client.story(&[("HGET lock dead", "\"1\"")]);
    assert!(!reads(client, "dead"));
    let dead = Waiting::line(server, "RLOCK.ACQUIRE lock dead 50000 READ BLOCK 0");
    dead.waits_on(Duration::from_millis(100));
}

/// As soon as no Redisson writer listens, the waiting readers are let in beside the present ones.
#[test]
fn a_writer_that_departs_lets_readers_in() {
    let (server, client) = &mut server(3, 1_000_000, 60_000);
    let java = Subscriber::channel(server, CHANNEL);
    read_in_a_row(client, 3);
    let late = Waiting::line(server, "RLOCK.ACQUIRE lock late 50000 READ BLOCK 0");
    // The module checks twice a second whether a writer still listens.
    late.waits_on(Duration::from_millis(900));
    drop(java);
    assert_eq!(late.answer(), "[1, 50000, 0]");
    client.story(&[("HGET lock r2", "\"1\"")]);
    assert!(reads(client, "later"));
}

#[test]
fn without_a_listener_no_reader_waits() {
    for (readers, turn_ms, window_ms, listens) in [(3, 1, 20, false), (3, 1, 0, true)] {
        let (server, client) = &mut server(readers, turn_ms, window_ms);
        let _java = listens.then(|| Subscriber::channel(server, CHANNEL));
        read_in_a_row(client, 50);
        client.story(&[("RLOCK.RELEASE lock r49", "1")]);
        assert!(reads(client, "next"));
    }
}

/// A server that takes over finds leases, and cannot tell whose they are. They count as leases of Redisson clients: native readers do not
/// wait for a writer of Redisson's until natives read that were granted it here.
#[test]
fn leases_that_are_found_keep_no_native_out() {
    let (primary, replica) = (TestServer::start(), server(1_000, 100, 20).0);
    replica.replicate_from(&primary);
    let before = &mut primary.connect();
    assert_eq!(redisson::run(before, READ, "lock", "j:1", 60_000), "null");
    assert_eq!(redisson::run(before, READ, "lock", "j:2", 60_000), "null");
    wait_for_replicas_in_sync(&primary, &replica);
    drop(primary);
    let client = &mut replica.connect();
    let _java = Subscriber::channel(&replica, CHANNEL);
    client.story(&[("REPLICAOF NO ONE", "OK")]);
    assert_eq!(redisson::run(client, RENEW_READ, "lock", "j:2", 2_000), "1");
    wait_for("the leases to be known, and the lock to last as long as they do", || {
        number(client, "PTTL lock") > 2_000
    });
    thread::sleep(Duration::from_millis(150));
    assert!(reads(client, "first"));
    thread::sleep(Duration::from_millis(150));
    assert!(!reads(client, "second"), "a native reads, and has for longer than a turn takes");
}

/// Sixteen readers keep the lock without a gap; a Redisson writer waits for it in its usual way: it tries, and sleeps
/// until a message comes or the lease ends that it received.
#[test]
fn writers_of_redissons_come_in_among_busy_readers() {
    let (server, _) = server(100, 200, 100);
    let (stop, reads_done) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for reader in 0..16 {
            let (server, stop, reads_done) = (&server, &stop, &reads_done);
            scope.spawn(move || {
                let client = &mut server.connect();
                while !stop.load(Ordering::Relaxed) {
                    let line = format!("RLOCK.ACQUIRE lock n{reader} 30000 READ BLOCK 20000");
                    assert_eq!(say(client, &line), "[1, 30000, 0]");
                    thread::sleep(Duration::from_millis(5));
                    let released = say(client, &format!("RLOCK.RELEASE lock n{reader}"));
                    assert!(["0", "1"].contains(&released.as_str()), "{released}");
                    reads_done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        wait_for("readers to read", || reads_done.load(Ordering::Relaxed) > 100);
        let client = &mut server.connect();
        let mut waits = Vec::new();
        for _ in 0..5 {
            let (began, mut messages) = (Instant::now(), Subscriber::channel(&server, CHANNEL));
            while !writes(client, "j:1") && began.elapsed() < SOON {
                messages.next(Duration::from_secs(5));
            }
            waits.push(began.elapsed());
            // No reader holds the lock beside it.
            assert_eq!(say(client, "HLEN lock"), "2", "{waits:?}");
            assert_eq!(redisson::run(client, UNWRITE, "lock", "j:1", 100_000), "1");
        }
        stop.store(true, Ordering::Relaxed);
        // A window may be missed on a busy machine, and the next comes with the next turn.
        assert!(waits.iter().all(|wait| *wait < Duration::from_secs(5)), "{waits:?}");
    });
    assert_eq!(say(&mut server.connect(), "EXISTS lock"), "0");
}
