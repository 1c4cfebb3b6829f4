//! What becomes of a lock's yielding, as tables, and what a lock's record makes of it.

use super::super::tests::{lock, waiter};
use super::super::{Locks, Waiter};
use super::{Turns, Yielding};
use crate::types::{LeaseMs, Mode, MonoMs, UnixMs, Wanted};

const fn counting(admitted: u32, since: u64, last: u64) -> Yielding {
    Yielding::Counting { admitted, since: MonoMs(since), last: MonoMs(last) }
}

const DRAINING: Yielding = Yielding::Draining { look_at: MonoMs(70) };
const WINDOW: Yielding = Yielding::Window { until: MonoMs(80) };
const COUNT: Yielding = counting(2, 10, 30);

#[test]
fn each_event_leads_to_one_state() {
    let until = Some(MonoMs(90));
    let window = Some(Yielding::Window { until: MonoMs(90) });
    for (state, freed, without_window, held, by_mutex, by_reader) in [
        (COUNT, None, None, Some(COUNT), Some(COUNT), Some(COUNT)),
        (DRAINING, window, None, Some(DRAINING), Some(DRAINING), Some(DRAINING)),
        (WINDOW, Some(WINDOW), Some(WINDOW), None, None, Some(WINDOW)),
    ] {
        assert_eq!(state.freed(until), freed, "{state:?}");
        assert_eq!(state.freed(None), without_window, "{state:?}");
        assert_eq!(state.found_held(), held, "{state:?}");
        assert_eq!(state.left_by_last_waiter(Mode::Mutex), by_mutex, "{state:?}");
        assert_eq!(state.left_by_last_waiter(Mode::Permit), by_mutex, "{state:?}");
        assert_eq!(state.left_by_last_waiter(Mode::Read), by_reader, "{state:?}");
        assert_eq!(state.left_by_last_waiter(Mode::Write), by_reader, "{state:?}");
    }
}

#[test]
fn natives_are_counted_from_the_first_one_on() {
    let now = MonoMs(40);
    for (before, after) in [
        (None, counting(1, 40, 40)),
        (Some(counting(0, 10, 10)), counting(1, 10, 40)),
        (Some(COUNT), counting(3, 10, 40)),
        (Some(counting(u32::MAX, 10, 30)), counting(u32::MAX, 10, 40)),
        (Some(DRAINING), DRAINING),
        (Some(WINDOW), counting(1, 40, 40)),
    ] {
        assert_eq!(Yielding::admit(before, now), after, "{before:?}");
    }
}

#[test]
fn a_turn_comes_after_the_set_number_of_natives_or_the_set_time() {
    let turns = Turns { after_grants: 2, after_ms: 100 };
    for (state, clock, due) in [
        (counting(1, 10, 10), 109, false),
        (counting(1, 10, 10), 110, true),
        (counting(0, 10, 10), 110, true),
        (counting(2, 10, 10), 10, true),
        (DRAINING, 0, true),
        (WINDOW, 200, false),
    ] {
        assert_eq!(state.is_due(turns, MonoMs(clock)), due, "{state:?} at {clock}");
    }
}

#[test]
fn windows_and_looks_end_in_time() {
    let lease = LeaseMs::new;
    for (state, clock, longest, left, look) in [
        (WINDOW, 79, lease(20), lease(1), None),
        (WINDOW, 80, lease(20), None, None),
        (WINDOW, 59, lease(20), None, None),
        (WINDOW, 79, None, None, None),
        (DRAINING, 69, lease(20), None, lease(1)),
        (DRAINING, 70, lease(20), None, None),
        (COUNT, 0, lease(20), None, None),
    ] {
        assert_eq!(state.window_left(MonoMs(clock), longest), left, "{state:?} at {clock}");
        assert_eq!(state.look_in(MonoMs(clock)), look, "{state:?} at {clock}");
    }
}

#[test]
fn a_state_without_an_event_is_forgotten_in_time() {
    const HOUR: u64 = 3_600_000;
    let ends = Some(UnixMs(500));
    for (state, read_ends, now, clock, old) in [
        (COUNT, None, 0, HOUR + 29, false),
        (COUNT, None, 0, HOUR + 30, true),
        (COUNT, ends, 500, 31, false),
        (COUNT, ends, 501, 31, true),
        (DRAINING, ends, 10_500, 0, false),
        (DRAINING, ends, 10_501, 0, true),
        (DRAINING, None, 0, 0, true),
        (WINDOW, None, 0, 79, false),
        (WINDOW, None, 0, 80, true),
        (WINDOW, ends, 501, 79, false),
    ] {
        assert_eq!(state.is_old(read_ends, UnixMs(now), MonoMs(clock)), old, "{state:?} at {now}, {clock}");
    }
}

/// A mutex is asked for its window only where others wait. Readers were held back without waiting, and are until its end.
#[test]
fn only_a_window_of_readers_outlives_the_queue() {
    for (wanted, outlives) in [(Wanted::Mutex, false), (Wanted::Read, true), (Wanted::Write, true)] {
        let (mut locks, key) = (Locks::default(), lock("k"));
        locks.join(key, Waiter { wanted, ..waiter("a", 1) });
        locks.join(key, Waiter { wanted, ..waiter("b", 2) });
        locks.records.set_yielding(key, Some(Yielding::Window { until: MonoMs(50) }));
        locks.pop(key);
        let (longest, left) = (LeaseMs::new(40), LeaseMs::new);
        assert_eq!(locks.records.expire_window(key, MonoMs(20), longest), left(30), "{wanted:?}");
        locks.pop(key);
        assert_eq!(locks.records.expire_window(key, MonoMs(20), longest).is_some(), outlives, "{wanted:?}");
        assert_eq!(locks.records.expire_window(key, MonoMs(50), longest), None);
        assert!(!locks.is_watched(), "{wanted:?}: it is over");
    }
}

/// Native readers end their own count: commands on other locks read no record for it.
#[test]
fn a_lock_that_is_only_read_is_not_watched() {
    let (mut locks, key) = (Locks::default(), lock("k"));
    locks.records.note_read_end(key, UnixMs(100), MonoMs(0));
    locks.records.count_admitted(key, MonoMs(0));
    assert!(!locks.is_watched() && locks.records.knows_read_ends());
    locks.reads_ended(key, None);
    assert!(!locks.records.knows(key));
}

/// It is not free for Redisson clients: waiting natives are served first, in the same row.
#[test]
fn the_row_of_an_awaited_lock_continues_after_its_readers_have_ended() {
    let (mut locks, key) = (Locks::default(), lock("k"));
    locks.join(key, waiter("a", 1));
    for state in [Yielding::counting(MonoMs(0)), Yielding::Draining { look_at: MonoMs(9) }] {
        locks.records.note_read_end(key, UnixMs(100), MonoMs(0));
        locks.records.set_yielding(key, Some(state));
        locks.reads_ended(key, Some(MonoMs(20)));
        assert_eq!((locks.records.yielding(key), locks.records.read_end(key)), (Some(state), None));
        locks.forget_old(UnixMs(1_000_000), MonoMs(1_000), 9);
        assert_eq!(locks.records.yielding(key), Some(state));
    }
}
