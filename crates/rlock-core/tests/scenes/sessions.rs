//! Sessions whose ends came at the wrong moment.

use rlock_core::commands::Answer;
use rlock_core::locks::{Limits, LockRef, Turns};
use rlock_core::request::{Acquire, DownTo, Release, Wait};
use rlock_core::settings::Settings;
use rlock_core::{Holds, Owner, PermitLimit, Reply, WaitMs, Wanted, sessions};
use rlock_sim::{Sim, Value};

use crate::fair_scene::{asks, lease, settings};

const LEASE: i64 = 60_000;
const GRACE: i64 = 100;

fn lock() -> LockRef {
    LockRef { db: 0, key: b"lock"[..].into() }
}

/// A server with a subscriber of the channel of grants.
fn sim() -> Sim {
    let sim = Sim::new(Settings {
        limits: Limits { server: 1_000, lock: 1_000, user: usize::MAX },
        grant_confirm: lease(5_000),
        turns: Turns { after_grants: 100, after_ms: 1_000 },
        fair_turn: lease(1_000),
        ..settings()
    });
    sim.with(|world| world.subscribed.insert(b"channel"[..].into()));
    sim
}

fn acquire(sim: &Sim, connection: u64, owner: &str) -> Reply {
    let request = Acquire {
        session: Some(lease(GRACE)),
        wait: Some(Wait::Enqueue(WaitMs::new(0).expect("a wait"), b"channel")),
        ..asks(owner, LEASE, Wanted::Mutex)
    };
    match sim.acquire(connection, &lock(), &request).expect("an answer") {
        Answer::Now(reply) => reply,
        Answer::Later => panic!("no client is blocked"),
    }
}

fn release(sim: &Sim, owner: &str) {
    let owner = Owner::new(owner.as_bytes()).expect("an owner");
    let request = Release { owner, mode: None, down_to: DownTo::AtMost(0), lease: None };
    assert_eq!(sim.release(&lock(), &request), Ok(Reply::Released));
}

fn holder(sim: &Sim) -> Option<String> {
    sim.with(|world| world.hold(&lock()).map(|hold| hold.owner.escape_ascii().to_string()))
}

/// The grant came before the timer had removed the waiter. The end of its connection was forgotten with its last waiter, and the
/// lock was free when the grant went unconfirmed, five seconds later. (Found by the model.)
#[test]
fn a_grant_to_a_waiter_whose_connection_has_ended_ends_with_the_grace_period() {
    let sim = sim();
    acquire(&sim, 1, "holder");
    assert_eq!(acquire(&sim, 2, "waiter"), Reply::Enqueued);
    sim.end_connection(2);
    release(&sim, "holder");
    assert_eq!(holder(&sim).as_deref(), Some("waiter"));
    sim.pass_and_fire(u64::try_from(GRACE).expect("a time") + 1);
    sim.expire(&lock());
    assert_eq!(holder(&sim), None);
}

/// The older connection asks for the waiter whose younger one has ended: a tie moves away from what is gone. That it was gone was
/// forgotten while the waiter was replaced, so that it waited for ever.
#[test]
fn a_waiter_moves_away_from_a_connection_that_has_ended() {
    let sim = sim();
    acquire(&sim, 1, "holder");
    assert_eq!(acquire(&sim, 3, "waiter"), Reply::Enqueued);
    sim.end_connection(3);
    assert_eq!(acquire(&sim, 2, "waiter"), Reply::Enqueued);
    sim.fire();
    assert_eq!(sim.locks(|locks| locks.calls.waiting()), 1, "it waits by the connection that is there");
    sim.end_connection(2);
    sim.fire();
    assert_eq!(sim.locks(|locks| locks.calls.waiting()), 0);
}

/// The lease was shortened, and its end was not announced yet, when the server became a replica. The announcement is
/// forgotten with the last tie, and no tie was left: the timer of the replica was due at once for ever. (Found by the
/// fuzzer's oracle.)
#[test]
fn a_replica_announces_no_lease_end() {
    let sim = sim();
    acquire(&sim, 1, "holder");
    sim.end_connection(1);
    sim.fire();
    sim.demote();
    sim.pass_and_fire(u64::try_from(GRACE).expect("a time") + 10);
    assert_eq!(sim.with(|world| world.timer), None);
}

/// A permit that has ended stays in the sorted set for a while, and its tie in memory. Its owner took the next one on an older
/// connection: that was tied to the younger one still, and ended with it. (Found by the fuzzer's oracle.)
#[test]
fn a_permit_is_not_tied_as_the_one_before_it_that_has_ended() {
    let sim = sim();
    let permit = |connection, owner: &str, ms| {
        let request = Acquire {
            session: Some(lease(GRACE)),
            ..asks(owner, ms, Wanted::Permit(PermitLimit::new(2).expect("a limit")))
        };
        let answer = sim.acquire(connection, &lock(), &request);
        assert!(matches!(answer, Ok(Answer::Now(Reply::Acquired { .. }))), "{answer:?}");
    };
    permit(1, "other", LEASE);
    permit(3, "owner", 10);
    sim.pass(20);
    permit(2, "owner", LEASE);
    sim.end_connection(3);
    sim.fire();
    sim.pass_and_fire(u64::try_from(GRACE).expect("a time") + 1);
    assert_eq!(sim.with(|world| world.living_permits(&lock()).len()), 2);
}

/// A reader with more holds than one look reads counts as alive until the lock's key ends. Each of its lease keys is read to find
/// that, and all of them counted as one: the server stood still for half a second while thousands of these readers were tied.
#[test]
fn the_sweep_of_ties_counts_the_lease_keys_that_it_reads() {
    let (sim, read) = (sim(), LockRef { db: 0, key: b"read"[..].into() });
    let tied = |connection, lock, wanted| {
        let request = Acquire { session: Some(lease(GRACE)), ..asks("owner", LEASE, wanted) };
        sim.acquire(connection, lock, &request).expect("an answer");
    };
    tied(1, &read, Wanted::Read);
    tied(2, &lock(), Wanted::Mutex);
    sim.with(|world| {
        if let Some(Value::ReadWrite(value)) = world.keys.get_mut(&read) {
            value.reads.values_mut().for_each(|holds| *holds = Holds::new(1_001).expect("a number of holds"));
        }
        world.read_leases.clear();
        world.keys.remove(&lock());
    });
    let ties_after_beat = || {
        sessions::on_beat(sim.node());
        sim.locks(|locks| locks.sessions.tie_count())
    };
    assert_eq!([ties_after_beat(), ties_after_beat()], [2, 1]);
}
