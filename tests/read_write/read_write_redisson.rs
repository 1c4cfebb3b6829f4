//! Native readers and writers beside Redisson readers and writers, whose scripts are in `redisson`.

use rlock_testkit::prelude::*;
use rlock_testkit::redisson;
use rlock_testkit::redisson::{READ, RENEW_READ, UNREAD, UNWRITE, WRITE};

/// Runs a script of Redisson for this owner, with a lease in ms.
#[track_caller]
fn redisson(client: &mut Connection, script: &str, owner: &str, lease: i64) -> String {
    redisson::run(client, script, "lock", owner, lease)
}

#[track_caller]
fn wait(server: &TestServer, owner: &str, mode: &str) -> Waiting {
    Waiting::line(server, &format!("RLOCK.ACQUIRE lock {owner} 50000 {mode} BLOCK 0"))
}

#[test]
fn they_exclude_each_other_and_share() {
    let (_, client) = &mut TestServer::start_and_connect();
    assert_eq!(redisson(client, READ, "j:1", 100_000), "null");
    client.story(&[
        ("RLOCK.ACQUIRE lock w 100000 WRITE", "null"),
        ("RLOCK.ACQUIRE lock a 100000 READ", "[1, 100000, 0]"),
    ]);
    assert_ne!(redisson(client, WRITE, "j:2", 100_000), "null");
    assert_eq!(redisson(client, UNREAD, "j:1", 100_000), "0");
    assert_ne!(redisson(client, WRITE, "j:2", 100_000), "null");
    client.story(&[
        ("RLOCK.RELEASE lock a", "1"),
        ("DBSIZE", "0"),
        ("RLOCK.ACQUIRE lock w 100000 WRITE", "[1, 100000, 0]"),
    ]);
    assert_ne!(redisson(client, READ, "j:1", 100_000), "null");
    assert_ne!(redisson(client, WRITE, "j:1", 100_000), "null");
    client.story(&[("RLOCK.RELEASE lock w", "1")]);
    assert_eq!(redisson(client, WRITE, "j:1", 100_000), "null");
    assert_eq!(redisson(client, READ, "j:1", 100_000), "null");
    client.story(&[
        ("RLOCK.ACQUIRE lock a 100000 READ", "null"),
        ("RLOCK.ACQUIRE lock w 100000 WRITE", "null"),
    ]);
    // Its downgrade lets native readers in.
    assert_eq!(redisson(client, UNWRITE, "j:1", 100_000), "1");
    client.story(&[("RLOCK.ACQUIRE lock a 100000 READ", "[1, 100000, 0]"), ("RLOCK.RELEASE lock a", "1")]);
    assert_eq!(redisson(client, UNREAD, "j:1", 100_000), "1");
    client.story(&[("DBSIZE", "0")]);
}

/// A native and a Redisson client can each renew and release a hold of the other, by the same owner.
#[test]
fn the_layout_is_the_same() {
    let (_, client) = &mut TestServer::start_and_connect();
    assert_eq!(redisson(client, READ, "j:1", 100_000), "null");
    assert_eq!(redisson(client, READ, "j:1", 100_000), "null");
    client.story(&[
        ("RLOCK.RENEW lock j:1 300000 READ", "1"),
        ("RLOCK.RELEASE lock j:1 HOLDS 1", "0"),
        ("RLOCK.RELEASE lock j:1", "1"),
        ("DBSIZE", "0"),
        ("RLOCK.ACQUIRE lock a 100000 READ", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE lock a 100000 READ", "[2, 100000, 0]"),
    ]);
    assert_eq!(redisson(client, RENEW_READ, "a", 200_000), "1");
    assert_eq!(redisson(client, UNREAD, "a", 100_000), "0");
    assert_eq!(redisson(client, UNREAD, "a", 100_000), "1");
    client.story(&[("DBSIZE", "0"), ("RLOCK.ACQUIRE lock w 100000 WRITE", "[1, 100000, 0]")]);
    assert_eq!(redisson(client, UNWRITE, "w", 100_000), "1");
    client.story(&[("DBSIZE", "0")]);
}

#[test]
fn every_release_of_redissons_wakes_natives() {
    let (server, client) = &mut TestServer::start_and_connect();
    // The last reader goes.
    redisson(client, READ, "j:1", 100_000);
    redisson(client, READ, "j:2", 100_000);
    let w = wait(server, "w", "WRITE");
    redisson(client, UNREAD, "j:1", 100_000);
    assert!(w.still_waits());
    redisson(client, UNREAD, "j:2", 100_000);
    assert_eq!(w.answer(), "[1, 50000, 0]");
    client.story(&[("RLOCK.RELEASE lock w", "1")]);
    // The writer releases; once it is gone, once it continues as a reader.
    for reads in [false, true] {
        redisson(client, WRITE, "j:1", 100_000);
        if reads {
            redisson(client, READ, "j:1", 100_000);
        }
        let (a, b) = (wait(server, "a", "READ"), wait(server, "b", "READ"));
        redisson(client, UNWRITE, "j:1", 100_000);
        assert_eq!((a.answer(), b.answer()), ("[1, 50000, 0]".into(), "[1, 50000, 0]".into()), "{reads}");
        client.story(&[("RLOCK.RELEASE lock a", "1"), ("RLOCK.RELEASE lock b", "1")]);
        redisson(client, UNREAD, "j:1", 100_000);
    }
    // It is deleted by force.
    redisson(client, WRITE, "j:1", 100_000);
    let a = wait(server, "a", "READ");
    say(client, "DEL lock");
    assert_eq!(a.answer(), "[1, 50000, 0]");
}

/// A dead Redisson reader delays the others no longer than its own lease lasts.
#[test]
fn a_dead_reader_of_redissons_delays_no_longer_than_its_lease() {
    let (server, client) = &mut TestServer::start_and_connect();
    redisson(client, READ, "j:1", 500);
    redisson(client, READ, "j:2", 100_000);
    let w = wait(server, "w", "WRITE");
    // The key ends with the lease of j:1.
    redisson(client, UNREAD, "j:2", 100_000);
    assert_eq!(w.answer(), "[1, 50000, 0]");
}

/// Redisson sets the key's end to that of the reader that it renews, and so would end a longer native lease.
#[test]
fn a_renewal_of_redissons_does_not_end_a_longer_native_lease() {
    let (_, client) = &mut TestServer::start_and_connect();
    redisson(client, READ, "j:1", 30_000);
    client.story(&[("RLOCK.ACQUIRE lock a 900000 READ", "[1, 900000, 0]")]);
    for _ in 0..3 {
        redisson(client, RENEW_READ, "j:1", 30_000);
        wait_for("the key to last as long as the lease", || number(client, "PTTL lock") > 800_000);
    }
    // When it is gone nothing is set right any more.
    client.story(&[("RLOCK.RELEASE lock a", "1")]);
    redisson(client, RENEW_READ, "j:1", 30_000);
    client.story(&[("RLOCK.ACQUIRE other b 100 READ", "[1, 100, 0]")]);
    std::thread::sleep(Duration::from_millis(300));
    assert!(number(client, "PTTL lock") <= 30_000);
}

/// So it is where the longer lease was given by a hand-off, in the command that deleted the lock of the writer before.
#[test]
fn a_renewal_of_redissons_does_not_end_a_longer_lease_that_was_handed_on() {
    let (server, client) = &mut TestServer::start_and_connect();
    for frees in ["RLOCK.RELEASE lock w", "RLOCK.FORCERELEASE lock"] {
        client.story(&[("RLOCK.ACQUIRE lock w 100000 WRITE", "[1, 100000, 0]")]);
        let a = wait(server, "a", "READ");
        a.granted_by(client, frees);
        assert_eq!(redisson(client, READ, "j:1", 1_000), "null");
        assert_eq!(redisson(client, RENEW_READ, "j:1", 1_000), "1");
        wait_for("the key to last as long as the lease", || number(client, "PTTL lock") > 30_000);
        redisson(client, UNREAD, "j:1", 1_000);
        client.story(&[("RLOCK.RELEASE lock a", "1"), ("DBSIZE", "0")]);
    }
}

/// When all keys are deleted, the module forgets the readers of a lock: a user's own hash that takes the name, and
/// resembles a lock at first sight, is checked in full.
#[test]
fn what_is_known_of_readers_goes_with_the_keys() {
    let (_, client) = &mut TestServer::start_and_connect();
    for flush in ["FLUSHALL", "FLUSHDB", "SWAPDB 0 1"] {
        client.story(&[("RLOCK.ACQUIRE lock a 900000 READ", "[1, 900000, 0]"), (flush, "OK")]);
        let fields: Vec<_> = (0..20).map(|field| format!("{field} text")).collect();
        say(client, &format!("HSET lock mode read {}", fields.join(" ")));
        let refused = say(client, "RLOCK.ACQUIRE lock b 1000 READ");
        assert!(refused.starts_with("!WRONGLOCK "), "{flush}: {refused}");
        client.story(&[("HLEN lock", "21"), ("FLUSHALL", "OK")]);
    }
}

#[test]
fn redisson_waiters_are_notified() {
    let (server, client, heard) = &mut TestServer::start_and_listen("redisson_rwlock:{lock}");
    let mut next = || heard.next_text();
    client.story(&[("RLOCK.ACQUIRE lock a 100000 READ", "[1, 100000, 0]"), ("RLOCK.RELEASE lock a", "1")]);
    assert_eq!(next(), "0");
    client.story(&[("RLOCK.ACQUIRE lock w 100000 WRITE", "[1, 100000, 0]"), ("RLOCK.RELEASE lock w", "1")]);
    assert_eq!([next(), next()], ["0", "1"]);
    // A downgrade, and readers that were waiting: others may join them.
    client.story(&[
        ("RLOCK.ACQUIRE lock w 100000 WRITE", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE lock w 100000 READ", "[1, 100000, 0]"),
        ("RLOCK.RELEASE lock w WRITE", "1"),
    ]);
    assert_eq!([next(), next()], ["0", "1"]);
    client.story(&[("RLOCK.RELEASE lock w", "1")]);
    assert_eq!(next(), "0");
    client.story(&[("RLOCK.ACQUIRE lock w 100000 WRITE", "[1, 100000, 0]")]);
    let a = wait(server, "a", "READ");
    a.granted_by(client, "RLOCK.RELEASE lock w");
    assert_eq!([next(), next()], ["0", "1"]);
    client.story(&[("RLOCK.FORCERELEASE lock", "1")]);
    assert_eq!([next(), next()], ["0", "1"]);
    heard.none_within(Duration::from_millis(100));
}
