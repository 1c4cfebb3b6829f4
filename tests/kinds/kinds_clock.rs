//! Wall clocks that step, for every kind of lock.

use std::time::SystemTime;

use rlock_testkit::kinds::{All, KINDS, at_once};
use rlock_testkit::prelude::*;
use rlock_testkit::redisson;

const HOUR: i64 = 3_600;

fn builder() -> ServerBuilder {
    TestServer::builder().with_a_clock_that_steps()
}

/// Steps the clock, and waits until the server has seen it: some read the clock only at times.
#[track_caller]
fn step(server: &TestServer, client: &mut Connection, ahead: i64) {
    server.set_clock_ahead(ahead);
    eventually("the server's clock to step", SOON, || {
        let real = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let ahead_by = server_time(client) / 1_000 - i64::try_from(real).unwrap();
        ((ahead - 60..ahead + 60).contains(&ahead_by)).then_some(())
    });
}

/// The holders release all locks, and bob has each.
#[track_caller]
fn are_handed_on(all: &All, client: &mut Connection, after: &str) {
    at_once(client, &all.releases());
    all.bobs_have_them(client, after);
}

#[test]
fn a_step_forward_past_the_leases_wakes_the_next() {
    let (server, client) = &mut builder().start_and_connect();
    let all = All::held_for(600_000, server, client);
    // The server's timers have a clock of their own: one for the end of this lease would fire in ten minutes.
    step(server, client, HOUR);
    for (kind, bob) in &all.0 {
        kind.granted(bob, "a step forward");
        kind.is_held_by(client, kind.name, "bob", "a step forward");
        client.story(&[(&format!("PTTL {}", kind.name), "~50000")]);
    }
}

#[test]
fn a_step_forward_ends_no_wait() {
    let (server, client) = &mut builder().start_and_connect();
    let all = All::held_for(36_000_000, server, client);
    step(server, client, HOUR);
    all.wait_on(Duration::from_millis(500));
    are_handed_on(&all, client, "a step forward");
}

#[test]
fn a_step_back_delays_neither_the_end_of_a_wait_nor_a_hand_off() {
    let (server, client) = &mut builder().start_and_connect();
    let all = All::held_for(600_000, server, client);
    let start = Instant::now();
    let short: Vec<_> = KINDS
        .map(|kind| {
            let line = format!("{} BLOCK 1000", kind.ask(kind.name, "short"));
            (kind, Waiting::line(server, &line))
        })
        .into();
    step(server, client, -HOUR);
    for (kind, waiting) in &short {
        assert_eq!(waiting.answer(), "null", "{kind:?}");
    }
    let waited = start.elapsed();
    assert!(waited >= Duration::from_millis(980), "a wait was cut short: {waited:?}");
    are_handed_on(&all, client, "a step back");
}

#[test]
fn leases_that_end_after_a_step_back_wake_the_next() {
    let (server, client) = &mut builder().start_and_connect();
    step(server, client, HOUR);
    let all = All::held_for(2_000, server, client);
    // Now the leases end in an hour and two seconds by the server's clock; then the clock is put right.
    step(server, client, 0);
    all.wait_on(Duration::from_millis(500));
    step(server, client, HOUR);
    all.bobs_have_them(client, "a lease that ended");
}

/// The end of a turn was kept by the wall clock. If that was set back a little, the turn lasted longer; if it was set back
/// much, or forward, the turn ended at once, and the Redisson clients that were called came too late.
#[test]
fn a_turn_of_redisson_waiters_lasts_as_long_whichever_way_the_clock_steps() {
    for ahead in [HOUR, -HOUR] {
        let server = builder().conf("rlock.foreign-turn-grants", 1).conf("rlock.foreign-window-ms", 2_000);
        let (server, client) = &mut server.start_and_connect();
        let _redisson = Subscriber::channel(server, "redisson_lock__channel:{lock}");
        client.story(&[("RLOCK.ACQUIRE lock alice 9000000", "[1, 9000000, 0]")]);
        let wait = |owner| Waiting::line(server, &format!("RLOCK.ACQUIRE lock {owner} 9000000 BLOCK 0"));
        let (bob, carol) = (wait("bob"), wait("carol"));
        bob.granted_by(client, "RLOCK.RELEASE lock alice");
        let start = Instant::now();
        client.story(&[("RLOCK.RELEASE lock bob", "1"), ("EXISTS lock", "0")]);
        step(server, client, ahead);
        assert_eq!(carol.answer(), "[1, 9000000, 0]");
        let waited = start.elapsed();
        assert!(waited >= Duration::from_millis(1_900), "{ahead}: the turn was cut short: {waited:?}");
    }
}

/// Readers that wait for a Redisson writer have the lock when the yield window is over, whichever way the clock steps.
#[test]
fn a_turn_of_redissons_writers_lasts_as_long_whichever_way_the_clock_steps() {
    for ahead in [HOUR, -HOUR] {
        let server = builder().conf("rlock.foreign-turn-grants", 1).conf("rlock.foreign-window-ms", 900);
        let (server, client) = &mut server.start_and_connect();
        let _foreign = Subscriber::channel(server, "redisson_rwlock:{lock}");
        client.story(&[("RLOCK.ACQUIRE lock alice 9000000 READ", "[1, 9000000, 0]")]);
        let bob = Waiting::line(server, "RLOCK.ACQUIRE lock bob 9000000 READ BLOCK 0");
        assert!(bob.still_waits());
        let start = Instant::now();
        client.story(&[("RLOCK.RELEASE lock alice", "1"), ("EXISTS lock", "0")]);
        step(server, client, ahead);
        assert_eq!(bob.answer(), "[1, 9000000, 0]");
        let waited = start.elapsed();
        assert!(waited >= Duration::from_millis(800), "{ahead}: the turn was cut short: {waited:?}");
    }
}

/// The deadlines in Redisson's list are by wall clocks, as its clients have them. A step ends the turn of a Redisson
/// waiter, or begins it anew; the turn never lasts for as long as the clock was set back.
#[test]
fn a_turn_at_the_head_of_a_fair_list_ends_whichever_way_the_clock_steps() {
    for ahead in [HOUR, -HOUR] {
        let (server, client) = &mut builder().conf("rlock.fair-turn-ms", 1_000).start_and_connect();
        client.story(&[("RLOCK.ACQUIRE lock alice 9000000 FAIR", "[1, 9000000, 0]")]);
        let now = server_time(client);
        redisson::run_fair(client, redisson::FAIR_TAKES, "lock", "f:1", 300_000, now);
        let bob = Waiting::line(server, "RLOCK.ACQUIRE lock bob 9000000 FAIR BLOCK 0");
        client.story(&[("RLOCK.RELEASE lock alice", "1"), ("EXISTS lock", "0")]);
        step(server, client, ahead);
        assert_eq!(bob.answer(), "[1, 9000000, 0]", "{ahead}");
        client.story(&[("RLOCK.RELEASE lock bob", "1")]);
        assert_eq!(number(client, "DBSIZE"), 0);
    }
}

/// Natives that stand in Redisson's list keep their places when the clock steps past all deadlines in it, and one of
/// Redisson's own scripts drops them.
#[test]
fn natives_in_a_fair_list_keep_their_places_whichever_way_the_clock_steps() {
    for ahead in [HOUR, -HOUR] {
        let (server, client) = &mut builder().start_and_connect();
        client.story(&[("RLOCK.ACQUIRE lock alice 90000000 FAIR", "[1, 90000000, 0]")]);
        let wait = |owner| Waiting::line(server, &format!("RLOCK.ACQUIRE lock {owner} 9000000 FAIR BLOCK 0"));
        let (bob, carol) = (wait("bob"), wait("carol"));
        step(server, client, ahead);
        let now = server_time(client);
        redisson::run_fair(client, redisson::FAIR_TAKES, "lock", "f:1", 300_000, now);
        wait_for("the list as it was", || {
            say(client, "LRANGE redisson_lock_queue:{lock} 0 -1") == r#"["bob", "carol", "f:1"]"#
        });
        bob.granted_by(client, "RLOCK.RELEASE lock alice");
        carol.granted_by(client, "RLOCK.RELEASE lock bob");
    }
}
