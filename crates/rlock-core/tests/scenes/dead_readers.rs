//! More dead readers than one look checks, before a waiting writer: they are removed a few at a time, and no writer is granted the
//! lock before one look has checked all other readers.

use std::collections::BTreeMap;

use rlock_core::commands::Answer;
use rlock_core::locks::LockRef;
use rlock_core::request::{Acquire, DownTo, Release, Wait};
use rlock_core::settings::{AtOnce, Settings};
use rlock_core::{Expiry, Holds, Mode, Owner, Reply, UnixMs, Wanted};
use rlock_sim::{ReadWrite, Sim, Value};

use crate::fair_scene::{asks, block, lease, lock, settings};

const HOUR: i64 = 3_600_000;

/// How many dead readers one look removes here.
const AT_ONCE: usize = 2;

/// A lock that these owners read, all of them dead but `z`, the last one.
fn read_by(owners: &str) -> Sim {
    let at_once = AtOnce { buried: AT_ONCE, ..AtOnce::USUAL };
    let sim = Sim::new(Settings { at_once, ..settings() });
    sim.with(|world| world.keys.insert(lock(0), readers(owners)));
    if owners.contains('z') {
        lives(&sim, "z");
    }
    sim
}

fn readers(owners: &str) -> Value {
    let reads = owners.chars().map(|owner| (owner.to_string().into_bytes().into(), Holds::ONE)).collect();
    let expiry = Expiry::At(UnixMs(HOUR));
    Value::ReadWrite(ReadWrite { writing: false, reads, writes: BTreeMap::new(), expiry })
}

/// This reader has a lease key.
fn lives(sim: &Sim, owner: &str) {
    sim.with(|world| {
        let end = Expiry::At(world.now.after(lease(10_000)));
        world.read_leases.insert((lock(0), owner.as_bytes().into(), 1), end)
    });
}

fn write(sim: &Sim, owner: &str, wait: Option<Wait<'_>>) -> Answer {
    write_to(sim, &lock(0), owner, wait)
}

fn write_to(sim: &Sim, lock: &LockRef, owner: &str, wait: Option<Wait<'_>>) -> Answer {
    let request = Acquire { wait, ..asks(owner, 60_000, Wanted::Write) };
    sim.acquire(1, lock, &request).expect("an answer")
}

fn waits(sim: &Sim) {
    assert_eq!(write(sim, "bob", block()), Answer::Later);
}

/// The owners with a field in the lock's hash: readers, then the writer.
fn fields(sim: &Sim) -> String {
    sim.with(|world| match world.keys.get(&lock(0)) {
        Some(Value::ReadWrite(value)) => {
            let names = value.reads.keys().chain(value.writes.keys());
            names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
        }
        _ => String::new(),
    })
}

/// One event-loop cycle of the server, in which the timer fires if it is due.
fn cycle(sim: &Sim) -> String {
    sim.fire();
    fields(sim)
}

#[test]
fn they_are_removed_a_few_in_each_cycle_until_a_living_one_is_found() {
    let sim = read_by("abcdefgz");
    waits(&sim);
    assert_eq!(fields(&sim), "cdefgz");
    assert_eq!([cycle(&sim), cycle(&sim), cycle(&sim), cycle(&sim)], ["efgz", "gz", "z", "z"]);
    assert!(!sim.timer_is_due(), "the next look is at the end of the living reader's lease");
    sim.pass_and_fire(9_990);
    assert_eq!(fields(&sim), "z");
    sim.pass_and_fire(20);
    assert_eq!(fields(&sim), "bob");
}

#[test]
fn a_writer_is_granted_the_lock_once_one_look_has_checked_all_others() {
    let sim = read_by("abcdefg");
    waits(&sim);
    assert_eq!([fields(&sim), cycle(&sim)], ["cdefg", "efg"]);
    assert_eq!([cycle(&sim), cycle(&sim)], ["g", "bob"]);
}

/// As many as one look checks: no other reader can be behind them.
#[test]
fn a_writer_is_granted_a_lock_with_few_dead_readers_at_once() {
    let sim = read_by("ab");
    assert!(matches!(write(&sim, "bob", None), Answer::Now(Reply::Acquired { .. })));
}

/// One that does not wait is denied the lock meanwhile, and each of its calls removes some.
#[test]
fn a_writer_that_tries_again_and_again_has_the_lock_in_the_end() {
    let sim = read_by("abcdefg");
    for left in ["cdefg", "efg", "g"] {
        assert_eq!(write(&sim, "bob", None), Answer::Now(Reply::Denied));
        assert_eq!(fields(&sim), left);
    }
    assert!(matches!(write(&sim, "bob", None), Answer::Now(Reply::Acquired { .. })));
}

/// A reader with many holds has as many lease keys.
#[test]
fn lease_keys_count() {
    let sim = read_by("abcdefg");
    sim.with(|world| {
        let Some(Value::ReadWrite(value)) = world.keys.get_mut(&lock(0)) else { return };
        value.reads.insert((*b"a").into(), Holds::new(7).expect("holds"));
    });
    waits(&sim);
    assert_eq!(fields(&sim), "bcdefg");
}

/// A reader comes to life while dead ones are removed, before them and behind them: it is found whenever it comes.
#[test]
fn a_new_reader_keeps_the_writer_out() {
    for (cycles, owner) in (0..3).flat_map(|cycles| [(cycles, "0"), (cycles, "y")]) {
        let sim = read_by("abcdefg");
        waits(&sim);
        (0..cycles).for_each(|_| drop(cycle(&sim)));
        let joined = fields(&sim) + owner;
        lives(&sim, owner);
        sim.write_as_other(&lock(0), Some(readers(&joined)));
        sim.pass_and_fire(9_000);
        assert!(fields(&sim).contains(owner) && !fields(&sim).contains("bob"), "{}", fields(&sim));
        sim.pass_and_fire(2_000);
        assert_eq!(fields(&sim), "bob", "after {cycles} cycles, {owner}");
    }
}

#[test]
fn the_last_living_reader_releases_meanwhile() {
    for cycles in 0..4 {
        let sim = read_by("abcdefgz");
        waits(&sim);
        (0..cycles).for_each(|_| drop(cycle(&sim)));
        let owner = Owner::new(b"z").expect("an owner");
        let release = Release { owner, mode: Some(Mode::Read), down_to: DownTo::AtMost(0), lease: None };
        assert_eq!(sim.release(&lock(0), &release), Ok(Reply::Released));
        sim.pass_and_fire(10);
        assert_eq!(fields(&sim), "bob", "after {cycles} cycles");
    }
}

/// Between two cycles another client changes the key, or it expires.
#[test]
fn the_key_changes_meanwhile() {
    type Happens = fn(&Sim, &LockRef);
    let cases: [(&str, Happens, &str); 4] = [
        ("DEL", |sim, lock| sim.write_as_other(lock, None), "bob"),
        ("another value", |sim, lock| sim.write_as_other(lock, Some(Value::Other)), ""),
        ("FLUSHALL", |sim, _| sim.flush(), "bob"),
        ("its end", |sim, _| sim.pass(HOUR.unsigned_abs()), "bob"),
    ];
    for (cycles, (what, happens, holder)) in (0..3).flat_map(|cycles| cases.map(|case| (cycles, case))) {
        let sim = read_by("abcdefgz");
        waits(&sim);
        (0..cycles).for_each(|_| drop(cycle(&sim)));
        happens(&sim, &lock(0));
        sim.pass_and_fire(10);
        assert_eq!(fields(&sim), holder, "{what} after {cycles} cycles");
    }
}

/// A replica removes nothing, and the writer is sent away.
#[test]
fn the_server_is_demoted_meanwhile() {
    let sim = read_by("abcdefg");
    waits(&sim);
    assert_eq!(cycle(&sim), "efg");
    sim.demote();
    sim.pass_and_fire(1_000);
    assert_eq!((fields(&sim).as_str(), sim.with(|world| world.clients.len())), ("efg", 1));
    assert!(sim.locks(|locks| locks.calls.waiting() == 0) && !sim.timer_is_due());
    sim.promote();
    sim.pass_and_fire(1_000);
    assert_eq!(fields(&sim), "efg");
}

/// Nothing is removed while the server refuses writes, and the timer does not fire without pause.
#[test]
fn writes_are_refused_meanwhile() {
    let sim = read_by("abcdefg");
    waits(&sim);
    sim.with(|world| world.may_write = false);
    assert_eq!(cycle(&sim), "cdefg");
    assert!(!sim.timer_is_due());
    sim.with(|world| world.may_write = true);
    sim.pass_and_fire(30);
    assert_eq!(fields(&sim), "bob");
}

/// The lease keys of dead readers are the work of a cycle, whichever locks they belong to.
#[test]
fn many_locks_share_the_bound_of_a_cycle() {
    let sim = read_by("abcdz");
    waits(&sim);
    sim.with(|world| world.keys.insert(lock(1), readers("abcd")));
    assert_eq!(write_to(&sim, &lock(1), "eve", block()), Answer::Later);
    let count = || {
        let reads = |lock: u8| match sim.with(|world| world.keys.get(&self::lock(lock)).cloned()) {
            Some(Value::ReadWrite(value)) => value.reads.len(),
            _ => 0,
        };
        reads(0) + reads(1)
    };
    assert_eq!(count(), 3 + 2);
    sim.fire();
    assert_eq!(count(), 1 + 2);
}
