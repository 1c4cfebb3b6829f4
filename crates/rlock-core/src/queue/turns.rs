//! Turns of foreign waiters, who hear of a release by Redisson's message and then have to be quick: a
//! lock that is always handed on would never be free for them.

use super::{LockId, Queues};
use crate::types::{LeaseMs, MonoMs};

#[derive(Clone, Copy, Debug)]
pub(super) struct Streak {
    pub(super) grants: u32,
    pub(super) since: MonoMs,
    last: MonoMs,
}

/// After so long without a native grant a streak is forgotten: its lock has ended and nobody told of it.
const FORGOTTEN_AFTER_MS: u64 = 3_600_000;

/// How long foreign waiters are passed over, and what they get then.
#[derive(Clone, Copy, Debug)]
pub struct Turns {
    /// After so many native grants in a row they have a turn.
    pub after_grants: u32,
    /// Or after so many milliseconds.
    pub after_ms: u64,
}

impl Queues {
    /// Counts a native grant. It counts on while nobody waits: two natives that take turns would keep a
    /// lock for ever, with never more than one of them in the queue.
    pub fn count_grant(&mut self, lock: &LockId, clock: MonoMs) {
        let new = Streak { grants: 0, since: clock, last: clock };
        let streak = self.streaks.entry(lock.clone()).or_insert(new);
        streak.grants = streak.grants.saturating_add(1);
        streak.last = clock;
    }

    /// Whether foreign waiters, if there are any, have been passed over for long enough.
    pub fn foreign_turn_is_due(&self, lock: &LockId, turns: Turns, clock: MonoMs) -> bool {
        self.streaks.get(lock).is_some_and(|streak| {
            streak.grants >= turns.after_grants || clock.0.saturating_sub(streak.since.0) >= turns.after_ms
        })
    }

    /// Foreign waiters have had their chance, or there are none.
    pub fn end_streak(&mut self, lock: &LockId) {
        self.streaks.remove(lock);
    }

    /// Forgets the streaks of locks that have ended and nobody told of it.
    pub fn forget_old_streaks(&mut self, clock: MonoMs) {
        self.streaks.retain(|_, streak| clock.0.saturating_sub(streak.last.0) < FORGOTTEN_AFTER_MS);
    }

    /// Leaves the lock to foreign waiters until then.
    pub fn open_window(&mut self, lock: &LockId, until: MonoMs) {
        self.end_streak(lock);
        if let Some(queue) = self.locks.get_mut(lock) {
            queue.window = Some(until);
        }
    }

    /// Somebody has taken the lock: when it is free again it is nobody's turn.
    pub fn close_window(&mut self, lock: &LockId) {
        if let Some(queue) = self.locks.get_mut(lock) {
            queue.window = None;
        }
    }

    /// How long the lock is left to foreign waiters yet, if it is. A window that has passed is closed, and so
    /// is one that would last for longer than any does: the option was lowered meanwhile.
    pub fn window(&mut self, lock: &LockId, clock: MonoMs, longest: Option<LeaseMs>) -> Option<LeaseMs> {
        let queue = self.locks.get_mut(lock)?;
        let left =
            queue.window.and_then(|until| LeaseMs::new(until.0.checked_sub(clock.0)?.try_into().ok()?));
        let left = left.filter(|left| longest.is_some_and(|longest| *left <= longest));
        queue.window = queue.window.filter(|_| left.is_some());
        left
    }
}
