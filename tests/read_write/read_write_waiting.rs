//! Waiting to read and to write: one order for both, readers together, no missed wake-ups.

use rlock_testkit::prelude::*;

#[track_caller]
fn wait(server: &TestServer, owner: &str, rest: &str) -> Waiting {
    let line = format!("RLOCK.ACQUIRE lock {owner} 50000 {rest}");
    Waiting::line(server, &line)
}

#[test]
fn readers_at_the_head_go_together_and_a_writer_is_not_overtaken() {
    let (server, client) = &mut TestServer::start_and_connect();
    client.story(&[("RLOCK.ACQUIRE lock w 100000 WRITE", "[1, 100000, 0]")]);
    let (a, b) = (wait(server, "a", "READ BLOCK 0"), wait(server, "b", "READ BLOCK 0"));
    let x = wait(server, "x", "WRITE BLOCK 0");
    let c = wait(server, "c", "READ BLOCK 0");
    // Both in the command that frees it: after that the timer would see to the second.
    let answers = transaction(client, &["RLOCK.RELEASE lock w", "HMGET lock mode a b c"]);
    assert_eq!(answers, r#"[1, ["read", "1", "1", null]]"#);
    assert_eq!((a.answer(), b.answer()), ("[1, 50000, 0]".into(), "[1, 50000, 0]".into()));
    assert!(x.still_waits() && c.still_waits());
    client.story(&[
        // New readers do not overtake the writer; readers that hold the lock may read again.
        ("RLOCK.ACQUIRE lock d 100000 READ", "null"),
        ("RLOCK.ACQUIRE lock a 100000 READ", "[2, 100000, 0]"),
        ("RLOCK.RELEASE lock a ALL", "1"),
    ]);
    assert!(x.still_waits());
    x.granted_by(client, "RLOCK.RELEASE lock b");
    assert!(c.still_waits());
    c.granted_by(client, "RLOCK.RELEASE lock x");
    client.story(&[("RLOCK.RELEASE lock c", "1"), ("DBSIZE", "0")]);
}

#[test]
fn a_downgrade_lets_the_readers_in() {
    let (server, client) = &mut TestServer::start_and_connect();
    client.story(&[
        ("RLOCK.ACQUIRE lock w 100000 WRITE", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE lock w 100000 READ", "[1, 100000, 0]"),
    ]);
    let a = wait(server, "a", "READ BLOCK 0");
    a.granted_by(client, "RLOCK.RELEASE lock w WRITE");
    client.story(&[("HMGET lock mode w a", r#"["read", "1", "1"]"#)]);
}

/// Every way in which a waiting writer departs while others read: the readers behind it can have the lock.
#[test]
fn a_writer_that_departs_lets_the_readers_behind_it_in() {
    let (server, client) = &mut TestServer::start_and_connect();
    client.story(&[("RLOCK.ACQUIRE lock a 100000 READ", "[1, 100000, 0]")]);
    for way in ["cancel", "kill", "time-out", "enqueued and gone"] {
        let subscriber = (way == "enqueued and gone").then(|| Subscriber::channel(server, "grants"));
        let writer = match way {
            "time-out" => Some(wait(server, "w", "WRITE BLOCK 300")),
            "enqueued and gone" => {
                client.story(&[("RLOCK.ACQUIRE lock w 50000 WRITE ENQUEUE 300 grants", "[0, 0, 0]")]);
                None
            }
            _ => Some(wait(server, "w", "WRITE BLOCK 0")),
        };
        let b = wait(server, "b", "READ BLOCK 0");
        match (way, &writer) {
            ("cancel", _) => client.story(&[("RLOCK.CANCEL lock w", "1")]),
            ("kill", Some(writer)) => {
                client.story(&[(&format!("CLIENT KILL ID {}", writer.client_id()), "1")]);
            }
            _ => {}
        }
        drop(subscriber);
        assert_eq!(b.answer(), "[1, 50000, 0]", "{way}");
        client.story(&[("RLOCK.RELEASE lock b", "1")]);
        wait_for("an empty queue", || waiters(client, "lock").is_empty());
    }
}

#[test]
fn an_owner_may_wait_to_read_and_to_write() {
    let (server, client) = &mut TestServer::start_and_connect();
    client.story(&[("RLOCK.ACQUIRE lock a 100000 WRITE", "[1, 100000, 0]")]);
    let write = wait(server, "b", "WRITE BLOCK 0");
    let read = wait(server, "b", "READ BLOCK 0");
    write.granted_by(client, "RLOCK.RELEASE lock a");
    read.granted_by(client, "RLOCK.RELEASE lock b WRITE");
    client.story(&[("RLOCK.RELEASE lock b", "1"), ("RLOCK.ACQUIRE lock a 100000 WRITE", "[1, 100000, 0]")]);
    let (write, read) = (wait(server, "b", "WRITE BLOCK 0"), wait(server, "b", "READ BLOCK 0"));
    client.story(&[("RLOCK.CANCEL lock b", "1")]);
    assert_eq!((write.answer(), read.answer()), ("null".into(), "null".into()));
}

/// It had been queued behind its own wait to read, and waited for itself.
#[test]
fn a_waiting_reader_is_refused_a_wait_to_write() {
    let (server, client, subscriber) = &mut TestServer::start_and_listen("grants");
    let waits_for_itself = "!ERR the owner is a reader and would wait for itself; release READ first, or acquire WRITE before READ";
    client.story(&[
        ("RLOCK.ACQUIRE lock a 100000 WRITE", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE lock b 50000 READ ENQUEUE 0 grants", "[0, 0, 0]"),
        ("RLOCK.ACQUIRE lock b 50000 WRITE", "null"),
        ("RLOCK.ACQUIRE lock b 50000 WRITE BLOCK 1", waits_for_itself),
        ("RLOCK.ACQUIRE lock b 50000 WRITE ENQUEUE 0 grants", waits_for_itself),
        // The wait to read continues, also if it is repeated.
        ("RLOCK.ACQUIRE lock b 60000 READ ENQUEUE 0 grants", "[0, 0, 0]"),
        ("RLOCK.RELEASE lock a", "1"),
    ]);
    assert_eq!(subscriber.next_text(), "granted 0 b lock 1 5000 0 read");
    client.story(&[
        ("RLOCK.ACQUIRE lock b 50000 WRITE BLOCK 1", waits_for_itself),
        ("RLOCK.RELEASE lock b", "1"),
        ("RLOCK.ACQUIRE lock a 100000 WRITE", "[1, 100000, 0]"),
    ]);
    // The other way round nothing is in its way: the writer is first, and may read. Its repeats keep their places.
    let (write, read) = (wait(server, "b", "WRITE BLOCK 0"), wait(server, "b", "READ BLOCK 0"));
    let again = wait(server, "b", "WRITE BLOCK 0");
    assert!(write.answer().starts_with("!UNBLOCKED "));
    again.granted_by(client, "RLOCK.RELEASE lock a");
    read.granted_by(client, "RLOCK.RELEASE lock b WRITE");
    client.story(&[("RLOCK.RELEASE lock b", "1"), ("DBSIZE", "0")]);
}

#[test]
fn enqueued_readers_and_writers_are_notified_of_their_mode() {
    let (_server, client, subscriber) = &mut TestServer::start_and_listen("grants");
    client.story(&[
        ("RLOCK.ACQUIRE lock w 100000 WRITE", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE lock a 50000 READ ENQUEUE 0 grants", "[0, 0, 0]"),
        ("RLOCK.ACQUIRE lock b 50000 READ ENQUEUE 0 grants", "[0, 0, 0]"),
        ("RLOCK.ACQUIRE lock x 50000 WRITE ENQUEUE 0 grants", "[0, 0, 0]"),
        ("RLOCK.RELEASE lock w", "1"),
    ]);
    assert_eq!(subscriber.next_text(), "granted 0 a lock 1 5000 0 read");
    assert_eq!(subscriber.next_text(), "granted 0 b lock 1 5000 0 read");
    // Unconfirmed, then with the full lease.
    let lease = "PTTL {lock}:a:rwlock_timeout:1";
    assert!((1..=5_000).contains(&number(client, lease)));
    client.story(&[("RLOCK.RENEW lock a 50000 READ", "1")]);
    assert!((20_000..=50_000).contains(&number(client, lease)));
    client.story(&[("RLOCK.RELEASE lock a", "1"), ("RLOCK.RELEASE lock b", "1")]);
    assert_eq!(subscriber.next_text(), "granted 0 x lock 1 5000 0 write");
    client.story(&[("RLOCK.RENEW lock x 50000 WRITE", "1")]);
    assert!((20_000..=50_000).contains(&number(client, "PTTL lock")));
}

/// A silent reader: its hold ends with its own lease, and the writer gets the lock. The lock's key lasts much longer
/// each time, so that its end starts no check.
#[test]
fn a_dead_readers_lease_delays_a_writer_no_longer() {
    let (server, client) = &mut TestServer::start_and_connect();
    let ways: [&[(&str, &str)]; 3] = [
        // The one with the longest lease shortens it and dies: the key is left as it is.
        &[("RLOCK.ACQUIRE lock b 100000 READ", "[1, 100000, 0]"), ("RLOCK.RENEW lock b 600 READ", "1")],
        &[("RLOCK.ACQUIRE lock b 600 READ", "[1, 600, 0]"), ("PEXPIRE lock 100000", "1")],
        &[("RLOCK.ACQUIRE lock b 600 READ", "[1, 600, 0]"), ("PERSIST lock", "1")],
    ];
    for way in ways {
        client.story(&[("RLOCK.ACQUIRE lock a 300 READ", "[1, 300, 0]")]);
        client.story(way);
        let lives = number(client, "PEXPIRETIME {lock}:b:rwlock_timeout:1");
        let w = wait(server, "w", "WRITE BLOCK 0");
        assert!(w.still_waits(), "{way:?}");
        let outcome = w.outcome(SOON);
        assert!(outcome.is_ok(), "{way:?}: {outcome:?}");
        assert!(number(client, "PEXPIRETIME lock") - 50_000 >= lives, "{way:?}: beside a reader that lives");
        client.story(&[("HKEYS lock", r#"["mode", "w:write"]"#), ("RLOCK.RELEASE lock w", "1")]);
    }
}

/// A waiting Redisson client sleeps until the end of the lock's key, which must not be that of a departed reader.
#[test]
fn the_key_does_not_outlast_the_readers_that_are_left() {
    let (_, client) = &mut TestServer::start_and_connect();
    for (gives_back, answer) in [("RLOCK.RELEASE lock a", "1"), ("RLOCK.FORCERELEASE lock a", "1")] {
        client.story(&[
            ("RLOCK.ACQUIRE lock a 900000 READ", "[1, 900000, 0]"),
            ("RLOCK.ACQUIRE lock b 100000 READ", "[1, 100000, 0]"),
            (gives_back, answer),
        ]);
        assert!(number(client, "PTTL lock") <= 100_000, "{gives_back}");
        client.story(&[("RLOCK.RELEASE lock b", "1")]);
    }
}

#[test]
fn a_dead_owner_that_returns_counts_from_nothing() {
    let (_, client) = &mut TestServer::start_and_connect();
    client.story(&[
        ("RLOCK.ACQUIRE lock b 100000 READ", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE lock a 100000 READ", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE lock a 100000 READ", "[2, 100000, 0]"),
        ("RLOCK.RENEW lock a 1 READ", "1"),
    ]);
    wait_for("the lease to end", || {
        say(client, "EXISTS {lock}:a:rwlock_timeout:1 {lock}:a:rwlock_timeout:2") == "0"
    });
    client.story(&[
        ("HGET lock a", r#""2""#),
        ("RLOCK.RELEASE lock a", "null"),
        ("RLOCK.RENEW lock a 1000", "0"),
        ("RLOCK.ACQUIRE lock a 100000 READ HOLDS 3", "null"),
        ("RLOCK.ACQUIRE lock a 100000 READ", "[1, 100000, 0]"),
        ("HGET lock a", r#""1""#),
    ]);
}

/// Releases remove the fields of dead readers, so that these do not gather for ever.
#[test]
fn dead_readers_are_cleared_away_over_time() {
    for readers in [20_u32, 600] {
        let (_, client) = &mut TestServer::start_and_connect();
        say(client, "RLOCK.ACQUIRE lock living 1000000 READ");
        for reader in 0..readers {
            say(client, &format!("RLOCK.ACQUIRE lock dead:{reader} 1 READ"));
        }
        eventually("all to be cleared away", SOON * 3, || {
            say(client, "RLOCK.ACQUIRE lock passing 1000000 READ");
            say(client, "RLOCK.RELEASE lock passing");
            (say(client, "HLEN lock") == "2").then_some(())
        });
        client.story(&[
            ("HGET lock living", r#""1""#),
            ("RLOCK.RELEASE lock living", "1"),
            ("EXISTS lock", "0"),
        ]);
    }
}

#[test]
fn a_release_that_leaves_only_the_dead_frees_the_lock() {
    let (_server, client, unlocked) = &mut TestServer::start_and_listen("redisson_rwlock:{lock}");
    client.story(&[
        ("RLOCK.ACQUIRE lock b 100000 READ", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE lock a 1 READ", "[1, 1, 0]"),
    ]);
    wait_for("the lease to end", || say(client, "EXISTS {lock}:a:rwlock_timeout:1") == "0");
    client.story(&[("RLOCK.RELEASE lock b", "1"), ("EXISTS lock", "0")]);
    assert_eq!(unlocked.next_text(), "0");
}
