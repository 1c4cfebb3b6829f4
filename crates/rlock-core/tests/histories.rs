//! Histories that once went wrong, or that chance seldom finds, run in `rlock-core` and in the oracle side by
//! side.

use rlock_oracle::operations::{
    self, Count, Foreign, Ground, History, Lock, Ms, Op, Options, Owner, Span, Wait, WaitMs,
};

const LOCK: Lock = Lock(0);
const LONG: Ms = Ms(60_000);

/// A foreign turn comes after the second hand-off, and lasts 15 ms.
const OPTIONS: Options = Options {
    max_waiters: 5,
    max_waiters_per_key: 5,
    grant_confirm: 5_000,
    turn_grants: 2,
    turn_ms: 1_000,
    window: 15,
};

fn acquire(owner: usize, wait: Wait) -> Op {
    Op::Acquire { lock: LOCK, owner: Owner(owner), lease: LONG, holds: Some(Count(1)), wait }
}

fn release(owner: usize) -> Op {
    Op::Release { lock: LOCK, owner: Owner(owner), down_to: Some(Count(0)), lease: None }
}

/// The lock is left to foreign waiters, who were told, and one of them takes it. A command takes it away again
/// before the timer has looked: the rest of the window was counted as the foreign waiters' turn still, nobody
/// of them was told that the lock is free, and our own waiters waited for the window to end.
#[test]
fn a_window_ends_when_somebody_takes_the_lock() {
    let block = Wait::Block(WaitMs(0));
    let taken = Op::Foreign { lock: LOCK, what: Foreign::Take { owner: Owner(4), lease: Some(LONG) } };
    let ops = vec![
        Op::Listen(true),
        acquire(0, Wait::No),
        acquire(1, block),
        acquire(2, block),
        acquire(3, block),
        release(0),
        release(1),
        release(2),
        taken,
        Op::ForceRelease { lock: LOCK, owner: None },
        Op::Pass(Span(1)),
    ];
    operations::check(&History { options: OPTIONS, ops });
}

/// What happens between the departure of a client with a grant on its way and the timer's look.
fn before_a_take_back(what: Op) {
    let ops = vec![
        acquire(0, Wait::No),
        acquire(1, Wait::Block(WaitMs(0))),
        release(0),
        Op::Disconnect(0),
        what,
        Op::Pass(Span(1)),
    ];
    operations::check(&History { options: OPTIONS, ops });
}

#[test]
fn nothing_is_taken_back_from_an_owner_that_was_heard_of() {
    before_a_take_back(Op::Cancel { lock: LOCK, owner: Owner(1) });
    before_a_take_back(Op::Renew { lock: LOCK, owner: Owner(1), lease: LONG });
}

#[test]
fn nothing_is_taken_back_that_has_another_lease() {
    before_a_take_back(Op::Foreign { lock: LOCK, what: Foreign::Expire(Ms(5)) });
    before_a_take_back(Op::Foreign { lock: LOCK, what: Foreign::Persist });
}

#[test]
fn a_take_back_waits_until_writes_are_taken() {
    let refused = Op::Ground(Ground::Refused);
    let ops = vec![
        acquire(0, Wait::No),
        acquire(1, Wait::Block(WaitMs(0))),
        release(0),
        Op::Disconnect(0),
        refused,
        Op::Pass(Span(50)),
        Op::Ground(Ground::Firm),
        Op::Pass(Span(50)),
    ];
    operations::check(&History { options: OPTIONS, ops });
}
