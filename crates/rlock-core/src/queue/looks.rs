//! When to look at which lock.

use std::rc::Rc;

use super::{LockId, Queues};
use crate::types::{Expiry, MonoMs, UnixMs};

impl Queues {
    /// The lock was seen held until then: look again after that.
    pub fn seen_held(&mut self, lock: &LockId, expiry: Expiry) {
        let wake = match expiry {
            // The server takes a key for expired when its time has passed, not when it has come.
            Expiry::At(at) => Some(UnixMs(at.0.saturating_add(1))),
            // Nothing but an event will free it.
            Expiry::Never => None,
        };
        self.wake_at(lock, wake);
        if let Some(queue) = self.locks.get_mut(lock) {
            queue.told = Some(expiry);
            queue.window = None;
        }
    }

    /// The end of the lease that was last seen.
    pub fn last_seen(&self, lock: &LockId) -> Option<Expiry> {
        self.locks.get(lock)?.told
    }

    /// A lock with waiters is to be looked at, or looked at again, then; never, but for an event, where
    /// no time is given.
    pub fn wake_at(&mut self, lock: &LockId, wake: Option<UnixMs>) {
        let Some((lock, _)) = self.locks.get_key_value(lock) else { return };
        let lock = Rc::clone(lock);
        let Some(queue) = self.locks.get_mut(&lock) else { return };
        let before = std::mem::replace(&mut queue.wake, wake);
        if let Some(before) = before {
            self.wakes.remove(&(before, Rc::clone(&lock)));
        }
        if let Some(wake) = wake {
            self.wakes.insert((wake, lock));
        }
    }

    /// Every lock with waiters is to be looked at now.
    pub fn wake_all(&mut self, now: UnixMs) {
        let locks: Vec<_> = self.locks.keys().cloned().collect();
        for lock in locks {
            self.wake_at(&lock, Some(now));
        }
    }

    /// The locks to look at by now, each with waiters; who looks says when to look again.
    pub fn due(&self, now: UnixMs) -> Vec<LockId> {
        let due = self.wakes.iter().take_while(|(wake, _)| *wake <= now);
        due.map(|(_, lock)| (**lock).clone()).collect()
    }

    /// In how many ms there is something to do; `None` if nothing ever is.
    pub fn next_in(&self, now: UnixMs, clock: MonoMs) -> Option<u64> {
        if !self.take_backs.is_empty() {
            return Some(0);
        }
        let wake = self.wakes.first().map(|(wake, _)| wake.0.saturating_sub(now.0).max(0).unsigned_abs());
        let end = self.ends.first().map(|(end, _)| end.0.saturating_sub(clock.0));
        wake.into_iter().chain(end).min()
    }
}
