//! SWAPDB beside FAIR waiters: they stay in their database, and their fair list goes.

use rlock_core::Wanted;
use rlock_core::commands::Answer;
use rlock_core::locks::{Limits, LockRef};
use rlock_core::request::{Acquire, Wait};
use rlock_core::settings::Settings;
use rlock_sim::Sim;

use crate::fair_scene::{LEASE, asks, block, settings};

fn sim() -> Sim {
    Sim::new(Settings { limits: Limits { server: 10_000, lock: 10_000, user: usize::MAX }, ..settings() })
}

fn lock(db: i32) -> LockRef {
    LockRef { db, key: (*b"k").into() }
}

fn acquire(sim: &Sim, db: i32, owner: &str, wait: Option<Wait<'_>>) -> Answer {
    let request = Acquire { fair: true, wait, ..asks(owner, LEASE, Wanted::Mutex) };
    sim.acquire(1, &lock(db), &request).expect("an answer")
}

#[track_caller]
fn waits(sim: &Sim, db: i32, owner: &str) {
    assert_eq!(acquire(sim, db, owner, block()), Answer::Later, "{owner}");
}

#[track_caller]
fn takes(sim: &Sim, db: i32, owner: &str) {
    let answer = acquire(sim, db, owner, None);
    assert!(matches!(answer, Answer::Now(rlock_core::Reply::Acquired { .. })), "{owner}: {answer:?}");
}

fn listed(sim: &Sim, db: i32) -> String {
    let name = |owner: &[u8]| owner.escape_ascii().to_string();
    let names = sim.with(|world| {
        let list = world.fair.get(&lock(db)).into_iter().flatten();
        list.map(|entry| name(&entry.owner)).collect::<Vec<_>>()
    });
    names.join(" ")
}

fn settle(sim: &Sim) {
    for _ in 0..10_000 {
        if !sim.timer_is_due() {
            return;
        }
        sim.fire();
    }
    panic!("the timer is due at once again and again");
}

/// One database is held by `h`, with these waiters; the other one is empty.
fn scene(owners: &[&str]) -> Sim {
    let sim = sim();
    takes(&sim, 0, "h");
    owners.iter().for_each(|owner| waits(&sim, 0, owner));
    settle(&sim);
    sim
}

/// The entry of a waiter that the exchange freed stayed in the list that had gone: there it was taken for that of a
/// Redisson waiter, which had its turn while natives waited at a free lock.
#[test]
fn a_waiter_that_the_exchange_grants_leaves_the_list_that_moved() {
    for at_once in [true, false] {
        let sim = scene(&["a", "b"]);
        sim.swap([0, 1]);
        if !at_once {
            settle(&sim);
            assert_eq!((&*listed(&sim, 0), &*listed(&sim, 1)), ("b", ""));
        }
        sim.write_as_other(&lock(1), None);
        takes(&sim, 1, "c");
        settle(&sim);
        assert!(sim.with(|world| world.called.is_empty()), "at once: {at_once}");
        assert_eq!((&*listed(&sim, 0), &*listed(&sim, 1)), ("b", ""));
    }
}

/// The same owner may wait in both: its entries were exchanged.
#[test]
fn a_waiter_in_both_databases_stays_in_both_lists() {
    let sim = scene(&["a", "b"]);
    takes(&sim, 1, "g");
    for owner in ["c", "b"] {
        waits(&sim, 1, owner);
    }
    for _ in 0..2 {
        sim.swap([1, 0]);
        settle(&sim);
        let sorted = |db| {
            let list = listed(&sim, db);
            let mut names: Vec<_> = list.split(' ').map(str::to_owned).collect();
            names.sort_unstable();
            names.join(" ")
        };
        assert_eq!((&*sorted(0), &*sorted(1)), ("a b", "b c"));
    }
}

/// A few at a time, whatever happens meanwhile.
#[test]
fn many_entries_leave_a_few_at_a_time() {
    const COUNT: usize = 3_000;
    let owners: Vec<_> = (0..COUNT).map(|number| format!("w{number}")).collect();
    for swaps in [&[[0, 1]][..], &[[0, 1], [1, 2]], &[[0, 1], [0, 1]], &[[0, 2], [0, 1], [2, 1]]] {
        let sim = scene(&owners.iter().map(String::as_str).collect::<Vec<_>>());
        for pair in swaps {
            sim.swap(*pair);
            sim.fire();
        }
        assert!(sim.timer_is_due(), "all at once");
        settle(&sim);
        sim.pass_and_fire(1_000);
        let lists = [0, 1, 2].map(|db| listed(&sim, db).split_whitespace().count());
        let waiting = sim.locks(|locks| locks.records.waiting_for(lock(0).name()));
        assert_eq!((lists[1], lists[2]), (0, 0), "{swaps:?}");
        // Those that an exchange took from the list are put back in their turn.
        assert!(waiting >= COUNT - swaps.len() - 1 && lists[0] <= waiting, "{swaps:?} {lists:?} {waiting}");
    }
}

/// A waiter that leaves before its lock was swept, and one that had left before.
#[test]
fn those_that_have_left_leave_both_lists() {
    let sim = scene(&["a", "b", "c"]);
    let owner = |owner: &'static str| rlock_core::Owner::new(owner.as_bytes()).expect("an owner");
    let cancel = |name| sim.cancel(&lock(0), &rlock_core::request::Cancel { owner: owner(name) });
    cancel("b").expect("a reply");
    // With no budget for locks, the sweep is late.
    sim.with(|world| world.settings.at_once.looked = 0);
    sim.swap([0, 1]);
    cancel("c").expect("a reply");
    settle(&sim);
    assert_eq!((&*listed(&sim, 0), &*listed(&sim, 1)), ("", ""));
}
