//! Much to do outside commands at once: no callback takes the server's time for all of it.

use rlock_core::fair::Entry;
use rlock_core::port::{AtOnce, Settings};
use rlock_core::queue::{Limits, LockId, Turns};
use rlock_core::request::{Acquire, Wait};
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
