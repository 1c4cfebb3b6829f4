//! Sharing with waiters by Redisson's protocol: their turns among native hand-offs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use rlock_testkit::prelude::*;
use rlock_testkit::redisson::{GIVES_BACK, TAKES, run};

const UNLOCK_CHANNEL: &str = "redisson_lock__channel:{lock}";

/// A server that yields to Redisson waiters after `grants` hand-offs or `turn_ms`, for `window_ms`.
fn server(grants: u64, turn_ms: u64, window_ms: u64) -> TestServer {
    TestServer::builder().foreign_turns(grants, turn_ms, window_ms).start()
}

/// A connection to a server, and a subscriber of the channel for the grants of natives.
fn natives_at(server: TestServer) -> (TestServer, Connection, Subscriber) {
    let (client, grants) = (server.connect(), Subscriber::channel(&server, "grants"));
    (server, client, grants)
}

/// The owners `first` to `last` wait for the lock, enqueued on one channel.
#[track_caller]
fn enqueue(client: &mut Connection, first: u32, last: u32) {
    for n in first..=last {
        client.story(&[(&format!("RLOCK.ACQUIRE lock n{n} 4000 ENQUEUE 0 grants"), "[0, 0, 0]")]);
    }
}

/// The holder releases the lock.
#[track_caller]
fn release(client: &mut Connection, owner: &str) {
    client.story(&[(&format!("RLOCK.RELEASE lock {owner}"), "1")]);
}

#[track_caller]
fn holder(client: &mut Connection) -> String {
    say(client, "HKEYS lock")
}

/// Hands the lock from `n{first}` to `n{last}`, through all waiters between them.
#[track_caller]
fn hand_on(client: &mut Connection, first: u32, last: u32) {
    for n in first..last {
        release(client, &format!("n{n}"));
        assert_eq!(holder(client), format!(r#"["n{}"]"#, n + 1), "released by n{n}");
    }
}

/// Acquires the lock as Redisson does: tries, and sleeps until a message or the lease end that it received.
fn waits_as_redisson_does(server: &TestServer, owner: &str, within: Duration) -> bool {
    let deadline = Instant::now() + within;
    let (client, mut messages) = (&mut server.connect(), Subscriber::channel(server, UNLOCK_CHANNEL));
    loop {
        let answer = run(client, TAKES, "lock", owner, 100_000);
        if answer == "null" {
            return true;
        }
        let lease = Duration::from_millis(answer.parse().unwrap());
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        messages.next(lease.min(left));
    }
}

/// Natives hand the lock round until told to stop, and count how often they had it.
fn hand_round(server: &TestServer, owner: &str, stop: &AtomicBool, grants: &AtomicU64) {
    let client = &mut server.connect();
    while !stop.load(Ordering::Relaxed) {
        let line = format!("RLOCK.ACQUIRE lock {owner} 30000 BLOCK 9000");
        assert_eq!(say(client, &line), "[1, 30000, 0]");
        grants.fetch_add(1, Ordering::Relaxed);
        release(client, owner);
    }
}

/// Redisson waiters against 20 natives: for each, how many grants and milliseconds it waited.
fn against_natives(server: &TestServer, rounds: u32) -> Vec<(u64, Duration)> {
    let (stop, grants) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let (stop, grants) = (&stop, &grants);
        for n in 0..20 {
            scope.spawn(move || hand_round(server, &format!("native{n}"), stop, grants));
        }
        let client = &mut server.connect();
        wait_for("natives to hand round", || grants.load(Ordering::Relaxed) > 100);
        let mut waits = Vec::new();
        for _ in 0..rounds {
            let (before, begin) = (grants.load(Ordering::Relaxed), Instant::now());
            let taken = waits_as_redisson_does(server, "foreign", SOON);
            waits.push((grants.load(Ordering::Relaxed) - before, begin.elapsed()));
            if taken {
                assert_eq!(holder(client), r#"["foreign"]"#);
                assert_eq!(run(client, GIVES_BACK, "lock", "foreign", 100_000), "1");
            }
        }
        stop.store(true, Ordering::Relaxed);
        waits
    })
}

#[test]
fn the_module_yields_to_redisson_waiters() {
    let server = server(10, 1_000_000, 200);
    for (grants, waited) in against_natives(&server, 10) {
        // A window or two may be missed, where the machine is very busy.
        assert!(grants <= 40, "{grants} native grants went before, in {waited:?}");
    }
    assert!(counter(&server, "foreign_turns") >= 5);
    assert_eq!((counter(&server, "waiters"), counter(&server, "panics")), (0, 0));
}

#[test]
fn the_module_yields_to_redisson_waiters_after_a_time() {
    // The limit of grants is out of reach.
    let server = server(100_000_000, 300, 200);
    for (grants, waited) in against_natives(&server, 4) {
        assert!(waited < Duration::from_secs(3), "{waited:?}, {grants} native grants");
    }
    assert!(counter(&server, "foreign_turns") >= 1);
}

#[test]
fn by_default_the_module_yields_to_redisson_waiters_as_well() {
    let server = TestServer::start();
    for (grants, waited) in against_natives(&server, 5) {
        // The window is short: on a busy machine some may be missed.
        assert!(waited < SOON && grants < 5_000, "{grants} native grants went before, in {waited:?}");
    }
    assert!(counter(&server, "foreign_turns") >= 1);
}

/// A tool that listens to every channel by a pattern counted as a waiting Redisson client: the lock was left free for a window that
/// no client used, and 2,000 hand-offs took 0.66 s instead of 0.13 s.
#[test]
fn a_client_that_listens_by_a_pattern_opens_no_yield_window() {
    let (server, client, _grants) = &mut natives_at(server(2, 1_000_000, 30_000));
    let mut messages = Subscriber::pattern(server, "*");
    client.story(&[ALICE]);
    enqueue(client, 1, 20);
    release(client, "alice");
    hand_on(client, 1, 20);
    assert_eq!(counter(server, "foreign_turns"), 0);
    // Redisson clients may listen at a replica: the messages are published nevertheless.
    assert!(messages.drain().iter().any(|(channel, _)| channel == UNLOCK_CHANNEL.as_bytes()));
}

#[test]
fn the_module_yields_after_the_set_number_of_hand_offs() {
    let (server, client, _grants) = &mut natives_at(server(10, 1_000_000, 30_000));
    let mut messages = Subscriber::channel(server, UNLOCK_CHANNEL);
    client.story(&[ALICE]);
    enqueue(client, 1, 12);
    release(client, "alice");
    hand_on(client, 1, 10);
    // The first lease ended before the lease end that Redisson waiters knew: at most one message for that.
    assert!(messages.drain().len() <= 1);
    let block = Waiting::line(server, "RLOCK.ACQUIRE lock blocked 4000 BLOCK 0");
    release(client, "n10");
    assert_eq!(messages.drain(), [(UNLOCK_CHANNEL.into(), b"0".to_vec())]);
    // The lock is left free: native newcomers queue, and the waiters continue to wait.
    client.story(&[
        ("EXISTS lock", "0"),
        ("RLOCK.ACQUIRE lock eve 4000", "null"),
        ("RLOCK.ACQUIRE lock n11 4000 ENQUEUE 0 grants", "[0, 0, 0]"),
        ("RLOCK.RENEW lock n11 4000", "0"),
        ("EXISTS lock", "0"),
    ]);
    enqueue(client, 13, 13);
    assert_eq!(waiters(client, "lock"), "n11 n12 blocked n13");
    assert_eq!(run(client, TAKES, "lock", "foreign", 100_000), "null");
    client.story(&[("RLOCK.ACQUIRE lock eve 4000", "null")]);
    assert_eq!((holder(client), counter(server, "foreign_turns")), (r#"["foreign"]"#.into(), 1));
    // Once released, it goes to the next at once, and not at the end of the window.
    assert_eq!(run(client, GIVES_BACK, "lock", "foreign", 100_000), "1");
    wait_for("the next to have it", || holder(client) == r#"["n11"]"#);
    hand_on(client, 11, 12);
    release(client, "n12");
    assert_eq!(block.answer(), "[1, 4000, 0]");
    assert_eq!(counter(server, "foreign_turns"), 1);
}

#[test]
fn two_natives_that_take_turns_leave_some_to_others() {
    let (server, client, _grants) = &mut natives_at(server(10, 1_000_000, 30_000));
    let _listener = Subscriber::channel(server, UNLOCK_CHANNEL);
    client.story(&[("RLOCK.ACQUIRE lock n0 4000", "[1, 4000, 0]")]);
    for n in 0..10 {
        // The one waits while the other holds: the lock is never free, and never more than one waits.
        enqueue(client, n + 1, n + 1);
        hand_on(client, n, n + 1);
    }
    enqueue(client, 11, 11);
    release(client, "n10");
    assert_eq!((counter(server, "foreign_turns"), counter(server, "hand_offs")), (1, 10));
    client.story(&[("EXISTS lock", "0")]);
}

#[test]
fn without_a_listener_no_waiter_is_delayed() {
    let (server, client, _grants) = &mut natives_at(server(1, 1, 60_000));
    // A subscriber of another lock's channel does not count.
    let _other = Subscriber::channel(server, "redisson_lock__channel:{other}");
    client.story(&[ALICE]);
    enqueue(client, 1, 200);
    let begin = Instant::now();
    release(client, "alice");
    hand_on(client, 1, 200);
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    assert_eq!((counter(server, "foreign_turns"), counter(server, "hand_offs")), (0, 200));
    release(client, "n200");
    client.story(&[("EXISTS lock", "0")]);
}

#[test]
fn an_unused_yield_window_ends() {
    let (server, client, grants) = &mut natives_at(server(2, 1_000_000, 300));
    let mut messages = Subscriber::channel(server, UNLOCK_CHANNEL);
    client.story(&[ALICE]);
    enqueue(client, 1, 7);
    release(client, "alice");
    hand_on(client, 1, 2);
    assert_eq!(grants.drain().len(), 2);
    messages.drain();
    let begin = Instant::now();
    release(client, "n2");
    client.story(&[("EXISTS lock", "0")]);
    assert_eq!(messages.drain().len(), 1);
    // No command comes meanwhile: the timer ends the window.
    let (_, granted) = grants.next(SOON).expect("a grant");
    let waited = begin.elapsed();
    assert_eq!(granted, b"granted 0 n3 lock 1 4000 0");
    assert!((299..5_000).contains(&waited.as_millis()), "{waited:?}");
    assert_eq!((holder(client), counter(server, "foreign_turns")), (r#"["n3"]"#.into(), 1));
    // The grants are counted anew, and the next turn comes.
    hand_on(client, 3, 4);
    assert_eq!(counter(server, "foreign_turns"), 1);
    release(client, "n4");
    client.story(&[("EXISTS lock", "0")]);
    assert_eq!(counter(server, "foreign_turns"), 2);
}

#[test]
fn without_a_window_there_are_no_turns() {
    let (server, client, _grants) = &mut natives_at(server(1, 1, 0));
    let _listener = Subscriber::channel(server, UNLOCK_CHANNEL);
    client.story(&[ALICE]);
    enqueue(client, 1, 50);
    release(client, "alice");
    hand_on(client, 1, 50);
    assert_eq!((counter(server, "foreign_turns"), counter(server, "hand_offs")), (0, 50));
}
