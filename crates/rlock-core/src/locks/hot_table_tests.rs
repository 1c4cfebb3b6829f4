//! The table of hot locks against an exact count.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::tests::{lock, waiter};
use super::*;
use crate::locks::{Locks, Meter, Ticket, Waiter};

/// Adds a wait of this many ms, which has ended.
fn add(table: &mut HotTable, key: &str, ms: u64, most: usize) {
    let waited = Waited { together_ms: ms, ended: 1, longest_ms: ms };
    table.add(lock(key).to_ref(), waited, most);
}

/// The locks by rank: key, time, error.
fn rows(table: &HotTable) -> Vec<(String, u64, u64)> {
    let key = |hot: &HotLock| String::from_utf8_lossy(&hot.lock.key).into_owned();
    table.ranking(|_| 0).iter().map(|hot| (key(hot), hot.waited_ms, hot.error_ms)).collect()
}

fn row(key: &str, waited_ms: u64, error_ms: u64) -> (String, u64, u64) {
    (key.to_string(), waited_ms, error_ms)
}

#[test]
fn the_most_waiting_stands_first() {
    let mut table = HotTable::default();
    for (key, ms) in [("a", 10), ("b", 30), ("c", 20), ("a", 15)] {
        add(&mut table, key, ms, 9);
    }
    assert_eq!(rows(&table), [row("b", 30, 0), row("a", 25, 0), row("c", 20, 0)]);
}

#[test]
fn a_full_table_gives_the_place_of_the_least_to_a_new_lock() {
    let mut table = HotTable::default();
    for (key, ms) in [("a", 10), ("b", 30), ("new", 5)] {
        add(&mut table, key, ms, 2);
    }
    assert_eq!(rows(&table), [row("b", 30, 0), row("new", 15, 10)]);
    // Its waits count from its entry on.
    let new = table.ranking(|_| 3).remove(1);
    assert_eq!((new.waits, new.longest_ms, new.denied, new.waiters), (1, 5, 0, 3));
}

#[test]
fn a_denial_admits_no_lock_to_a_full_table() {
    let mut table = HotTable::default();
    table.add_denial(lock("a"), 2);
    table.add_denial(lock("a"), 2);
    add(&mut table, "b", 1, 2);
    table.add_denial(lock("late"), 2);
    table.add_denial(lock("b"), 2);
    assert_eq!(rows(&table), [row("b", 1, 0), row("a", 0, 0)]);
    let denied: Vec<u64> = table.ranking(|_| 0).iter().map(|hot| hot.denied).collect();
    assert_eq!(denied, [1, 2]);
    // Nor does a wait that took no time. One that took some pushes out a lock that was only denied.
    add(&mut table, "late", 0, 2);
    assert_eq!(rows(&table)[1].0, "a");
    add(&mut table, "late", 1, 2);
    assert_eq!(rows(&table)[0], row("late", 1, 0));
}

#[test]
fn a_table_of_no_size_counts_nothing() {
    let mut table = HotTable::default();
    add(&mut table, "a", 7, 9);
    table.add_denial(lock("a"), 9);
    assert_eq!(rows(&table), [row("a", 7, 0)]);
    // A smaller table keeps the first ones.
    add(&mut table, "b", 9, 1);
    assert_eq!(rows(&table), [row("b", 16, 7)]);
    add(&mut table, "c", 100, 0);
    table.add_denial(lock("c"), 0);
    assert_eq!(rows(&table), []);
}

/// The table with its exact counts beside it.
fn check(table: &HotTable, exact: &BTreeMap<u8, u64>, most: usize) {
    let total: u64 = exact.values().sum();
    let ranking = table.ranking(|_| 0);
    assert!(ranking.len() <= most);
    assert!(ranking.windows(2).all(|pair| pair[0].waited_ms >= pair[1].waited_ms));
    assert_eq!(ranking.iter().map(|hot| hot.waited_ms).sum::<u64>(), total, "no time is lost");
    for hot in &ranking {
        let real = exact.get(&hot.lock.key[0]).copied().unwrap_or(0);
        assert!(hot.waited_ms >= real && hot.waited_ms - hot.error_ms <= real, "{real} in {hot:?}");
    }
    for (key, real) in exact.iter().filter(|(_, real)| **real > total / most as u64) {
        assert!(ranking.iter().any(|hot| hot.lock.key[0] == *key), "{key} waited {real} of {total}");
    }
}

proptest! {
    /// The promise of the sketch, whatever comes in which order.
    #[test]
    fn every_heavy_lock_is_shown_and_no_time_is_too_small(
        waits in prop::collection::vec((0_u8..12, 1_u64..1_000), 0..200),
        most in 1_usize..8,
    ) {
        let (mut table, mut exact) = (HotTable::default(), BTreeMap::new());
        for (key, ms) in waits {
            let name = LockRef { db: 0, key: [key][..].into() };
            table.add(name, Waited { together_ms: ms, ended: 1, longest_ms: ms }, most);
            *exact.entry(key).or_default() += ms;
            check(&table, &exact, most);
        }
    }

    /// Whenever waits begin and end, and whenever the sweep comes by: the sum of all waits is what the table shows.
    #[test]
    fn the_time_of_all_waits_is_counted_once(
        steps in prop::collection::vec((0_u8..5, 0_u8..6, 0_u64..50), 0..100),
    ) {
        let (mut locks, mut clock, mut ended) = (Locks::default(), 0, 0);
        let mut waiting: BTreeMap<u8, (u64, Ticket)> = BTreeMap::new();
        for (what, owner, ms) in steps {
            clock += ms;
            locks.enter(Meter { clock: MonoMs(clock), most: 9 });
            let key = ["k", "l"][usize::from(owner % 2)];
            match what {
                0 | 1 => {
                    let ticket = locks.calls.new_ticket();
                    let name = format!("owner:{owner}");
                    let since = MonoMs(clock);
                    locks.join(lock(key), Waiter { since, ..waiter(&name, ticket.0) });
                    // A repeat keeps the place, and has waited since the first call.
                    waiting.entry(owner).or_insert((clock, ticket)).1 = ticket;
                }
                2 | 3 => {
                    if let Some((since, ticket)) = waiting.remove(&owner) {
                        ended += clock - since;
                        locks.leave(ticket).expect("it waits");
                    }
                }
                _ => locks.note_running_waits(lock(key)),
            }
        }
        let hot = locks.rank_hot_locks(Meter { clock: MonoMs(clock), most: 9 });
        let shown: u64 = hot.iter().map(|hot| hot.waited_ms).sum();
        // A lock whose waits have all just begun has no entry yet.
        let entered: Vec<_> = hot.iter().map(|hot| hot.lock.key.to_vec()).collect();
        let running = waiting.iter().filter(|(owner, _)| {
            entered.contains(&["k", "l"][usize::from(**owner % 2)].as_bytes().to_vec())
        });
        let running: u64 = running.map(|(_, (since, _))| clock - since).sum();
        prop_assert_eq!(shown, ended + running);
    }
}

/// Three waiters wait for ten seconds each, and none gets the lock: the sweep finds it.
#[test]
fn a_stuck_lock_shows_while_its_waiters_wait() {
    let mut locks = Locks::default();
    let at = |clock| Meter { clock: MonoMs(clock), most: 9 };
    for number in 0..3 {
        let since = MonoMs(50_000);
        locks.join(lock("stuck"), Waiter { since, ..waiter(&format!("owner:{number}"), number) });
    }
    assert_eq!(locks.rank_hot_locks(at(59_000)), [], "no sweep came by");
    locks.enter(at(60_000));
    locks.note_running_waits(lock("stuck"));
    let stuck = locks.rank_hot_locks(at(61_000)).remove(0);
    assert_eq!((stuck.waited_ms, stuck.longest_ms, stuck.waits, stuck.waiters), (33_000, 11_000, 0, 3));
}

#[test]
fn after_a_reset_only_later_waiting_counts() {
    let mut locks = Locks::default();
    let at = |clock| Meter { clock: MonoMs(clock), most: 9 };
    for number in 0..2 {
        locks.join(lock("k"), waiter(&format!("owner:{number}"), number));
    }
    locks.enter(at(1_000));
    locks.leave(Ticket(0));
    assert_eq!(locks.rank_hot_locks(at(1_500))[0].waited_ms, 2_500);
    locks.hot.reset(MonoMs(2_000));
    assert_eq!(locks.rank_hot_locks(at(2_000)), []);
    // The other one waits since long before the reset.
    locks.enter(at(2_100));
    locks.leave(Ticket(1));
    let hot = locks.rank_hot_locks(at(2_200)).remove(0);
    assert_eq!((hot.waited_ms, hot.waits, hot.longest_ms, hot.waiters), (100, 1, 2_100, 0));
}
