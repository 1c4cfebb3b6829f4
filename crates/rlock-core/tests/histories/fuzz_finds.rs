//! What fuzzing has found, told as a story each, in `rlock-core` and in the oracle side by side.

use rlock_oracle::operations::{
    Budget, ByList, Channel, FairScript, Foreign, Ground, Kinds, Lock, Ms, Op, Options, Owner, Script, Span,
    Wait, WaitMs, Word,
};

use crate::build::{self, BLOCK, LOCK, LONG, acquire, check, fair, read, redisson};

const LONGEST: i64 = 1 << 43;

/// The turn of one of Redisson's that waits to write comes after 100 ms.
const OPTIONS: Options =
    Options { turn_grants: 1_000, turn_ms: 100, fair_turn: 20, kinds: Kinds::ReadWrite, ..build::OPTIONS };

/// A clock that was set back left more of the longest lease than any lease lasts: nobody seemed to read, and one of
/// Redisson's that waited to write was passed over for as long as natives came.
#[test]
fn the_longest_lease_and_a_clock_that_is_set_back() {
    let renew = Op::Renew { lock: LOCK, owner: Owner(0), word: Word::Read, lease: Ms(LONGEST) };
    for ops in [vec![read(0, LONGEST, Wait::No)], vec![read(0, 50, Wait::No), renew]] {
        let late = [Op::Step(-10_000), Op::Pass(Span(101)), read(1, LONG, Wait::No), read(2, LONG, BLOCK)];
        check(OPTIONS, [Op::Listen(true)].into_iter().chain(ops).chain(late));
    }
}

/// A server that takes over counts whoever it finds reading as natives: the oracle took it for too early that one who
/// comes to read is kept waiting, where nobody had come here before.
#[test]
fn who_is_found_reading_counts_from_then_on() {
    let reads = redisson(Script::Read, 4, LONG);
    let found = [reads, Op::Primary(false), Op::Primary(true)];
    let end = Op::ForceRelease { lock: LOCK, owner: None };
    for wait in [Wait::No, Wait::Block(WaitMs(30))] {
        let ops = [Op::Listen(true)].into_iter().chain(found);
        check(OPTIONS, ops.chain([Op::Stall(Span(101)), read(1, LONG, wait), Op::Stall(Span(700)), end]));
    }
}

/// From when it took over, that is, and not from when they had begun to read.
#[test]
fn who_is_found_reading_counts_from_no_time_before() {
    let reads = redisson(Script::Read, 4, LONG);
    let before = [Op::Listen(true), reads, Op::Primary(false), Op::Pass(Span(500))];
    let after = [Op::Primary(true), Op::Pass(Span(60)), read(1, LONG, Wait::No)];
    check(OPTIONS, before.into_iter().chain(after));
}

/// Who waits to read is let in where natives' leases have ended, and in the same command the turn that was kept for one of
/// Redisson's comes to nothing: the oracle, which saw only what came of it, took the turn to last.
#[test]
fn a_turn_that_ends_as_a_reader_is_looked_at() {
    let nobody_hears = Wait::Enqueue(WaitMs(18), Channel(2));
    let unheard = [
        Op::Listen(true),
        Op::Subscribe(Channel(2), false),
        read(1, 10, Wait::No),
        read(3, 1_246, nobody_hears),
        Op::Pass(Span(10)),
        Op::ForceRelease { lock: LOCK, owner: None },
    ];
    let reads = redisson(Script::Read, 1, 40);
    let reads_already = [
        Op::Listen(true),
        read(0, 582, Wait::No),
        read(1, 41, Wait::Block(WaitMs(29))),
        Op::Stall(Span(779)),
        reads,
        Op::Renew { lock: LOCK, owner: Owner(0), word: Word::Read, lease: Ms(7) },
    ];
    for ops in [unheard, reads_already] {
        check(Options { turn_grants: 1, ..OPTIONS }, ops);
    }
}

/// One who waits to read came before one with FAIR, while a free lock was left to one of Redisson's for its turn. With
/// the reader in, the next of Redisson's was called to a lock that it could not have, and its time set to that of a turn,
/// after which it counted as gone.
#[test]
fn nobody_is_called_to_a_lock_that_a_reader_has_just_got() {
    let joins = |owner| {
        let (script, owner) = (FairScript::Lock, Owner(owner));
        ByList::Script { script, owner, ahead: 0, budget: 300_000, lease: Ms(LONG) }
    };
    let joins = |owner| Op::ByList { lock: LOCK, what: joins(owner) };
    let message = Wait::Enqueue(WaitMs(0), Channel(0));
    let goes: [&[Op]; 3] = [
        &[Op::Cancel { lock: LOCK, owner: Owner(2) }],
        &[Op::Subscribe(Channel(0), false)],
        &[
            Op::Subscribe(Channel(0), false),
            Op::Stall(Span(21)),
            Op::Renew { lock: LOCK, owner: Owner(0), word: Word::Read, lease: Ms(LONG) },
        ],
    ];
    for goes in goes {
        let mut ops = vec![
            acquire(3, Word::None, 28, Wait::No),
            joins(5),
            Op::Pass(Span(29)),
            fair(acquire(2, Word::None, LONG, message)),
            read(0, LONG, BLOCK),
            joins(6),
            fair(acquire(1, Word::None, LONG, BLOCK)),
        ];
        ops.extend(goes);
        ops.push(Op::Pass(Span(50)));
        check(Options { kinds: Kinds::Fair, ..OPTIONS }, ops);
    }
}

/// A grant goes back in the same look, and only the leases of the others count: the oracle put right the end first, by
/// that grant.
#[test]
fn an_end_is_put_right_after_grants_have_gone_back() {
    let joins = |owner, budget| {
        let (script, owner) = (FairScript::Lock, Owner(owner));
        Op::ByList {
            lock: LOCK,
            what: ByList::Script { script, owner, ahead: 360_000, budget, lease: Ms(33) },
        }
    };
    for lease in [20, 44, 100, LONG] {
        for sooner in [5, 12, 50] {
            let ops = [
                read(0, 44, Wait::No),
                Op::Primary(false),
                joins(6, 16),
                joins(5, 300_000),
                Op::Primary(true),
                acquire(1, Word::Write, LONG, Wait::Enqueue(WaitMs(0), Channel(0))),
                read(2, lease, BLOCK),
                Op::Cancel { lock: LOCK, owner: Owner(1) },
                Op::Foreign { lock: LOCK, what: Foreign::Expire(Ms(sooner)) },
                Op::Disconnect(0),
                Op::Pass(Span(19)),
            ];
            check(Options { kinds: Kinds::Fair, ..OPTIONS }, ops);
        }
    }
}

/// Before 1970 by the clock: the oracle took the longest lease of nobody for one that lasts.
#[test]
fn a_clock_that_is_set_back_to_before_its_zero() {
    let reads = redisson(Script::Read, 4, 1_200);
    let ops = [
        Op::Listen(true),
        Op::Step(-10_000),
        read(2, 10, BLOCK),
        read(1, 28, BLOCK),
        reads,
        Op::Stall(Span(600)),
        read(0, 10, Wait::Enqueue(WaitMs(0), Channel(0))),
        Op::Pass(Span(1)),
    ];
    check(Options { turn_grants: 1, turn_ms: 20, ..OPTIONS }, ops);
}

/// The lock was left free for a moment, and one of Redisson's came to read in it: who waits to read behind that is looked at
/// when the moment has passed. The oracle asked for it in the very millisecond in which it does.
#[test]
fn a_moment_has_passed_after_its_last_millisecond() {
    let reads = redisson(Script::Read, 4, LONG);
    let kept_waiting = [read(4, LONG, Wait::No), Op::Pass(Span(100)), read(0, 2, Wait::No)];
    let left_free = [Op::ForceRelease { lock: LOCK, owner: Some(Owner(4)) }, reads];
    let ops = [Op::Listen(true)].into_iter().chain(kept_waiting).chain(left_free);
    let late = [read(2, 26, BLOCK), Op::Pass(Span(15)), Op::Pass(Span(29))];
    check(OPTIONS, ops.chain(late));
}

/// After a fail-over a list is bounded by the end of the lease; where somebody had set that too early, it is put right
/// first. The oracle did the one before the other.
#[test]
fn a_list_that_is_found_is_bounded_by_the_end_that_is_put_right() {
    let script = ByList::Script {
        script: FairScript::Lock,
        owner: Owner(6),
        ahead: 360_000,
        budget: 16,
        lease: Ms(33),
    };
    let sooner = Op::Foreign { lock: LOCK, what: Foreign::Expire(Ms(12)) };
    let ops = [
        read(4, 44, Wait::No),
        Op::Primary(false),
        Op::ByList { lock: LOCK, what: script },
        sooner,
        Op::Primary(true),
        Op::Pass(Span(19)),
    ];
    check(Options { kinds: Kinds::Fair, ..OPTIONS }, ops);
}

/// An owner that asked again without FAIR was leaving the list when it took the lock with FAIR: the oracle had it leave twice,
/// and waited for the second time.
#[test]
fn who_leaves_a_list_already_leaves_it_once() {
    let joins = |lock| {
        let script = FairScript::Lock;
        let what = ByList::Script { script, owner: Owner(5), ahead: 0, budget: 1, lease: Ms(1) };
        Op::ByList { lock, what }
    };
    let plain = |owner, wait| acquire(owner, Word::None, 1, wait);
    let fair = |owner, wait| fair(acquire(owner, Word::None, 1, wait));
    let ops = [
        plain(2, Wait::No),
        joins(LOCK),
        fair(1, BLOCK),
        plain(1, BLOCK),
        Op::ForceRelease { lock: LOCK, owner: None },
        fair(1, Wait::No),
        Op::Step(60_000),
        fair(0, Wait::No),
        joins(LOCK),
    ];
    check(Options { kinds: Kinds::Fair, window: 0, fair_turn: 1, ..OPTIONS }, ops);
}

/// Where one thing of each kind is done in a cycle: an enqueued waiter on a silent channel was dropped by the command with which
/// it asked again, and so waits behind those who were there.
#[test]
fn who_was_dropped_and_asks_again_waits_anew() {
    let message = Wait::Enqueue(WaitMs(0), Channel(0));
    let ops = [
        acquire(0, Word::None, 20, Wait::No),
        Op::Subscribe(Channel(0), false),
        acquire(2, Word::None, LONG, message),
        acquire(1, Word::None, LONG, BLOCK),
        Op::Flush,
        acquire(2, Word::None, LONG, BLOCK),
        Op::Pass(Span(1)),
    ];
    check(Options { kinds: Kinds::Plain, budget: Budget::HalfDone(3), ..OPTIONS }, ops);
}

/// The server refused writes while a fair list was to be put right: the timer turned without rest.
#[test]
fn the_timer_rests_while_writes_are_refused() {
    let what =
        ByList::Script { script: FairScript::Lock, owner: Owner(5), ahead: 0, budget: 1, lease: Ms(LONG) };
    let joins = Op::ByList { lock: LOCK, what };
    let ops = [
        joins,
        fair(acquire(0, Word::None, LONG, BLOCK)),
        joins,
        Op::ByList { lock: LOCK, what: ByList::DeleteList },
        Op::Ground(Ground::Refused),
        Op::Pass(Span(100)),
    ];
    for budget in [Budget::HalfDone(1), Budget::HalfDone(3)] {
        check(Options { kinds: Kinds::Fair, budget, ..OPTIONS }, ops);
    }
}

/// An owner that was leaving the list asked to wait again, and was refused, since the queue was full: that it leaves was
/// forgotten all the same.
#[test]
fn who_is_refused_has_not_come_back() {
    let joins = |lock, ahead| {
        let script = FairScript::Lock;
        let what = ByList::Script { script, owner: Owner(5), ahead, budget: 1, lease: Ms(1) };
        Op::ByList { lock, what }
    };
    let (other, plain) = (Lock(2), false);
    let elsewhere = |wait| {
        let (owner, lease, word, holds, fenced) = (Owner(0), Ms(1), Word::None, None, false);
        Op::Acquire { lock: other, owner, lease, word, holds, wait, fenced, fair: plain }
    };
    let ops = [
        acquire(1, Word::None, 1, Wait::No),
        joins(other, 0),
        fair(acquire(0, Word::None, 1, BLOCK)),
        acquire(2, Word::None, 1, Wait::Enqueue(WaitMs(0), Channel(0))),
        Op::Disconnect(0),
        joins(LOCK, 330_000),
        elsewhere(BLOCK),
        fair(acquire(0, Word::None, 1, BLOCK)),
        joins(LOCK, 0),
        Op::Step(60_000),
        elsewhere(Wait::No),
        acquire(0, Word::None, 1, Wait::No),
    ];
    check(Options { kinds: Kinds::Fair, max_waiters: 2, window: 0, fair_turn: 1, ..OPTIONS }, ops);
}

/// An owner that also waits by Redisson's protocol has dropped all natives from the list and joined it itself. When it goes,
/// the native behind it is the first and goes back into the list; the oracle expected that only when the lock is free.
#[test]
fn a_native_that_comes_to_be_the_first_goes_back_into_the_list() {
    let by_list = |what| Op::ByList { lock: LOCK, what };
    let lock = |owner, budget, lease| {
        let (script, ahead) = (FairScript::Lock, 0);
        by_list(ByList::Script { script, owner: Owner(owner), ahead, budget, lease: Ms(lease) })
    };
    let ops = [
        lock(5, 40, 560),
        fair(acquire(1, Word::None, 30, Wait::Block(WaitMs(29)))),
        fair(acquire(3, Word::None, 5, BLOCK)),
        by_list(ByList::DeleteDeadlines),
        lock(1, 3_600_000, LONGEST),
        Op::Pass(Span(38)),
        lock(5, 1, 1),
    ];
    check(Options { kinds: Kinds::Fair, ..OPTIONS }, ops);
}

/// An owner left the list by asking without FAIR, got the lock, and asked with FAIR for what it had: it was noted once more as
/// one that leaves, with a new place, and stood behind later ones when it came back.
#[test]
fn who_leaves_the_list_twice_comes_back_to_its_own_place() {
    let by_list = |script, owner, budget, lease| {
        let what = ByList::Script { script, owner: Owner(owner), ahead: 0, budget, lease: Ms(lease) };
        Op::ByList { lock: LOCK, what }
    };
    let ops = [
        fair(acquire(0, Word::None, 42, Wait::No)),
        by_list(FairScript::Lock, 5, 3, 1_000),
        by_list(FairScript::Lock, 6, 3_600_000, 36),
        fair(acquire(2, Word::None, 42, BLOCK)),
        fair(acquire(3, Word::None, 60, BLOCK)),
        by_list(FairScript::ForceUnlock, 5, 3, 2),
        acquire(2, Word::None, 42, Wait::Block(WaitMs(1))),
        fair(acquire(2, Word::None, 36, Wait::No)),
        by_list(FairScript::ForceUnlock, 1, 3, 2),
        by_list(FairScript::Lock, 5, 3_600_000, LONGEST),
        fair(acquire(2, Word::None, 1, BLOCK)),
    ];
    check(Options { kinds: Kinds::Fair, ..OPTIONS }, ops);
}

/// The clock was set forward, and a Redisson client that has the name of a native waiter removed all natives from the list, as
/// expired, and joined it itself. Another native asked again: the oracle put it at the end of the list, but it waits already,
/// and goes back to its own place when it comes to be the first.
#[test]
fn a_native_that_asks_again_does_not_join_the_list_a_second_time() {
    let lock = |owner, budget, lease| {
        let script = FairScript::Lock;
        let what = ByList::Script { script, owner: Owner(owner), ahead: 0, budget, lease: Ms(lease) };
        Op::ByList { lock: LOCK, what }
    };
    let ops = [
        acquire(2, Word::None, 36, Wait::No),
        lock(5, 3_600_000, LONGEST),
        fair(acquire(1, Word::None, 27, Wait::Block(WaitMs(26)))),
        Op::Step(780_000),
        fair(acquire(0, Word::None, 1, Wait::Enqueue(WaitMs(35), Channel(1)))),
        lock(5, 3_600_000, LONGEST),
        lock(1, 36, 36),
        fair(acquire(0, Word::None, 1, Wait::Enqueue(WaitMs(0), Channel(0)))),
    ];
    check(Options { kinds: Kinds::Fair, ..OPTIONS }, ops);
}
