//! When locks are due, and when the timer fires.

use std::ops::Bound;

use super::agenda::{Due, Job, Rearm};
use super::{LockName, LockRef, Locks, Meter};
use crate::types::{MonoMs, UnixMs};
use crate::weight::{Taken, take_weighed};

impl Locks {
    /// Sets when a lock with waiters is due to be served; without a time only an event makes it due.
    pub fn check_at(&mut self, lock: LockName<'_>, due: Option<Due>) {
        let Some(record) = self.records.get_mut(lock) else { return };
        let name = record.name(lock.db);
        let Some(queue) = record.queue.as_deref_mut() else { return };
        let (before, due) = queue.set_due(due);
        self.agenda.move_serve(&name, before, due);
    }

    /// Notes whether more waiters could be served now than the bound allowed.
    pub fn note_unserved(&mut self, lock: LockName<'_>, unserved: bool) {
        if let Some(queue) = self.queue_mut(lock) {
            queue.unserved = unserved;
        }
    }

    /// More dead readers must be removed before it is known whether the first waiter can have the lock: the timer continues in
    /// the next event-loop cycle.
    pub fn note_in_doubt(&mut self, lock: LockName<'_>) {
        self.check_at(lock, Some(Due::Now));
        if let Some(queue) = self.queue_mut(lock) {
            queue.in_doubt = true;
        }
    }

    /// Whether that was noted since the last call.
    pub fn take_in_doubt(&mut self, lock: LockName<'_>) -> bool {
        self.queue_mut(lock).is_some_and(|queue| std::mem::take(&mut queue.in_doubt))
    }

    /// Makes locks with waiters due now, until they count `most`; the next call continues after them.
    pub fn check_some_now(&mut self, now: UnixMs, most: usize) {
        let after = self.checked_up_to.take();
        let some = self.awaited_after(after, most);
        self.checked_up_to = some.items.last().filter(|_| !some.is_all).cloned();
        for lock in some.items {
            self.check_at(lock.name(), Some(Due::At(now)));
        }
    }

    /// Makes locks with waiters due now, until they count `most`: at their check the server is asked whether it still serves
    /// them. The next call continues after them.
    pub fn doubt_some_slots(&mut self, now: UnixMs, most: usize) {
        let after = self.doubted_up_to.take();
        let some = self.awaited_after(after, most);
        self.doubted_up_to = some.items.last().filter(|_| !some.is_all).cloned();
        for lock in some.items {
            if let Some(queue) = self.queue_mut(lock.name()) {
                queue.slot_in_doubt = true;
            }
            self.check_at(lock.name(), Some(Due::At(now)));
        }
    }

    fn awaited_after(&self, after: Option<LockRef>, most: usize) -> Taken<LockRef> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        take_weighed(most, self.awaited.range((start, Bound::Unbounded)).cloned())
    }

    /// Whether the server must be asked if it still serves a lock.
    pub fn doubts_slot(&self, lock: LockName<'_>) -> bool {
        self.queue(lock).is_some_and(|queue| queue.slot_in_doubt)
    }

    /// The server still serves a lock.
    pub fn slot_is_here(&mut self, lock: LockName<'_>) {
        if let Some(queue) = self.queue_mut(lock) {
            queue.slot_in_doubt = false;
        }
    }

    /// Up to `most` locks of a database with waiters, in the order of their keys, after this key: their number of waiters,
    /// and the start of the first waiter's wait.
    pub fn waited_for(&self, db: i32, after: Option<&[u8]>, most: usize) -> Vec<(&[u8], usize, MonoMs)> {
        let from = LockRef { db, key: after.unwrap_or_default().into() };
        let start = if after.is_some() { Bound::Excluded(from) } else { Bound::Included(from) };
        let here = self.awaited.range((start, Bound::Unbounded)).take_while(|lock| lock.db == db);
        let queues = here.filter_map(|lock| {
            let queue = self.queue(lock.name())?;
            Some((&*lock.key, queue.waiters.len(), queue.waiters.first()?.1.since))
        });
        queues.take(most).collect()
    }

    /// Lines up the locks that must be served now, and returns those that are due, each with waiters, those first that became due first, until they count `most`; to
    /// serve one sets when it is due next.
    ///
    /// If the clock is set back before that, the sweep of all locks that follows makes the locks due again.
    pub fn line_up_due(&mut self, now: UnixMs, most: usize) -> Vec<LockRef> {
        for lock in self.agenda.take_serve_now(most) {
            if let Some(queue) = self.queue_mut(lock.name()) {
                queue.due = Some(Due::At(now));
                self.agenda.line_up(now, lock);
            }
        }
        self.agenda.due(now, most).items
    }

    /// The weight of the locks that are due to be served, up to about `most`.
    pub(super) fn count_due(&self, now: UnixMs, most: usize) -> usize {
        self.agenda.due(now, most).weight
    }

    /// A lock with this work to do now, not [`Job::Serve`]: another one at each call.
    pub fn next_with(&mut self, job: Job) -> Option<LockRef> {
        self.agenda.next(job)
    }

    /// Work that waited for a slot's migration is due now; a replica's waits for its promotion.
    pub fn unpark(&mut self) {
        if !self.is_replica {
            self.agenda.unpark();
        }
    }

    /// The server refuses writes: work on locks is tried again then, unless something happens before.
    pub fn put_off(&mut self, until: MonoMs) {
        self.agenda.put_off(until);
    }

    /// The time until the next work, in ms; `None` if no work is left.
    pub fn next_in(&self, now: UnixMs, clock: MonoMs) -> Option<u64> {
        if self.dropped_waiters.is_some() {
            return Some(0);
        }
        let sweeps = !self.sweeps.is_empty() || self.channels.is_round_under_way();
        let other = if sweeps { Some(0) } else { self.sessions.next_in(now) };
        self.agenda.next_in(now, clock, other)
    }

    /// The action that makes the timer fire at the next work.
    pub fn rearm(&mut self, now: UnixMs, clock: MonoMs) -> Rearm {
        let next = self.next_in(now, clock);
        self.agenda.rearm(clock, next)
    }

    /// The timer has fired, or must be set anew.
    pub fn timer_fired_or_lost(&mut self) {
        self.agenda.timer_fired_or_lost();
    }

    /// An entry point of the rules begins: false within another one.
    pub(crate) fn enter(&mut self, meter: Meter) -> bool {
        self.meter = meter;
        self.agenda.enter()
    }

    /// The outermost entry point returns: whether the timer may need to be set again.
    pub(crate) fn exit(&mut self) -> bool {
        self.agenda.exit()
    }
}
