//! Read leases that another server granted: they are found when their lock is met, a few at a time.

use rlock_core::facts::WriteAccess;
use rlock_core::locks::{Cause, Databases, Limits, LockRef, TieLimits, Turns};
use rlock_core::request::Renew;
use rlock_core::settings::{AtOnce, Settings};
use rlock_core::{Admission, Expiry, Holds, LeaseMs, Mode, Owner, Reply, UnixMs, observed};
use rlock_oracle::operations::{
    self, Budget, Count, History, Kinds, Lock, Ms, Op, Options, OtherWrite, Owner as Number, Script, Span,
    Wait, Word,
};
use rlock_sim::{ReadWrite, Sim, Value};

const LOCK: Lock = Lock(0);
const HOUR: i64 = 3_600_000;

fn history(ops: Vec<Op>) {
    let options = Options {
        max_waiters: 5,
        max_waiters_per_key: 5,
        grant_confirm: 5_000,
        turn_grants: 2,
        turn_ms: 1_000,
        window: 15,
        fair_turn: 5_000,
        kinds: Kinds::ReadWrite,
        budget: Budget::Usual,
    };
    operations::check(&History { options, ops });
}

fn read(owner: usize, lease: i64) -> Op {
    let (owner, lease, holds) = (Number(owner), Ms(lease), Some(Count(1)));
    let (word, wait) = (Word::Read, Wait::No);
    Op::Acquire { lock: LOCK, owner, word, lease, holds, wait, fenced: false, fair: false }
}

fn redisson(script: Script, owner: usize, lease: i64) -> Op {
    Op::ByOther { lock: LOCK, what: OtherWrite::Redisson { script, owner: Number(owner), lease: Ms(lease) } }
}

fn fail_over() -> [Op; 2] {
    [Op::Primary(false), Op::Primary(true)]
}

/// Redisson renews for a shorter time than a native reads that another server knew.
#[test]
fn a_renewal_after_a_fail_over_ends_no_longer_lease() {
    let mut ops = vec![read(0, 60_000), redisson(Script::Read, 1, 60_000)];
    ops.extend(fail_over());
    ops.extend([redisson(Script::RenewRead, 1, 2_000), Op::Pass(Span(10_000))]);
    history(ops);
}

/// The renewal came before the fail-over, and was not repaired: the first command finds it, whatever it is answered.
#[test]
fn a_command_finds_a_shortening_of_before_a_fail_over() {
    let renew = Op::Renew { lock: LOCK, owner: Number(2), word: Word::Read, lease: Ms(1_000) };
    let release = Op::Release { lock: LOCK, owner: Number(2), word: Word::None, down_to: None, lease: None };
    for command in [renew, release, read(2, 1_000)] {
        let mut ops = vec![read(0, 60_000), redisson(Script::Read, 1, 60_000), Op::Primary(false)];
        ops.extend([redisson(Script::RenewRead, 1, 5_000), Op::Primary(true)]);
        ops.extend([command, Op::Pass(Span(10_000))]);
        history(ops);
    }
}

/// One native renews its lease at the new primary. That the server knows that one does not mean that it knows the others.
#[test]
fn one_known_reader_does_not_make_the_others_known() {
    let mut ops = vec![read(0, 60_000), read(2, 60_000), redisson(Script::Read, 1, 60_000)];
    ops.extend(fail_over());
    ops.push(Op::Renew { lock: LOCK, owner: Number(2), word: Word::Read, lease: Ms(5_000) });
    ops.extend([redisson(Script::RenewRead, 1, 8_000), Op::Pass(Span(20_000))]);
    history(ops);
}

/// Another client sets the end of a lock that only Redisson clients read: the module keeps their leases too.
#[test]
fn leases_of_redissons_alone_are_found() {
    let expire = Op::ByOther { lock: LOCK, what: OtherWrite::Expire(Ms(1_000)) };
    history(vec![redisson(Script::Read, 1, 60_000), expire, Op::Pass(Span(10_000))]);
}

fn sim() -> Sim {
    let lease = |ms| LeaseMs::new(ms).expect("a lease");
    Sim::new(Settings {
        admission: Admission::Open,
        limits: Limits { server: 1_000, lock: 1_000, user: usize::MAX },
        grant_confirm: lease(500),
        turns: Turns { after_grants: 100, after_ms: 1_000 },
        yield_window: Some(lease(20)),
        fair_turn: lease(1_000),
        max_ties: TieLimits { server: 1_000, user: 1_000 },
        hot_locks: 0,
        at_once: AtOnce::USUAL,
    })
}

fn lock(number: usize) -> LockRef {
    LockRef { db: 0, key: format!("lock{number}").into_bytes().into() }
}

fn reader(number: usize) -> Box<[u8]> {
    format!("reader{number}").into_bytes().into()
}

/// The data of another server: a lock with `readers` readers of `holds` holds each. The last lease is the longest.
fn data(sim: &Sim, lock: &LockRef, readers: usize, holds: i64) -> UnixMs {
    let latest = sim.with(|world| UnixMs(world.now.0 + HOUR));
    let reads = (0..readers).map(|number| (reader(number), Holds::new(holds).expect("holds"))).collect();
    let value = ReadWrite { writing: false, reads, writes: Default::default(), expiry: Expiry::At(latest) };
    sim.with(|world| {
        world.keys.insert(lock.clone(), Value::ReadWrite(value));
        for (number, hold) in (0..readers).flat_map(|number| (1..=holds).map(move |hold| (number, hold))) {
            let ends = if number + 1 == readers { latest } else { UnixMs(latest.0 - HOUR / 2) };
            world.read_leases.insert((lock.clone(), reader(number), hold), Expiry::At(ends));
        }
    });
    latest
}

/// A client without the module lets the key end soon.
fn shorten(sim: &Sim, lock: &LockRef) {
    let value = sim.with(|world| world.read_write(lock).cloned()).expect("a lock that is read");
    let expiry = Expiry::At(sim.with(|world| UnixMs(world.now.0 + 10_000)));
    sim.write_as_other(lock, Some(Value::ReadWrite(ReadWrite { expiry, ..value })));
}

fn ends(sim: &Sim, lock: &LockRef) -> Expiry {
    sim.with(|world| world.read_write(lock).map(|value| value.expiry)).expect("a lock that is read")
}

/// The timer's next cycle: false if it has nothing to do.
fn cycle(sim: &Sim) -> bool {
    let due = sim.timer_is_due();
    sim.fire();
    due
}

#[test]
fn no_cycle_reads_all_leases_of_many_readers() {
    let sim = sim();
    let latest = data(&sim, &lock(0), 3_000, 2);
    shorten(&sim, &lock(0));
    let mut cycles = 0;
    while ends(&sim, &lock(0)) != Expiry::At(latest) {
        assert!(cycle(&sim), "the search continues");
        cycles += 1;
    }
    assert!((10..=50).contains(&cycles), "{cycles} cycles");
    assert!(!cycle(&sim), "no work is left");
}

#[test]
fn no_cycle_searches_for_the_leases_of_many_locks() {
    const LOCKS: usize = 3_000;
    let sim = sim();
    for number in 0..LOCKS {
        data(&sim, &lock(number), 1, 1);
        shorten(&sim, &lock(number));
    }
    let soon = Expiry::At(sim.with(|world| UnixMs(world.now.0 + 10_000)));
    let repaired = || (0..LOCKS).filter(|number| ends(&sim, &lock(*number)) != soon).count();
    cycle(&sim);
    assert!((1..=300).contains(&repaired()), "{} at once", repaired());
    while cycle(&sim) {}
    assert_eq!(repaired(), LOCKS);
}

/// A lease key came after the search for those of its lock was over, or while it was under way.
#[test]
fn a_late_lease_key_is_found() {
    for readers in [2, 3_000] {
        let sim = sim();
        let latest = data(&sim, &lock(0), readers, 1);
        let late = (lock(0), reader(readers - 1), 1);
        let lease = sim.with(|world| world.read_leases.remove(&late)).expect("a lease");
        shorten(&sim, &lock(0));
        cycle(&sim);
        sim.with(|world| world.read_leases.insert(late, lease));
        observed::read_lease_restored(sim.node(), lock(0).name());
        while cycle(&sim) {}
        assert_eq!(ends(&sim, &lock(0)), Expiry::At(latest), "{readers} readers");
    }
}

/// A slot left and returned at one moment: earlier knowledge of its locks is void.
#[test]
fn a_returned_lock_is_searched_again() {
    let sim = sim();
    data(&sim, &lock(0), 100, 1);
    shorten(&sim, &lock(0));
    while cycle(&sim) {}
    let later = UnixMs(sim.with(|world| world.now.0 + 2 * HOUR));
    sim.with(|world| world.read_leases.insert((lock(0), reader(0), 1), Expiry::At(later)));
    observed::data_arrived(sim.node());
    shorten(&sim, &lock(0));
    while cycle(&sim) {}
    assert_eq!(ends(&sim, &lock(0)), Expiry::At(later));
}

/// SWAPDB puts another lock in the place of one that is being searched: what was read of the first says nothing of it.
#[test]
fn a_search_begins_anew_in_another_database() {
    let sim = sim();
    data(&sim, &lock(0), 3_000, 1);
    shorten(&sim, &lock(0));
    cycle(&sim);
    // Of the readers in alphabetical order the last one is searched first.
    let later = UnixMs(data(&sim, &lock(0), 3_000, 1).0 + HOUR);
    sim.with(|world| world.read_leases.insert((lock(0), reader(999), 1), Expiry::At(later)));
    observed::databases_changed(sim.node(), Databases::One(0), Cause::Swapped);
    shorten(&sim, &lock(0));
    while cycle(&sim) {}
    assert_eq!(ends(&sim, &lock(0)), Expiry::At(later));
}

/// A lease key that is not here may be on the other server of a migration. The leases that are known last as long as ever.
#[test]
fn a_search_that_must_wait_hinders_no_known_lease() {
    let sim = sim();
    let latest = data(&sim, &lock(0), 2, 1);
    sim.with(|world| world.read_leases.remove(&(lock(0), reader(0), 1)));
    sim.with(|world| world.lease_keys_migrate = true);
    let renew = Renew {
        owner: Owner::new(b"reader1").expect("an owner"),
        lease: LeaseMs::new(2 * HOUR).expect("a lease"),
        mode: Some(Mode::Read),
        session: None,
    };
    assert_eq!(sim.renew(&lock(0), &renew), Ok(Reply::Renewed));
    while cycle(&sim) {}
    let native = ends(&sim, &lock(0));
    assert_ne!(native, Expiry::At(latest));
    shorten(&sim, &lock(0));
    while cycle(&sim) {}
    assert_eq!(ends(&sim, &lock(0)), native);
}

/// While the slot migrates the module must not write; the lock is repaired when the slot is here.
#[test]
fn a_lock_in_a_slot_that_migrates_is_repaired_afterwards() {
    let sim = sim();
    let latest = data(&sim, &lock(0), 2, 1);
    sim.with(|world| world.write_access = WriteAccess::SlotMoved);
    shorten(&sim, &lock(0));
    while cycle(&sim) {}
    assert_ne!(ends(&sim, &lock(0)), Expiry::At(latest));
    sim.with(|world| world.write_access = WriteAccess::Allowed);
    observed::retry_deferred(sim.node());
    while cycle(&sim) {}
    assert_eq!(ends(&sim, &lock(0)), Expiry::At(latest));
}

/// All its readers are dead: each command on it searches once, and the timer rests.
#[test]
fn a_lock_of_dead_readers_keeps_no_timer_turning() {
    let sim = sim();
    data(&sim, &lock(0), 3, 1);
    sim.with(|world| world.read_leases.clear());
    shorten(&sim, &lock(0));
    let renew = Renew {
        owner: Owner::new(b"nobody").expect("an owner"),
        lease: LeaseMs::new(1_000).expect("a lease"),
        mode: None,
        session: None,
    };
    for _ in 0..3 {
        assert_eq!(sim.renew(&lock(0), &renew), Ok(Reply::NotRenewed));
        let cycles = std::iter::from_fn(|| cycle(&sim).then_some(())).take(10).count();
        assert!(cycles < 3, "{cycles} cycles");
    }
}
