//! Yield windows for waiting Redisson clients, which learn of a release from Redisson's message and compete for the lock:
//! a lock with constant hand-offs would never be free for them.

use super::{LockName, Locks};
use crate::types::{LeaseMs, MonoMs};

#[derive(Clone, Copy, Debug)]
pub(super) struct Streak {
    pub(super) grants: u32,
    pub(super) since: MonoMs,
    last: MonoMs,
}

/// After so long without a native grant a streak is forgotten: its lock has ended and nobody told of it.
const FORGOTTEN_AFTER_MS: u64 = 3_600_000;

impl Streak {
    pub(super) fn is_old(self, clock: MonoMs) -> bool {
        clock.0.saturating_sub(self.last.0) >= FORGOTTEN_AFTER_MS
    }
}

/// How long waiting Redisson clients are passed over before the module yields.
#[derive(Clone, Copy, Debug)]
pub struct Turns {
    /// The module yields after this number of native grants in a row.
    pub after_grants: u32,
    /// The module also yields after this number of milliseconds.
    pub after_ms: u64,
}

impl Locks {
    /// Counts a native grant. The count continues while the queue is empty: two alternating native owners would keep a lock
    /// for ever, with one of them in the queue at most.
    pub fn count_grant(&mut self, lock: LockName<'_>, clock: MonoMs) {
        self.edit(lock, |record| {
            let new = Streak { grants: 0, since: clock, last: clock };
            let streak = record.streak.get_or_insert(new);
            streak.grants = streak.grants.saturating_add(1);
            streak.last = clock;
        });
    }

    /// Whether waiting Redisson clients, if any, have been passed over until their turn.
    pub fn yield_is_due(&self, lock: LockName<'_>, turns: Turns, clock: MonoMs) -> bool {
        self.known(lock).and_then(|record| record.streak).is_some_and(|streak| {
            streak.grants >= turns.after_grants || clock.0.saturating_sub(streak.since.0) >= turns.after_ms
        })
    }

    /// Waiting Redisson clients had their chance, or do not exist.
    pub fn end_streak(&mut self, lock: LockName<'_>) {
        self.edit_known(lock, |record| record.streak = None);
    }

    /// Opens a yield window until this time.
    pub fn open_window(&mut self, lock: LockName<'_>, until: MonoMs) {
        self.end_streak(lock);
        if let Some(queue) = self.queue_mut(lock) {
            queue.window = Some(until);
        }
    }

    /// The lock was acquired: its yield window is over.
    pub fn close_window(&mut self, lock: LockName<'_>) {
        if let Some(queue) = self.queue_mut(lock) {
            queue.window = None;
        }
    }

    /// The rest of the yield window, if it is open. A window in the past is closed, and so is a window longer than
    /// `longest`: the option was lowered in the meantime.
    pub fn window(&mut self, lock: LockName<'_>, clock: MonoMs, longest: Option<LeaseMs>) -> Option<LeaseMs> {
        let queue = self.queue_mut(lock)?;
        let left =
            queue.window.and_then(|until| LeaseMs::new(until.0.checked_sub(clock.0)?.try_into().ok()?));
        let left = left.filter(|left| longest.is_some_and(|longest| *left <= longest));
        queue.window = queue.window.filter(|_| left.is_some());
        left
    }
}
