//! The times at which locks must be checked.

use std::ops::Bound;

use super::{LockName, LockRef, Locks};
use crate::bugs::{Bug, planted};
use crate::types::{Expiry, MonoMs, UnixMs};

/// A minute: then the timer looks, and is set anew. Redis 7.0 counts a timer's period in 32 bits of
/// microseconds, and one of more than 35 minutes keeps it turning without rest.
const LONGEST_TIMER_MS: u64 = 60_000;

/// When a lock is due that must be checked at once: whatever the wall clock says, and however it is set.
pub(super) const AT_ONCE: UnixMs = UnixMs(i64::MIN);

/// Why a lock was found free without an rlock command that freed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Its lease has ended.
    Expired,
    /// DEL, UNLINK, or a script's unlock.
    Deleted,
    /// RENAME or MOVE.
    Renamed,
    /// FLUSHALL or FLUSHDB.
    Flushed,
    /// SWAPDB.
    Swapped,
    /// The server was out of memory.
    Evicted,
    /// Another cause: without an event, or another value replaced the lock and was removed.
    Other,
}

/// The next action on the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rearm {
    /// Nothing.
    Keep,
    /// Stop it: no work is left.
    Stop,
    /// Set it to fire in this number of milliseconds.
    In(u64),
}

impl Locks {
    /// The lock was seen held, and its key lasts until `expiry`. The first waiter cannot have it before `until`: check
    /// again after that.
    pub fn found_held(&mut self, lock: LockName<'_>, expiry: Expiry, until: Expiry) {
        let wake = match until {
            // The server takes a key for expired when its time has passed, not when it has come.
            Expiry::At(at) if planted(Bug::WakeLate) => Some(UnixMs(at.0.saturating_add(1_000))),
            Expiry::At(at) => Some(UnixMs(at.0.saturating_add(1))),
            // Nothing but an event will free it.
            Expiry::Never => None,
        };
        self.check_at(lock, wake);
        if let Some(queue) = self.queue_mut(lock) {
            queue.ends = Some(expiry);
            queue.seen = None;
            queue.told = Some(queue.told.map_or(expiry, |told| told.later(expiry)));
            queue.window = None;
            queue.called = None;
        }
    }

    /// The lock was found free, or was freed. The first call returns the last seen lease end, and the event after it.
    pub fn found_free(&mut self, lock: LockName<'_>) -> Option<(Expiry, Option<Cause>)> {
        let queue = self.queue_mut(lock)?;
        let seen = queue.seen.take();
        Some((queue.ends.take()?, seen))
    }

    /// An event on the lock's key may have freed it.
    pub fn note_cause(&mut self, lock: LockName<'_>, cause: Cause) {
        if let Some(queue) = self.queue_mut(lock) {
            queue.seen = Some(cause);
            if cause != Cause::Expired {
                // A grant that somebody ends, or gives another lease, does not end for want of an answer.
                queue.unconfirmed = None;
            }
        }
    }

    /// The latest lease end that waiting Redisson clients may know.
    pub fn told(&self, lock: LockName<'_>) -> Option<Expiry> {
        self.queue(lock)?.told
    }

    /// Waiting Redisson clients were woken, and will learn another lease end.
    pub fn forget_announced_end(&mut self, lock: LockName<'_>) {
        if let Some(queue) = self.queue_mut(lock) {
            queue.told = None;
        }
    }

    /// Sets the time of the next check of a lock with waiters; without a time only an event leads to a check.
    pub fn check_at(&mut self, lock: LockName<'_>, wake: Option<UnixMs>) {
        let name = self.shared_name(lock);
        let Some(queue) = self.queue_mut(lock) else { return };
        // A command that looks at the key alone must not put off the look at the list.
        let at_once = queue.fair_changed || queue.unserved;
        let wake = if at_once && !queue.order.is_empty() { Some(AT_ONCE) } else { wake };
        let before = std::mem::replace(&mut queue.wake, wake);
        if let Some(before) = before {
            self.checks.remove(&(before, name.clone()));
        }
        if let Some(wake) = wake {
            self.checks.insert((wake, name));
        }
    }

    /// Notes whether more waiters could be served now than the bound allowed.
    pub fn note_unserved(&mut self, lock: LockName<'_>, unserved: bool) {
        if let Some(queue) = self.queue_mut(lock) {
            queue.unserved = unserved;
        }
    }

    /// Schedules `most` locks with waiters for a check now; the next call continues after them.
    pub fn check_some_now(&mut self, now: UnixMs, most: usize) {
        let after = self.checked_up_to.take();
        let start = after.as_ref().map_or(Bound::Unbounded, |after| Bound::Excluded(after.name()));
        let later = self.records.from(start);
        let awaited = later.filter(|(_, record)| record.queue.is_some());
        let some: Vec<_> = awaited.take(most).map(|(lock, _)| lock).collect();
        if some.len() == most {
            self.checked_up_to = some.last().cloned();
        }
        for lock in some {
            self.check_at(lock.name(), Some(now));
        }
    }

    /// Up to `most` locks of a database with waiters, in the order of their keys, after this key: their number of waiters,
    /// and the start of the first waiter's wait.
    pub fn waited_for(&self, db: i32, after: Option<&[u8]>, most: usize) -> Vec<(&[u8], usize, MonoMs)> {
        let told = self.records.of_database(db, after).filter_map(|(key, record)| {
            let queue = record.queue.as_deref()?;
            Some((key, queue.order.len(), queue.order.values().next()?.since))
        });
        told.take(most).collect()
    }

    /// At most `most` locks that are due for a check, each with waiters, those first that became due first; the check sets
    /// the time of the next one.
    pub fn due(&mut self, now: UnixMs, most: usize) -> Vec<LockRef> {
        self.line_up(now);
        let due = self.checks.iter().take_while(|(wake, _)| *wake <= now).take(most);
        due.map(|(_, lock)| lock.clone()).collect()
    }

    /// The number of locks that are due for a check, up to `most`.
    pub(super) fn count_due(&self, now: UnixMs, most: usize) -> usize {
        self.checks.iter().take_while(|(wake, _)| *wake <= now).take(most).count()
    }

    /// Locks that must be checked at once come behind those that are due by now. A queue that takes many event-loop cycles
    /// to empty is such a lock in each of them, and the first one would use up what a cycle may do.
    ///
    /// If the clock is set back before the check, the sweep of all locks that follows makes the lock due again.
    fn line_up(&mut self, now: UnixMs) {
        while self.checks.first().is_some_and(|(wake, _)| *wake == AT_ONCE) {
            let Some((_, lock)) = self.checks.pop_first() else { return };
            if let Some(queue) = self.queue_mut(lock.name()) {
                queue.wake = Some(now);
                self.checks.insert((now, lock));
            }
        }
    }

    /// The action that makes the timer fire at the next work, but not before this number of milliseconds has passed.
    pub fn rearm(&mut self, now: UnixMs, clock: MonoMs, least: u64) -> Rearm {
        let next = self.next_in(now, clock).map(|next| next.max(least).min(LONGEST_TIMER_MS));
        let wanted = next.map(|next| MonoMs(clock.0.saturating_add(next)));
        match (self.timer, wanted) {
            // One that fires early does no harm: it looks, and sets the next.
            (Some(set), Some(wanted)) if set <= wanted => return Rearm::Keep,
            (None, None) => return Rearm::Keep,
            _ => self.timer = wanted,
        }
        next.map_or(Rearm::Stop, Rearm::In)
    }

    /// The timer has fired, or must be set anew.
    pub fn timer_fired_or_lost(&mut self) {
        self.timer = None;
    }

    /// The time until the next work, in ms; `None` if no work is left.
    pub fn next_in(&self, now: UnixMs, clock: MonoMs) -> Option<u64> {
        let pending = [
            self.revoking.is_empty() || self.is_replica,
            self.departing.is_empty() || self.is_replica,
            self.read_changed.is_empty(),
            self.capping.is_empty(),
            self.dropped_waiters.is_none(),
            self.sweeps.is_empty(),
        ];
        if pending.contains(&false) {
            return Some(0);
        }
        let wake = self.checks.first().map(|(wake, _)| wake.0.saturating_sub(now.0).max(0).unsigned_abs());
        let end = self.ends.first().map(|(end, _)| end.0.saturating_sub(clock.0));
        wake.into_iter().chain(end).min()
    }
}
