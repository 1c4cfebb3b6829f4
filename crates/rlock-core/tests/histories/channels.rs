//! Channels that have no subscriber at two sweeps in a row: their waiters leave, and those behind them have a turn.

use rlock_oracle::operations::{Budget, Channel, Ground, Kinds, Op, Options, Span, Wait, WaitMs, Word};

use crate::build::{self, BLOCK, LONG, OPTIONS, check, fair};

fn enqueue(owner: usize, channel: usize) -> Op {
    build::acquire(owner, Word::None, LONG, Wait::Enqueue(WaitMs(0), Channel(channel)))
}

/// Owners 1 and 2 wait on a channel without a subscriber, owner 3 on one that has one, and owner 4 blocked.
fn waiting(with: fn(Op) -> Op) -> Vec<Op> {
    let holder = build::acquire(0, Word::None, LONG, Wait::No);
    let last = build::acquire(4, Word::None, LONG, BLOCK);
    let waiters = [enqueue(1, 0), enqueue(2, 0), enqueue(3, 1), last].map(with);
    [holder].into_iter().chain(waiters).chain([Op::Subscribe(Channel(0), false)]).collect()
}

fn ten_seconds() -> [Op; 2] {
    [Op::Pass(Span(10_000)), Op::Sweep]
}

#[test]
fn waiters_without_a_subscriber_leave_with_their_places_in_fair_lists() {
    for with in [|op| op, fair as fn(Op) -> Op] {
        for ground in [Ground::Firm, Ground::Paused, Ground::Moved] {
            let mut ops = waiting(with);
            ops.push(Op::Sweep);
            ops.push(Op::Ground(ground));
            ops.extend(ten_seconds());
            ops.extend([Op::Ground(Ground::Firm), Op::Pass(Span(100)), build::release(0, Word::None)]);
            ops.extend([Op::Pass(Span(100)), build::release(3, Word::None), Op::Deliver(0)]);
            check(OPTIONS, ops);
        }
    }
}

#[test]
fn a_subscriber_or_a_call_in_between_begins_the_count_anew() {
    let between = [
        vec![Op::Subscribe(Channel(0), true), Op::Sweep, Op::Subscribe(Channel(0), false)],
        vec![enqueue(2, 0)],
        vec![Op::Primary(false), Op::Primary(true), enqueue(1, 0)],
    ];
    for between in between {
        let mut ops = waiting(|op| op);
        ops.push(Op::Sweep);
        ops.extend(between);
        for _ in 0..3 {
            ops.extend(ten_seconds());
        }
        ops.push(build::release(0, Word::None));
        check(OPTIONS, ops);
    }
}

/// The first waiter leaves, and readers behind a writer have a turn.
#[test]
fn a_writer_without_a_subscriber_lets_readers_in() {
    let wait = |channel| Wait::Enqueue(WaitMs(0), Channel(channel));
    let mut ops = vec![
        build::read(0, LONG, Wait::No),
        build::acquire(1, Word::Write, LONG, wait(0)),
        build::read(2, LONG, BLOCK),
        build::read(3, LONG, wait(1)),
        Op::Subscribe(Channel(0), false),
        Op::Sweep,
    ];
    ops.extend(ten_seconds());
    ops.push(Op::Pass(Span(10)));
    check(Options { kinds: Kinds::ReadWrite, ..OPTIONS }, ops);
}

#[test]
fn a_round_that_is_half_done_harms_no_other_waiter() {
    for few in [1, 2] {
        let mut ops = waiting(fair);
        ops.push(Op::Sweep);
        ops.extend(ten_seconds());
        ops.extend([Op::Subscribe(Channel(0), true), Op::Pass(Span(100)), build::release(0, Word::None)]);
        check(Options { budget: Budget::HalfDone(few), ..OPTIONS }, ops);
    }
}
