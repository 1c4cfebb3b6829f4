//! When to look at which lock.

use std::ops::Bound;
use std::rc::Rc;

use super::{LockId, Queues};
use crate::bugs::{Bug, planted};
use crate::types::{Expiry, MonoMs, UnixMs};

/// A minute: then the timer looks, and is set anew. Redis 7.0 counts a timer's period in 32 bits of
/// microseconds, and one of more than 35 minutes keeps it turning without rest.
const LONGEST_TIMER_MS: u64 = 60_000;

/// Why a lock was found free that no command of ours had freed.
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
    /// Anything else: nobody told of it, or another value was written over it and went.
    Other,
}

/// What is to be done about the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rearm {
    /// Nothing.
    Keep,
    /// It is stopped: there is nothing to do.
    Stop,
    /// It fires in so many milliseconds, instead of whenever it was to fire.
    In(u64),
}

impl Queues {
    /// The lock was seen held, its key until `expiry`, and nobody can have it who waits first before `until`: look
    /// again after that.
    pub fn seen_held(&mut self, lock: &LockId, expiry: Expiry, until: Expiry) {
        let wake = match until {
            // The server takes a key for expired when its time has passed, not when it has come.
            Expiry::At(at) if planted(Bug::WakeLate) => Some(UnixMs(at.0.saturating_add(1_000))),
            Expiry::At(at) => Some(UnixMs(at.0.saturating_add(1))),
            // Nothing but an event will free it.
            Expiry::Never => None,
        };
        self.wake_at(lock, wake);
        if let Some(queue) = self.locks.get_mut(lock) {
            queue.ends = Some(expiry);
            queue.seen = None;
            queue.told = Some(queue.told.map_or(expiry, |told| told.later(expiry)));
            queue.window = None;
            queue.called = None;
        }
    }

    /// The lock was found free, or was freed: the end of the lease that was last seen and what has happened
    /// since, at the first time of asking.
    pub fn note_free(&mut self, lock: &LockId) -> Option<(Expiry, Option<Cause>)> {
        let queue = self.locks.get_mut(lock)?;
        let seen = queue.seen.take();
        Some((queue.ends.take()?, seen))
    }

    /// Something happened to the lock's key, which may have freed it.
    pub fn note_cause(&mut self, lock: &LockId, cause: Cause) {
        if let Some(queue) = self.locks.get_mut(lock) {
            queue.seen = Some(cause);
            if cause != Cause::Expired {
                // A grant that somebody ends, or gives another lease, does not end for want of an answer.
                queue.unconfirmed = None;
            }
        }
    }

    /// The latest end that those who wait by Redisson's protocol may have been told of.
    pub fn told(&self, lock: &LockId) -> Option<Expiry> {
        self.locks.get(lock)?.told
    }

    /// They were told to try again, and will hear of another end.
    pub fn told_anew(&mut self, lock: &LockId) {
        if let Some(queue) = self.locks.get_mut(lock) {
            queue.told = None;
        }
    }

    /// A lock with waiters is to be looked at, or looked at again, then; never, but for an event, where
    /// no time is given.
    pub fn wake_at(&mut self, lock: &LockId, wake: Option<UnixMs>) {
        let Some((lock, _)) = self.locks.get_key_value(lock) else { return };
        let lock = Rc::clone(lock);
        let Some(queue) = self.locks.get_mut(&lock) else { return };
        // A command that looks at the key alone must not put off the look at the list.
        let at_once = queue.fair_changed || queue.unserved;
        let wake = if at_once && !queue.order.is_empty() { Some(UnixMs(i64::MIN)) } else { wake };
        let before = std::mem::replace(&mut queue.wake, wake);
        if let Some(before) = before {
            self.wakes.remove(&(before, Rc::clone(&lock)));
        }
        if let Some(wake) = wake {
            self.wakes.insert((wake, lock));
        }
    }

    /// Whether more waiters for a lock are to be served at once than were served now.
    pub fn note_unserved(&mut self, lock: &LockId, unserved: bool) {
        if let Some(queue) = self.locks.get_mut(lock) {
            queue.unserved = unserved;
        }
    }

    /// So many of the locks with waiters are to be looked at now; the next call takes those after them.
    pub fn wake_some(&mut self, now: UnixMs, most: usize) {
        let after = self.looked_up_to.take();
        let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let some: Vec<_> = self
            .locks
            .range::<LockId, _>((from, Bound::Unbounded))
            .take(most)
            .map(|(lock, _)| Rc::clone(lock))
            .collect();
        if some.len() == most {
            self.looked_up_to = some.last().cloned();
        }
        for lock in some {
            self.wake_at(&lock, Some(now));
        }
    }

    /// So many of a database's locks that are waited for, in the order of their keys, those after this key: how many
    /// wait, and since when the one who waits first.
    pub fn waited_for(&self, db: i32, after: Option<&[u8]>, most: usize) -> Vec<(&[u8], usize, MonoMs)> {
        let start = LockId { db, key: after.unwrap_or_default().into() };
        let from = if after.is_some() { Bound::Excluded(&start) } else { Bound::Included(&start) };
        let locks = self.locks.range::<LockId, _>((from, Bound::Unbounded));
        let here = locks.take_while(|(lock, _)| lock.db == db);
        let told = here.filter_map(|(lock, queue)| {
            Some((&*lock.key, queue.order.len(), queue.order.values().next()?.since))
        });
        told.take(most).collect()
    }

    /// At most so many of the locks to look at by now, each with waiters; who looks says when to look again.
    pub fn due(&self, now: UnixMs, most: usize) -> Vec<LockId> {
        let due = self.wakes.iter().take_while(|(wake, _)| *wake <= now).take(most);
        due.map(|(_, lock)| (**lock).clone()).collect()
    }

    /// What is to be done about the timer, so that it fires when there is something to do next, but not
    /// before so many milliseconds have passed.
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

    /// The timer has fired, or is to be set whatever it was.
    pub fn timer_is_gone(&mut self) {
        self.timer = None;
    }

    /// In how many ms there is something to do; `None` if nothing ever is.
    pub fn next_in(&self, now: UnixMs, clock: MonoMs) -> Option<u64> {
        let pending = [
            self.take_backs.is_empty(),
            self.fair_gone.is_empty(),
            self.read_changed.is_empty(),
            self.fair_unknown.is_empty(),
            self.sent_away.is_none(),
            self.sweeps.is_empty(),
        ];
        if pending.contains(&false) {
            return Some(0);
        }
        let wake = self.wakes.first().map(|(wake, _)| wake.0.saturating_sub(now.0).max(0).unsigned_abs());
        let end = self.ends.first().map(|(end, _)| end.0.saturating_sub(clock.0));
        wake.into_iter().chain(end).min()
    }
}
