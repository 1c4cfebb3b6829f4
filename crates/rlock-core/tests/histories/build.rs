//! The parts of histories: operations on one lock.

use rlock_oracle::operations::{
    self, Budget, Count, History, Kinds, Lock, Ms, Op, Options, OtherWrite, Owner, Script, Wait, WaitMs, Word,
};

pub(crate) const LOCK: Lock = Lock(0);
pub(crate) const LONG: i64 = 60_000;
pub(crate) const BLOCK: Wait = Wait::Block(WaitMs(0));
pub(crate) const DELETE: Op = Op::ByOther { lock: LOCK, what: OtherWrite::Delete };

/// The module yields to Redisson clients after the second hand-off, for 15 ms.
pub(crate) const OPTIONS: Options = Options {
    max_waiters: 5,
    max_waiters_per_key: 5,
    grant_confirm: 5_000,
    turn_grants: 2,
    turn_ms: 1_000,
    window: 15,
    fair_turn: 5_000,
    kinds: Kinds::Plain,
    budget: Budget::Usual,
};

pub(crate) fn check(options: Options, ops: impl IntoIterator<Item = Op>) {
    operations::check(&History { options, ops: ops.into_iter().collect() });
}

/// ACQUIRE.
pub(crate) fn acquire(owner: usize, word: Word, lease: i64, wait: Wait) -> Op {
    let (lock, owner, lease) = (LOCK, Owner(owner), Ms(lease));
    Op::Acquire { lock, owner, lease, word, holds: None, wait, fenced: false, fair: false }
}

/// ACQUIRE with READ.
pub(crate) fn read(owner: usize, lease: i64, wait: Wait) -> Op {
    acquire(owner, Word::Read, lease, wait)
}

/// The ACQUIRE with HOLDS 1.
pub(crate) fn once(acquire: Op) -> Op {
    let Op::Acquire { lock, owner, lease, word, wait, fenced, fair, .. } = acquire else { return acquire };
    Op::Acquire { lock, owner, lease, word, holds: Some(Count(1)), wait, fenced, fair }
}

/// The ACQUIRE with FENCED.
pub(crate) fn fenced(acquire: Op) -> Op {
    let Op::Acquire { lock, owner, lease, word, holds, wait, fair, .. } = acquire else { return acquire };
    Op::Acquire { lock, owner, lease, word, holds, wait, fenced: true, fair }
}

/// The ACQUIRE with FAIR.
pub(crate) fn fair(acquire: Op) -> Op {
    let Op::Acquire { lock, owner, lease, word, holds, wait, fenced, .. } = acquire else { return acquire };
    Op::Acquire { lock, owner, lease, word, holds, wait, fenced, fair: true }
}

/// RELEASE of all holds in this mode.
pub(crate) fn release(owner: usize, word: Word) -> Op {
    Op::Release { lock: LOCK, owner: Owner(owner), word, down_to: Some(Count(0)), lease: None }
}

/// A script of Redisson's read/write lock.
pub(crate) fn redisson(script: Script, owner: usize, lease: i64) -> Op {
    let what = OtherWrite::Redisson { script, owner: Owner(owner), lease: Ms(lease) };
    Op::ByOther { lock: LOCK, what }
}
