//! Much to do outside commands at once: no callback takes the server's time for all of it.

use rlock_core::fair::Entry;
use rlock_core::port::{AtOnce, Settings};
use rlock_core::queue::{Limits, LockId, Turns};
use rlock_core::request::{Acquire, DownTo, Release, Wait};
use rlock_core::{Admission, LeaseMs, Mode, Owner, UnixMs, WaitMs, leave, timer};
use rlock_sim::Sim;

const HOUR: i64 = 3_600_000;

fn lease(ms: i64) -> LeaseMs {
    LeaseMs::new(ms).expect("a lease")
}

fn sim() -> Sim {
    Sim::new(Settings {
        admission: Admission::Open,
        limits: Limits { server: 1_000_000, lock: 1_000 },
        grant_confirm: lease(500),
        turns: Turns { after_grants: 100, after_ms: 1_000 },
        foreign_window: Some(lease(20)),
        fair_turn: lease(1_000),
        at_once: AtOnce::USUAL,
    })
}

fn lock(number: usize) -> LockId {
    LockId { db: 0, key: format!("lock{number}").into_bytes().into() }
}

/// The whole search after a restart may fall into a time in which the server refuses writes, since its replicas have not
/// come back yet.
#[test]
fn fair_lists_that_are_found_are_looked_at_a_few_at_a_time() {
    const LISTS: usize = 3_000;
    let sim = sim();
    let far = Entry { owner: (*b"gone").into(), deadline: Some(UnixMs(24 * HOUR)) };
    for number in 0..LISTS {
        sim.with(|world| world.fair.insert(lock(number), [far.clone()].into()));
        timer::fair_queue_found(&sim, lock(number));
    }
    let capped = || {
        let is_capped = |entry: &Entry| entry.deadline.is_some_and(|at| at < UnixMs(HOUR));
        sim.with(|world| world.fair.values().filter(|list| list.iter().all(is_capped)).count())
    };
    sim.fire();
    assert!((1..=1_000).contains(&capped()), "{} at once", capped());
    sim.pass_and_fire(1_000);
    assert_eq!(capped(), LISTS);
    assert!(sim.with(|world| world.timer.is_none()), "there is nothing left to do");
}

/// When a server is drained that many wait at with FAIR, each of them leaves a list.
#[test]
fn those_who_waited_with_fair_leave_their_lists_a_few_at_a_time() {
    const LOCKS: usize = 3_000;
    let sim = sim();
    for number in 0..LOCKS {
        for (owner, wait) in [("holder", None), ("waiter", Some(WaitMs::new(0).expect("a wait")))] {
            let request = Acquire {
                owner: Owner::new(owner.as_bytes()).expect("an owner"),
                lease: lease(HOUR),
                mode: Mode::Mutex,
                arrive_at: None,
                fair: true,
                fenced: false,
                wait: wait.map(Wait::Block),
            };
            sim.acquire(1, &lock(number), &request).expect("an answer");
        }
    }
    let stand = || sim.with(|world| world.fair.values().filter(|list| !list.is_empty()).count());
    assert_eq!(stand(), LOCKS);
    leave::drain(&sim);
    sim.fire();
    assert!(stand() >= LOCKS - 1_000, "{} left their lists at once", LOCKS - stand());
    sim.pass_and_fire(10_000);
    assert_eq!(stand(), 0);
}

/// Waiters left one queue a few at a time, and the timer looked at that lock first in each cycle: the lease of another lock
/// ended, and the lock was granted when that queue was empty.
#[test]
fn a_queue_that_is_not_done_comes_behind_the_locks_that_were_due_before() {
    const WAITERS: usize = 1_000;
    let (many, other) = (lock(0), lock(1));
    for fair in [false, true] {
        let sim = sim();
        let ask = |lock: &LockId, owner: &str, lease_ms, wait| {
            let request = Acquire {
                owner: Owner::new(owner.as_bytes()).expect("an owner"),
                lease: lease(lease_ms),
                mode: Mode::Mutex,
                arrive_at: None,
                fair,
                fenced: false,
                wait,
            };
            sim.acquire(1, lock, &request).expect("an answer");
        };
        let for_ever = WaitMs::new(0).expect("a wait");
        ask(&many, "holder", HOUR, None);
        (0..WAITERS).for_each(|n| {
            ask(&many, &format!("w{n}"), HOUR, Some(Wait::Enqueue(for_ever, b"unheard")));
        });
        ask(&other, "holder", 5, None);
        ask(&other, "next", HOUR, Some(Wait::Block(for_ever)));
        let owner = Owner::new(b"holder").expect("an owner");
        let release = Release { owner, mode: None, down_to: DownTo::AtMost(0), lease: None };
        sim.release(&many, &release).expect("an answer");
        sim.pass(6);
        let next_has_it = || sim.with(|world| world.hold(&other).is_some_and(|hold| *hold.owner == *b"next"));
        for _ in 0..3 {
            sim.fire();
            sim.pass(1);
        }
        assert!(next_has_it(), "fair: {fair}");
        assert!(sim.with(|world| world.queues.waiting_for(&many)) > WAITERS / 2, "the work is bounded");
        sim.pass_and_fire(100);
        assert_eq!(sim.with(|world| world.queues.waiting_for(&many)), 0);
    }
}
