//! Faults that fuzzing found, as one story each, in `rlock-core` and in the oracle side by side.

use rlock_oracle::operations::{
    Budget, ByList, Channel, FairScript, Ground, Kinds, Line, Lock, Ms, Op, Options, OtherWrite, Owner,
    Script, Span, Tied, Wait, WaitMs, Word,
};

use crate::build::{self, BLOCK, LOCK, LONG, acquire, check, fair, read, redisson};

const LONGEST: i64 = 1 << 43;

/// The module yields to a waiting Redisson writer after 100 ms.
const OPTIONS: Options =
    Options { turn_grants: 1_000, turn_ms: 100, fair_turn: 20, kinds: Kinds::ReadWrite, ..build::OPTIONS };

/// A clock that was set back left more of the longest lease than any lease lasts: the lock seemed to have no readers,
/// and a steady stream of native readers starved a waiting Redisson writer.
#[test]
fn the_longest_lease_and_a_clock_that_is_set_back() {
    let renew = Op::Renew { lock: LOCK, owner: Owner(0), word: Word::Read, lease: Ms(LONGEST) };
    for ops in [vec![read(0, LONGEST, Wait::No)], vec![read(0, 50, Wait::No), renew]] {
        let late = [Op::Step(-10_000), Op::Pass(Span(101)), read(1, LONG, Wait::No), read(2, LONG, BLOCK)];
        check(OPTIONS, [Op::Listen(true)].into_iter().chain(ops).chain(late));
    }
}

/// A promoted server counts all readers that it finds as natives. The oracle expected no new reader to be held back
/// yet, because no reader had acquired the lock on this server before.
#[test]
fn readers_that_a_promotion_finds_count_from_the_promotion_on() {
    let reads = redisson(Script::Read, 4, LONG);
    let found = [reads, Op::Primary(false), Op::Primary(true)];
    let end = Op::ForceRelease { lock: LOCK, owner: None };
    for wait in [Wait::No, Wait::Block(WaitMs(30))] {
        let ops = [Op::Listen(true)].into_iter().chain(found);
        check(OPTIONS, ops.chain([Op::Stall(Span(101)), read(1, LONG, wait), Op::Stall(Span(700)), end]));
    }
}

/// They count from the promotion, not from the time at which they began to read.
#[test]
fn readers_that_a_promotion_finds_do_not_count_from_before_it() {
    let reads = redisson(Script::Read, 4, LONG);
    let before = [Op::Listen(true), reads, Op::Primary(false), Op::Pass(Span(500))];
    let after = [Op::Primary(true), Op::Pass(Span(60)), read(1, LONG, Wait::No)];
    check(OPTIONS, before.into_iter().chain(after));
}

/// A waiting reader is let in when the natives' leases have ended, and the same command ends the yielding to a Redisson
/// writer. The oracle saw only the result, and took the yielding to last.
#[test]
fn a_turn_that_ends_while_a_reader_is_checked() {
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

/// A reader waited ahead of a waiter with FAIR, while a Redisson waiter had its turn at the free lock. After the reader
/// had acquired the lock, the next Redisson waiter was called to a lock that it could not have. Its deadline became the
/// end of a turn, after which it counted as gone.
#[test]
fn no_redisson_waiter_is_called_to_a_lock_that_a_reader_has_just_acquired() {
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

/// A grant is revoked in the same cycle, and only the leases of the others count: the oracle repaired the key's end
/// first, with that grant's lease.
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
                Op::ByOther { lock: LOCK, what: OtherWrite::Expire(Ms(sooner)) },
                Op::Disconnect(0),
                Op::Pass(Span(19)),
            ];
            check(Options { kinds: Kinds::Fair, ..OPTIONS }, ops);
        }
    }
}

/// The clock shows a time before 1970: the oracle took the longest lease of no reader for one that lasts.
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

/// The lock was left free for a yield window, in which a Redisson reader acquired it: the reader that waits behind it
/// is checked after the window. The oracle expected this in the last millisecond of the window.
#[test]
fn a_moment_has_passed_after_its_last_millisecond() {
    let reads = redisson(Script::Read, 4, LONG);
    let kept_waiting = [read(4, LONG, Wait::No), Op::Pass(Span(100)), read(0, 2, Wait::No)];
    let left_free = [Op::ForceRelease { lock: LOCK, owner: Some(Owner(4)) }, reads];
    let ops = [Op::Listen(true)].into_iter().chain(kept_waiting).chain(left_free);
    let late = [read(2, 26, BLOCK), Op::Pass(Span(15)), Op::Pass(Span(29))];
    check(OPTIONS, ops.chain(late));
}

/// After a fail-over a list is bounded by the end of the lease; an end that another client set too early is repaired
/// first. The oracle bounded the list before the repair.
#[test]
fn a_list_that_is_found_is_bounded_by_the_end_that_is_put_right() {
    let script = ByList::Script {
        script: FairScript::Lock,
        owner: Owner(6),
        ahead: 360_000,
        budget: 16,
        lease: Ms(33),
    };
    let sooner = Op::ByOther { lock: LOCK, what: OtherWrite::Expire(Ms(12)) };
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

/// An owner that asked again without FAIR was leaving the list when it acquired the lock with FAIR: the oracle had it
/// leave twice, and waited for the second departure.
#[test]
fn an_owner_that_already_leaves_a_list_leaves_it_once() {
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

/// With a budget of a few things of each kind in a cycle: an enqueued waiter on a silent channel was dropped by the
/// command with which it asked again, and so waits behind the other waiters.
#[test]
fn a_dropped_waiter_that_asks_again_gets_a_new_place() {
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

/// The server refused writes while a fair list needed repair: the timer fired without rest.
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

/// An owner that was leaving the list asked to wait again, and was refused because the queue was full: its departure
/// was forgotten nevertheless.
#[test]
fn an_owner_that_is_refused_has_not_rejoined() {
    let joins = |lock, ahead| {
        let script = FairScript::Lock;
        let what = ByList::Script { script, owner: Owner(5), ahead, budget: 1, lease: Ms(1) };
        Op::ByList { lock, what }
    };
    let (other, plain) = (Lock(2), false);
    let on_other = |wait| {
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
        on_other(BLOCK),
        fair(acquire(0, Word::None, 1, BLOCK)),
        joins(LOCK, 0),
        Op::Step(60_000),
        on_other(Wait::No),
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

/// An owner left the list by asking without FAIR, acquired the lock, and asked with FAIR for the lock that it held: it
/// was noted as departed once more, with a new place, and stood behind later owners when it rejoined.
#[test]
fn an_owner_that_leaves_the_list_twice_rejoins_at_its_own_place() {
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

/// A hold whose connection had ended would end before its grace period, so its tie was dropped although the server refused
/// writes. The clock was set back afterwards: the oracle still expected the grace period.
#[test]
fn a_clock_that_is_set_back_after_the_tie_of_a_short_hold_has_ended() {
    let on = |line, grace| Op::On { line: Line(line), late: false, grace: Some(Ms(grace)) };
    let options = Options { window: 0, kinds: Kinds::Tied(Tied::Plain), ..OPTIONS };
    let refused = [Op::Ground(Ground::Refused), Op::Pass(Span(0)), Op::Step(-128)];
    let held = [on(1, 49), acquire(0, Word::None, 46, Wait::No), on(0, 1), Op::Close(Line(1))];
    check(options, held.into_iter().chain(refused).chain([Op::Ground(Ground::Firm), Op::Pass(Span(0))]));
}
