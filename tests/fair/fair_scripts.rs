//! FAIR: what Redisson's scripts do to the native entries behind and before their own entry, when they give up, try
//! without waiting, and release by force.

use rlock_testkit::fair_list::{HOUR, MINUTE, ahead, deadline};
use rlock_testkit::prelude::*;
use rlock_testkit::redisson::{FAIR_FORCED, FAIR_GIVES_BACK, FAIR_GIVES_UP, FAIR_TAKES, FAIR_TRIES};

use crate::scene::{DEADLINES, LIST, eventually_list, redisson, scene, wait};

/// Each in turn has the lock and releases it; nothing is left in the end.
#[track_caller]
fn are_served(client: &mut Connection, first: &str, waiting: &[(&str, &Waiting)]) {
    let mut before = first;
    for (owner, waiting) in waiting {
        assert!(waiting.still_waits(), "{owner} before {before}");
        waiting.granted_by(client, &format!("RLOCK.RELEASE lock {before}"));
        before = owner;
    }
    client.story(&[(&format!("RLOCK.RELEASE lock {before}"), "1"), ("DBSIZE", "0")]);
}

/// One that gives up lowers the deadlines of all behind it by what it would have waited, which was added to them.
#[test]
fn one_that_gives_up_before_natives_lowers_their_deadlines() {
    let (server, client) = &mut scene();
    let b = wait(server, "b");
    assert_ne!(redisson(client, FAIR_TAKES, "f:1", 5 * MINUTE, 0), "null");
    let (c, d) = (wait(server, "c"), wait(server, "d"));
    eventually_list(client, r#"["b", "f:1", "c", "d"]"#);
    let before = ["b", "c", "d"].map(|owner| deadline(client, owner));
    redisson(client, FAIR_GIVES_UP, "f:1", 5 * MINUTE, 0);
    eventually_list(client, r#"["b", "c", "d"]"#);
    let after = ["b", "c", "d"].map(|owner| deadline(client, owner));
    // As if it had never stood there.
    assert_eq!([0, 1, 2].map(|n| before[n] - after[n]), [0, 5 * MINUTE, 5 * MINUTE]);
    assert!(after.is_sorted(), "{after:?}");
    are_served(client, "a", &[("b", &b), ("c", &c), ("d", &d)]);
}

/// A waiter with a wait of an hour lowers the deadlines by an hour when it gives up, and those behind it seem dead.
#[test]
fn natives_behind_one_that_gives_up_seem_dead_and_keep_their_places() {
    let (server, client) = &mut scene();
    assert_ne!(redisson(client, FAIR_TAKES, "f:1", 5 * MINUTE, 0), "null");
    let (b, c) = (wait(server, "b"), wait(server, "c"));
    redisson(client, FAIR_GIVES_UP, "f:1", HOUR, 0);
    // The head's is set ahead at once; the one behind it is dead by the numbers.
    wait_for("a deadline ahead", || ahead(client, "b") > 5 * MINUTE);
    assert!(ahead(client, "c") < 0);
    assert_ne!(redisson(client, FAIR_TAKES, "f:2", 5 * MINUTE, 0), "null");
    eventually_list(client, r#"["b", "c", "f:2"]"#);
    // c is the head now. Whether or not its deadline was checked: a script that drops it finds it there the next time.
    b.granted_by(client, "RLOCK.RELEASE lock a");
    redisson(client, FAIR_TAKES, "f:2", 5 * MINUTE, 0);
    eventually_list(client, r#"["c", "f:2"]"#);
    wait_for("a deadline ahead", || ahead(client, "c") > 5 * MINUTE);
    redisson(client, FAIR_GIVES_UP, "f:2", 5 * MINUTE, 0);
    are_served(client, "b", &[("c", &c)]);
}

/// In its turn one that gives up leaves the lock to the native behind it at once.
#[test]
fn one_that_gives_up_in_its_turn_leaves_the_lock_to_the_native_behind_it() {
    let (server, client) = &mut scene();
    assert_ne!(redisson(client, FAIR_TAKES, "f:1", HOUR, 0), "null");
    let (b, c) = (wait(server, "b"), wait(server, "c"));
    client.story(&[("RLOCK.RELEASE lock a", "1"), ("EXISTS lock", "0")]);
    assert!(b.still_waits());
    redisson(client, FAIR_GIVES_UP, "f:1", HOUR, 0);
    assert_eq!(b.answer(), "[1, 50000, 0]");
    are_served(client, "b", &[("c", &c)]);
}

#[test]
fn a_try_without_waiting_overtakes_no_waiter() {
    let (server, client) = &mut scene();
    let mut called = Subscriber::channel(server, "redisson_lock__channel:{lock}:f:1");
    let (b, c) = (wait(server, "b"), wait(server, "c"));
    assert_ne!(redisson(client, FAIR_TAKES, "f:1", 5 * MINUTE, 0), "null");
    let before = ["b", "c", "f:1"].map(|owner| deadline(client, owner));
    assert_eq!(redisson(client, FAIR_TRIES, "f:2", 5 * MINUTE, 0), "1");
    assert_eq!(["b", "c", "f:1"].map(|owner| deadline(client, owner)), before);
    // A clock an hour ahead takes all for dead: f:1 is gone by that, the natives are put back.
    assert_eq!(redisson(client, FAIR_TRIES, "f:2", 5 * MINUTE, HOUR), "1");
    eventually_list(client, r#"["b", "c"]"#);
    assert_ne!(redisson(client, FAIR_TAKES, "f:1", 5 * MINUTE, 0), "null");
    b.granted_by(client, "RLOCK.RELEASE lock a");
    c.granted_by(client, "RLOCK.RELEASE lock b");
    // The turn of f:1: the lock is free, and only for f:1.
    client.story(&[("RLOCK.RELEASE lock c", "1"), ("EXISTS lock", "0")]);
    assert!(called.next(SOON).is_some());
    assert_eq!(redisson(client, FAIR_TRIES, "f:2", 5 * MINUTE, 0), "1");
    assert_eq!(redisson(client, FAIR_TRIES, "f:1", 5 * MINUTE, 0), "null");
    assert_eq!(redisson(client, FAIR_TRIES, "f:1", 5 * MINUTE, 0), "null");
    client.story(&[("HGET lock f:1", "\"2\""), (&format!("EXISTS {LIST} {DEADLINES}"), "0")]);
}

/// The only way past natives: a lock that is free, for the turn of a waiter before them, and a clock far ahead.
#[test]
fn one_that_tries_with_a_clock_ahead_passes_natives_once() {
    let (server, client) = &mut scene();
    assert_ne!(redisson(client, FAIR_TAKES, "f:1", 5 * MINUTE, 0), "null");
    let (b, c) = (wait(server, "b"), wait(server, "c"));
    client.story(&[("RLOCK.RELEASE lock a", "1"), ("EXISTS lock", "0")]);
    // All are dropped, and what the script lowers is nothing any more.
    assert_eq!(redisson(client, FAIR_TRIES, "f:2", HOUR, HOUR), "null");
    eventually_list(client, r#"["b", "c"]"#);
    assert!(ahead(client, "b") > 5 * MINUTE && b.still_waits());
    // Not twice.
    assert_eq!(redisson(client, FAIR_GIVES_BACK, "f:2", HOUR, 0), "1");
    assert_eq!(b.answer(), "[1, 50000, 0]");
    assert_eq!(redisson(client, FAIR_TRIES, "f:2", HOUR, HOUR), "1");
    eventually_list(client, r#"["c"]"#);
    are_served(client, "b", &[("c", &c)]);
}

#[test]
fn a_lock_released_by_force_goes_to_the_head_of_the_list() {
    let (server, client) = &mut scene();
    let mut called = Subscriber::channel(server, "redisson_lock__channel:{lock}:f:1");
    let b = wait(server, "b");
    assert_ne!(redisson(client, FAIR_TAKES, "f:1", 5 * MINUTE, 0), "null");
    let c = wait(server, "c");
    assert_eq!(redisson(client, FAIR_FORCED, "f:9", 5 * MINUTE, 0), "1");
    assert_eq!(b.answer(), "[1, 50000, 0]");
    eventually_list(client, r#"["f:1", "c"]"#);
    // Then it is the turn of f:1, which the script has called.
    assert_eq!(redisson(client, FAIR_FORCED, "f:9", 5 * MINUTE, 0), "1");
    assert!(called.next(SOON).is_some());
    assert!(c.still_waits());
    // Nothing is left to release.
    assert_eq!(redisson(client, FAIR_FORCED, "f:9", 5 * MINUTE, 0), "0");
    assert_eq!(redisson(client, FAIR_TAKES, "f:1", 5 * MINUTE, 0), "null");
    // Where its clock is an hour ahead all seem dead, and the lock is deleted: c is put back and has it.
    assert_eq!(redisson(client, FAIR_FORCED, "f:9", 5 * MINUTE, HOUR), "1");
    assert_eq!(c.answer(), "[1, 50000, 0]");
    client.story(&[("RLOCK.RELEASE lock c", "1"), ("DBSIZE", "0")]);
}

/// A native owner whose lock is released by force learns it, and the waiters are served as ever.
#[test]
fn natives_force_a_fair_lock_of_redissons() {
    let (server, client) = &mut scene();
    client.story(&[("RLOCK.RELEASE lock a", "1")]);
    assert_eq!(redisson(client, FAIR_TRIES, "f:1", 5 * MINUTE, 0), "null");
    let b = wait(server, "b");
    assert_ne!(redisson(client, FAIR_TAKES, "f:2", 5 * MINUTE, 0), "null");
    let c = wait(server, "c");
    b.granted_by(client, "RLOCK.FORCERELEASE lock f:1");
    assert_eq!(redisson(client, FAIR_GIVES_BACK, "f:1", 5 * MINUTE, 0), "null");
    client.story(&[("RLOCK.FORCERELEASE lock", "1"), ("EXISTS lock", "0")]);
    assert!(c.still_waits());
    assert_eq!(redisson(client, FAIR_TAKES, "f:2", 5 * MINUTE, 0), "null");
    assert_eq!(redisson(client, FAIR_GIVES_BACK, "f:2", 5 * MINUTE, 0), "1");
    assert_eq!(c.answer(), "[1, 50000, 0]");
    client.story(&[("RLOCK.RELEASE lock c", "1"), ("DBSIZE", "0")]);
}
