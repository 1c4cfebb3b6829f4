//! FAIR: one order for native waiters and those of Redisson's fair lock, which stand in a list and a sorted set.

use rlock_testkit::fair_list::{MINUTE, ahead, list};
use rlock_testkit::prelude::*;
use rlock_testkit::redisson::{FAIR_GIVES_BACK, FAIR_GIVES_UP, FAIR_TAKES};

use crate::scene::{DEADLINES, LIST, eventually_list, redisson, wait};

#[test]
fn native_fair_waiters_stand_in_redissons_list() {
    let (server, client) = &mut TestServer::start_and_connect();
    client.story(&[("RLOCK.ACQUIRE lock a 100000 FAIR", "[1, 100000, 0]"), (&format!("EXISTS {LIST}"), "0")]);
    let b = wait(server, "b");
    let c = wait(server, "c");
    assert_eq!(list(client), r#"["b", "c"]"#);
    // By Redisson's formula: what is left of the lease, or the one before, and the wait.
    assert!((6 * MINUTE..=7 * MINUTE).contains(&ahead(client, "b")), "{}", ahead(client, "b"));
    assert!((11 * MINUTE..=12 * MINUTE).contains(&ahead(client, "c")));
    b.granted_by(client, "RLOCK.RELEASE lock a");
    assert_eq!(list(client), r#"["c"]"#);
    client.story(&[(&format!("ZCARD {DEADLINES}"), "1"), ("RLOCK.RELEASE lock b", "1")]);
    assert_eq!(c.answer(), "[1, 50000, 0]");
    client.story(&[("RLOCK.RELEASE lock c", "1"), ("DBSIZE", "0")]);
}

#[test]
fn natives_and_redissons_are_served_in_one_order() {
    let (server, client) = &mut TestServer::start_and_connect();
    client.story(&[("RLOCK.ACQUIRE lock a 100000 FAIR", "[1, 100000, 0]")]);
    let b = wait(server, "b");
    let mut called = Subscriber::channel(server, "redisson_lock__channel:{lock}:f:1");
    assert_ne!(redisson(client, FAIR_TAKES, "f:1", 30_000, 0), "null");
    let c = wait(server, "c");
    assert_eq!(list(client), r#"["b", "f:1", "c"]"#);
    let info = say(client, "RLOCK.INFO lock");
    let order: Vec<_> = info.match_indices("\"owner\", \"").map(|(at, _)| &info[at + 10..at + 11]).collect();
    assert_eq!(order, ["a", "b", "f", "c"], "{info}");
    assert!(info.contains(r#""via", "redisson""#) && info.contains(r#""waiter-count", 3"#), "{info}");
    b.granted_by(client, "RLOCK.RELEASE lock a");
    client.story(&[("RLOCK.RELEASE lock b", "1"), ("EXISTS lock", "0")]);
    // It is called, and no other client acquires the lock meanwhile.
    assert!(called.next(SOON).is_some());
    client.story(&[
        ("RLOCK.ACQUIRE lock d 1000 FAIR", "null"),
        ("RLOCK.ACQUIRE lock d 1000", "null"),
        ("EXISTS lock", "0"),
    ]);
    assert!(c.still_waits());
    assert_eq!(redisson(client, FAIR_TAKES, "f:1", 30_000, 0), "null");
    assert!(c.still_waits());
    assert_eq!(redisson(client, FAIR_GIVES_BACK, "f:1", 30_000, 0), "1");
    assert_eq!(c.answer(), "[1, 50000, 0]");
    client.story(&[("RLOCK.RELEASE lock c", "1"), ("DBSIZE", "0")]);
}

#[test]
fn a_call_without_waiting_does_not_overtake_redisson_waiters() {
    let (_, client) = &mut TestServer::start_and_connect();
    redisson(client, FAIR_TAKES, "f:1", 30_000, 0);
    assert_ne!(redisson(client, FAIR_TAKES, "f:2", 30_000, 0), "null");
    redisson(client, FAIR_GIVES_BACK, "f:1", 30_000, 0);
    client.story(&[("RLOCK.ACQUIRE lock a 100000 FAIR", "null"), ("EXISTS lock", "0")]);
    // It has the configured time, not the 30 s and more that it had.
    assert!((1..=5_000).contains(&ahead(client, "f:2")));
    assert_eq!(redisson(client, FAIR_TAKES, "f:2", 30_000, 0), "null");
    redisson(client, FAIR_GIVES_BACK, "f:2", 30_000, 0);
    client.story(&[("RLOCK.ACQUIRE lock a 100000 FAIR", "[1, 100000, 0]")]);
}

#[test]
fn a_dead_redisson_waiter_is_passed() {
    let (server, client) = &mut TestServer::builder().conf("rlock.fair-turn-ms", "300").start_and_connect();
    redisson(client, FAIR_TAKES, "f:1", 30_000, 0);
    assert_ne!(redisson(client, FAIR_TAKES, "f:2", 3_600_000, 0), "null");
    assert_ne!(redisson(client, FAIR_TAKES, "f:3", 3_600_000, 0), "null");
    let b = wait(server, "b");
    assert_eq!(list(client), r#"["f:2", "f:3", "b"]"#);
    redisson(client, FAIR_GIVES_BACK, "f:1", 30_000, 0);
    // Each of the two has its 300 ms, and neither takes the lock.
    assert_eq!(b.answer(), "[1, 50000, 0]");
    client.story(&[(&format!("EXISTS {LIST} {DEADLINES}"), "0")]);
}

/// Every way in which a native waiter departs: it leaves the list at once.
#[test]
fn a_native_waiter_that_departs_leaves_the_list() {
    let (server, client) = &mut TestServer::start_and_connect();
    client.story(&[("RLOCK.ACQUIRE lock a 100000", "[1, 100000, 0]")]);
    let b = wait(server, "b");
    client.story(&[("RLOCK.CANCEL lock b", "1"), (&format!("EXISTS {LIST} {DEADLINES}"), "0")]);
    assert_eq!(b.answer(), "null");
    let c = wait(server, "c");
    let d = wait(server, "d");
    say(client, &format!("CLIENT KILL ID {}", c.client_id()));
    eventually_list(client, r#"["d"]"#);
    client.story(&[("RLOCK.ACQUIRE lock e 1000 FAIR BLOCK 200", "null")]);
    assert_eq!(list(client), r#"["d"]"#);
    client.story(&[("RLOCK.ACQUIRE lock e 1000 FAIR ENQUEUE 200 unheard", "[0, 0, 0]")]);
    assert_eq!(list(client), r#"["d", "e"]"#);
    eventually_list(client, r#"["d"]"#);
    // An owner that continues to wait without FAIR keeps its place here, and leaves the list.
    client.story(&[("RLOCK.ACQUIRE lock d 1000 ENQUEUE 0 unheard", "[0, 0, 0]")]);
    assert!(d.answer().starts_with("!UNBLOCKED "));
    client.story(&[(&format!("EXISTS {LIST} {DEADLINES}"), "0")]);
    assert_eq!(waiters(client, "lock"), "d");
}

#[test]
fn a_repeat_keeps_its_place_in_the_list() {
    let (server, client) = &mut TestServer::start_and_connect();
    client.story(&[("RLOCK.ACQUIRE lock a 100000", "[1, 100000, 0]")]);
    let first = wait(server, "b");
    let _c = wait(server, "c");
    let again = wait(server, "b");
    assert!(first.answer().starts_with("!UNBLOCKED "));
    assert_eq!(list(client), r#"["b", "c"]"#);
    again.granted_by(client, "RLOCK.RELEASE lock a");
}

/// Redisson's `tryLock` of an hour lowers all deadlines by an hour when it takes the lock, and the next script drops
/// every waiter that seems dead after that.
#[test]
fn a_native_that_a_script_drops_is_put_back_in_its_place() {
    let (server, client) = &mut TestServer::start_and_connect();
    let hour = 60 * MINUTE;
    redisson(client, FAIR_TAKES, "f:1", 30_000, 0);
    assert_ne!(redisson(client, FAIR_TAKES, "f:2", hour, 0), "null");
    let (b, c) = (wait(server, "b"), wait(server, "c"));
    redisson(client, FAIR_GIVES_BACK, "f:1", hour, 0);
    assert_eq!(redisson(client, FAIR_TAKES, "f:2", hour, 0), "null");
    // A native waiter is the head now, and its deadline is far enough ahead.
    wait_for("a deadline ahead", || {
        say(client, &format!("ZSCORE {DEADLINES} b")) != "null" && ahead(client, "b") > 5 * MINUTE
    });
    // A client whose clock is an hour ahead drops both: they are put back in front of it.
    redisson(client, FAIR_TAKES, "f:3", 30_000, hour);
    eventually_list(client, r#"["b", "c", "f:3"]"#);
    assert!(ahead(client, "b") > 5 * MINUTE);
    // The same when another client deletes both keys.
    say(client, &format!("DEL {LIST} {DEADLINES}"));
    eventually_list(client, r#"["b", "c"]"#);
    redisson(client, FAIR_GIVES_UP, "f:3", hour, 0);
    redisson(client, FAIR_GIVES_BACK, "f:2", 30_000, 0);
    assert_eq!(b.answer(), "[1, 50000, 0]");
    c.granted_by(client, "RLOCK.RELEASE lock b");
    client.story(&[("RLOCK.RELEASE lock c", "1"), ("DBSIZE", "0")]);
}

/// A native waiter at the head with a short wait: no client whose clock is some minutes ahead takes it for dead.
#[test]
fn the_deadline_of_a_native_at_the_head_is_kept_ahead() {
    let (server, client) = &mut TestServer::start_and_connect();
    client.story(&[("RLOCK.ACQUIRE lock a 900000 FAIR", "[1, 900000, 0]"), ("PEXPIRE lock 60000", "1")]);
    let line = "RLOCK.ACQUIRE lock b 50000 FAIR BLOCK 60000";
    let b = Waiting::line(server, line);
    eventually_list(client, r#"["b"]"#);
    assert!(ahead(client, "b") > 5 * MINUTE, "as soon as it stands there");
    redisson(client, FAIR_TAKES, "f:1", 30_000, 0);
    // It is not dropped, nor put back.
    redisson(client, FAIR_TAKES, "f:2", 30_000, 5 * MINUTE);
    assert_eq!(list(client), r#"["b", "f:1", "f:2"]"#);
    b.granted_by(client, "RLOCK.RELEASE lock a");
}

/// An owner that stood in the list before the server was restarted, and asks again, keeps its place.
#[test]
fn an_owner_that_returns_keeps_its_place() {
    let (server, client) = &mut TestServer::start_and_connect();
    say(client, "RLOCK.ACQUIRE lock a 100000");
    let soon = server_time(client) + 60_000;
    for owner in ["b", "c"] {
        say(client, &format!("RPUSH {LIST} {owner}"));
        say(client, &format!("ZADD {DEADLINES} {soon} {owner}"));
    }
    let c = wait(server, "c");
    let b = wait(server, "b");
    assert_eq!(list(client), r#"["b", "c"]"#);
    b.granted_by(client, "RLOCK.RELEASE lock a");
    assert!(c.still_waits());
}

#[test]
fn a_fair_lock_may_be_fenced_and_enqueued() {
    let (_server, client, grants) = &mut TestServer::start_and_listen("grants");
    client.story(&[
        ("RLOCK.ACQUIRE lock a 100000 FAIR", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE lock b 50000 FAIR FENCED ENQUEUE 0 grants", "[0, 0, 0]"),
        ("RLOCK.RELEASE lock a", "1"),
    ]);
    let message = grants.next_text();
    assert!(message.starts_with("granted 0 b lock 1 5000 1"), "{message}");
    client.story(&[("RLOCK.RENEW lock b 50000", "1"), (&format!("EXISTS {LIST} {DEADLINES}"), "0")]);
}

#[test]
fn fair_goes_with_plain_locks_only() {
    let (_, client) = &mut TestServer::start_and_connect();
    let refused = "!ERR FAIR excludes READ and WRITE; leave FAIR out";
    client.story(&[
        ("RLOCK.ACQUIRE lock a 5 FAIR READ", refused),
        ("RLOCK.ACQUIRE lock a 5 WRITE FAIR BLOCK 0", refused),
        ("RLOCK.RELEASE lock a FAIR", "!ERR unknown option 'FAIR'; see COMMAND DOCS"),
    ]);
    assert_eq!(number(client, "DBSIZE"), 0);
}
