//! Much to do outside commands at once: no callback takes the server's time for all of it.

use rlock_core::commands::Answer;
use rlock_core::facts::FairEntry;
use rlock_core::locks::{Limits, LockRef, Turns};
use rlock_core::observed::ListChange;
use rlock_core::request::{Acquire, DownTo, Release, Wait};
use rlock_core::settings::Settings;
use rlock_core::{Owner, Reply, UnixMs, WaitMs, Wanted, departures, observed};
use rlock_sim::{Sim, Value};

use crate::fair_scene::{asks, block, lease, settings};

const HOUR: i64 = 3_600_000;

fn sim() -> Sim {
    Sim::new(Settings {
        limits: Limits { server: 1_000_000, lock: 1_000, user: usize::MAX },
        turns: Turns { after_grants: 100, after_ms: 1_000 },
        yield_window: Some(lease(20)),
        fair_turn: lease(1_000),
        ..settings()
    })
}

/// With so small a budget of fair-list entries that a few waiters need several event-loop cycles.
fn small_steps() -> Sim {
    let sim = sim();
    sim.with(|world| world.settings.at_once.listed = 2);
    sim
}

fn acquire(sim: &Sim, lock: &LockRef, owner: &str, wait: Option<Wait<'_>>) -> Answer {
    let request = Acquire { fair: true, wait, ..asks(owner, HOUR, Wanted::Mutex) };
    sim.acquire(1, lock, &request).expect("an answer")
}

fn listed(sim: &Sim, lock: &LockRef) -> Vec<String> {
    let name = |entry: &FairEntry| String::from_utf8_lossy(&entry.owner).into_owned();
    sim.with(|world| world.fair.get(lock).into_iter().flatten().map(name).collect())
}

fn lock(number: usize) -> LockRef {
    LockRef { db: 0, key: format!("lock{number}").into_bytes().into() }
}

/// The whole search after a restart may fall into a time in which the server refuses writes, since its replicas have not
/// come back yet.
#[test]
fn fair_lists_that_are_found_are_bounded_a_few_at_a_time() {
    const LISTS: usize = 3_000;
    let sim = sim();
    let far = FairEntry { owner: (*b"gone").into(), deadline: Some(UnixMs(24 * HOUR)) };
    for number in 0..LISTS {
        sim.with(|world| world.fair.insert(lock(number), [far.clone()].into()));
        observed::fair_list_found(sim.node(), lock(number));
    }
    let capped = || {
        let is_capped = |entry: &FairEntry| entry.deadline.is_some_and(|at| at < UnixMs(HOUR));
        sim.with(|world| world.fair.values().filter(|list| list.iter().all(is_capped)).count())
    };
    sim.fire();
    assert!((1..=1_000).contains(&capped()), "{} at once", capped());
    sim.pass_and_fire(1_000);
    assert_eq!(capped(), LISTS);
    assert!(sim.with(|world| world.timer.is_none()), "no work is left");
}

/// A drain of a server with many waiters with FAIR: each of them leaves a list.
#[test]
fn waiters_with_fair_leave_their_lists_a_few_at_a_time() {
    const LOCKS: usize = 3_000;
    let sim = sim();
    for number in 0..LOCKS {
        acquire(&sim, &lock(number), "holder", None);
        acquire(&sim, &lock(number), "waiter", block());
    }
    let stand = || sim.with(|world| world.fair.values().filter(|list| !list.is_empty()).count());
    assert_eq!(stand(), LOCKS);
    departures::drain(sim.node());
    sim.fire();
    assert!(stand() >= LOCKS - 1_000, "{} left their lists at once", LOCKS - stand());
    sim.pass_and_fire(10_000);
    assert_eq!(stand(), 0);
}

fn redisson_waiter() -> FairEntry {
    FairEntry { owner: (*b"redisson").into(), deadline: Some(UnixMs(24 * HOUR)) }
}

/// Frees the lock this number of times, and returns its holder after each time.
fn served(sim: &Sim, lock: &LockRef, times: usize) -> Vec<String> {
    let holder = || {
        sim.write_as_other(lock, None);
        sim.pass_and_fire(100);
        sim.with(|world| match world.keys.get(lock) {
            Some(Value::Lock(hold)) => String::from_utf8_lossy(&hold.owner).into_owned(),
            _ => "nobody".into(),
        })
    };
    (0..times).map(|_| holder()).collect()
}

/// Another client deletes the fair list of a held lock: to put 50,000 native waiters back in one callback took 41 ms. A
/// few are put back, and the others keep their turns before a Redisson waiter that joins meanwhile.
#[test]
fn natives_whose_list_was_deleted_go_back_a_few_at_a_time() {
    let (sim, lock) = (small_steps(), lock(0));
    acquire(&sim, &lock, "holder", None);
    let natives = ["a", "b", "c", "d", "e", "f", "g"];
    for owner in natives {
        acquire(&sim, &lock, owner, block());
    }
    assert_eq!(listed(&sim, &lock), natives);
    sim.with(|world| world.fair.clear());
    observed::fair_list_changed(sim.node(), lock.name(), ListChange::Anywhere);
    sim.fire();
    assert_eq!(listed(&sim, &lock), ["a", "b"], "no more than the budget at once");
    acquire(&sim, &lock, "d", block());
    sim.with(|world| world.fair.entry(lock.clone()).or_default().push_back(redisson_waiter()));
    sim.pass_and_fire(100);
    assert_eq!(listed(&sim, &lock), ["a", "b", "redisson"], "an owner that asks again keeps its place");
    assert!(sim.with(|world| world.timer.is_none_or(|at| at > world.clock)), "no work is left");
    assert_eq!(served(&sim, &lock, natives.len()), natives);
    assert_eq!(sim.with(|world| world.called.clone()), []);
    assert_eq!(listed(&sim, &lock), ["redisson"]);
}

/// Only some natives are back when the list changes again: those that are missing still do not go before them.
#[test]
fn natives_that_are_not_back_yet_do_not_overtake_those_that_are() {
    let (sim, lock) = (small_steps(), lock(0));
    acquire(&sim, &lock, "holder", None);
    let natives = ["a", "b", "c", "d", "e", "f", "g"];
    for owner in natives {
        acquire(&sim, &lock, owner, block());
    }
    sim.with(|world| world.fair.clear());
    let mut holders = Vec::new();
    for _ in natives {
        observed::fair_list_changed(sim.node(), lock.name(), ListChange::Anywhere);
        sim.fire();
        holders.extend(served(&sim, &lock, 1));
    }
    assert_eq!(holders, natives);
}

/// Another client removes entries of natives, but not the first, from a list that is longer than what is compared at
/// once. Each native keeps its turn.
#[test]
fn natives_that_a_long_list_lacks_keep_their_turns() {
    let (sim, lock) = (small_steps(), lock(0));
    acquire(&sim, &lock, "holder", None);
    let natives = ["a", "b", "c", "d", "e", "f"];
    for owner in natives {
        acquire(&sim, &lock, owner, block());
    }
    sim.with(|world| {
        let list = world.fair.get_mut(&lock).expect("the list");
        list.retain(|entry| ![*b"c", *b"d"].contains(&[entry.owner[0]]));
        list.push_back(redisson_waiter());
    });
    observed::fair_list_changed(sim.node(), lock.name(), ListChange::Anywhere);
    assert_eq!(served(&sim, &lock, natives.len()), natives);
    assert_eq!(listed(&sim, &lock), ["redisson"]);
}

/// The fair list of a free lock has lost its native waiters, and a Redisson waiter stands at its head. It has no turn before
/// them.
#[test]
fn a_redisson_head_has_no_turn_before_natives_that_were_dropped() {
    let (sim, lock) = (small_steps(), lock(0));
    acquire(&sim, &lock, "holder", None);
    for owner in ["a", "b", "c", "d", "e"] {
        acquire(&sim, &lock, owner, block());
    }
    sim.with(|world| world.fair.insert(lock.clone(), [redisson_waiter()].into()));
    observed::fair_list_changed(sim.node(), lock.name(), ListChange::AtAnEnd);
    assert_eq!(served(&sim, &lock, 5), ["a", "b", "c", "d", "e"]);
    assert_eq!(sim.with(|world| world.called.clone()), [], "the Redisson waiter is not called");
    assert_eq!(served(&sim, &lock, 1), ["nobody"]);
}

/// Redisson waiters that died leave entries which expire: 50,000 of them at the head of a free lock kept the server busy for
/// 190 ms in one command.
#[test]
fn expired_heads_are_removed_a_few_at_a_time() {
    let (sim, lock) = (small_steps(), lock(0));
    let dead = (0..5).map(|n| FairEntry { owner: format!("dead{n}").into_bytes().into(), deadline: None });
    sim.with(|world| world.fair.insert(lock.clone(), dead.collect()));
    assert_eq!(acquire(&sim, &lock, "alice", None), Answer::Now(Reply::Denied), "the lock is not hers yet");
    assert_eq!(listed(&sim, &lock), ["dead2", "dead3", "dead4"]);
    assert_eq!(acquire(&sim, &lock, "alice", block()), Answer::Later);
    assert_eq!(listed(&sim, &lock), ["dead4", "alice"]);
    sim.pass_and_fire(20);
    assert_eq!(listed(&sim, &lock), Vec::<String>::new());
    assert!(sim.with(|world| world.keys.contains_key(&lock)), "it is hers now");
}

/// Waiters left one queue a few at a time, and the timer checked that lock first in each cycle: the lease of another
/// lock ended, and the lock was granted when that queue was empty.
#[test]
fn a_queue_that_is_not_done_comes_behind_the_locks_that_were_due_before() {
    const WAITERS: usize = 1_000;
    let (many, other) = ([lock(0), lock(2)], lock(1));
    for fair in [false, true] {
        let sim = sim();
        let ask = |lock: &LockRef, owner: &str, lease_ms, wait| {
            let request = Acquire { fair, wait, ..asks(owner, lease_ms, Wanted::Mutex) };
            sim.acquire(1, lock, &request).expect("an answer");
        };
        let for_ever = WaitMs::new(0).expect("a wait");
        for many in &many {
            ask(many, "holder", HOUR, None);
            (0..WAITERS).for_each(|n| {
                ask(many, &format!("w{n}"), HOUR, Some(Wait::Enqueue(for_ever, b"unheard")));
            });
        }
        ask(&other, "holder", 5, None);
        ask(&other, "next", HOUR, Some(Wait::Block(for_ever)));
        let owner = Owner::new(b"holder").expect("an owner");
        let release = Release { owner, mode: None, down_to: DownTo::AtMost(0), lease: None };
        many.iter().for_each(|many| _ = sim.release(many, &release).expect("an answer"));
        sim.pass(6);
        let next_has_it = || sim.with(|world| world.hold(&other).is_some_and(|hold| *hold.owner == *b"next"));
        for _ in 0..3 {
            sim.fire();
            sim.pass(1);
        }
        assert!(next_has_it(), "fair: {fair}");
        let left = || many.each_ref().map(|many| sim.locks(|locks| locks.records.waiting_for(many.name())));
        assert!(left().iter().all(|left| (WAITERS / 2..WAITERS - 100).contains(left)), "{:?}", left());
        // One of them was due and not checked: that moment is half a second ahead now.
        sim.step_clock(-500);
        sim.pass_and_fire(100);
        assert_eq!(left(), [0, 0]);
    }
}

/// To visit a list costs more than to remove an entry: fifty thousand lists of one entry each kept other clients waiting for 20 ms
/// and more in each of a hundred event-loop cycles.
#[test]
fn many_lists_of_one_entry_each() {
    let sim = sim();
    sim.with(|world| world.settings.at_once.listed = 20);
    for number in 0..10 {
        acquire(&sim, &lock(number), "holder", None);
        acquire(&sim, &lock(number), "waiter", block());
    }
    departures::drain(sim.node());
    for left in [6, 2, 0] {
        sim.fire();
        assert_eq!((0..10).filter(|number| !listed(&sim, &lock(*number)).is_empty()).count(), left);
    }
}
