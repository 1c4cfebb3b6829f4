//! When locks are due, and when the timer fires.

use super::records::Records;
use super::{Due, LockName, LockRef, Locks, Meter, Rearm};
use crate::types::{MonoMs, UnixMs};

impl Records {
    /// Notes whether more waiters could be served now than the bound allowed.
    pub fn note_unserved(&mut self, lock: LockName<'_>, unserved: bool) {
        if let Some(queue) = self.queue_mut(lock) {
            queue.unserved = unserved;
        }
    }

    /// Whether [`Locks::note_in_doubt`] was called since the last call of this method.
    pub fn take_in_doubt(&mut self, lock: LockName<'_>) -> bool {
        self.queue_mut(lock).is_some_and(|queue| std::mem::take(&mut queue.in_doubt))
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
}

impl Locks {
    /// Sets when a lock with waiters is due to be served; without a time only an event makes it due.
    pub fn check_at(&mut self, lock: LockName<'_>, due: Option<Due>) {
        let Some(record) = self.records.get_mut(lock) else { return };
        let name = record.name(lock.db);
        let Some(queue) = record.queue.as_deref_mut() else { return };
        let (before, due) = queue.set_due(due);
        self.agenda.move_serve(&name, before, due);
    }

    /// More dead readers must be removed before it is known whether the first waiter can have the lock: the timer continues in
    /// the next event-loop cycle.
    pub fn note_in_doubt(&mut self, lock: LockName<'_>) {
        self.check_at(lock, Some(Due::Now));
        if let Some(queue) = self.records.queue_mut(lock) {
            queue.in_doubt = true;
        }
    }

    /// Makes locks with waiters due now, up to a weight of `most`; the next call continues after them.
    pub fn check_some_now(&mut self, now: UnixMs, most: usize) {
        for lock in self.records.next_awaited(&mut self.walks.checked, most) {
            self.check_at(lock.name(), Some(Due::At(now)));
        }
    }

    /// Makes locks with waiters due now, up to a weight of `most`: at their check the server is asked whether it still
    /// serves them. The next call continues after them.
    pub fn doubt_some_slots(&mut self, now: UnixMs, most: usize) {
        for lock in self.records.next_awaited(&mut self.walks.doubted, most) {
            if let Some(queue) = self.records.queue_mut(lock.name()) {
                queue.slot_in_doubt = true;
            }
            self.check_at(lock.name(), Some(Due::At(now)));
        }
    }

    /// Lines up the locks that must be served now, and returns those that are due, in the order in which they became due, up to a weight of `most`. Each has
    /// waiters, and serving it sets when it is due next.
    ///
    /// If the clock is set back before a lock is served, the sweep of all locks that follows makes it due again.
    pub fn line_up_due(&mut self, now: UnixMs, most: usize) -> Vec<LockRef> {
        for lock in self.agenda.take_serve_now(most) {
            if let Some(queue) = self.records.queue_mut(lock.name()) {
                queue.due = Some(Due::At(now));
                self.agenda.line_up(now, lock);
            }
        }
        self.agenda.due(now, most).items
    }

    /// Makes work due that waited for a slot's migration; the work of a replica waits for its promotion.
    pub fn unpark(&mut self) {
        if !self.role.is_replica() {
            self.agenda.unpark();
        }
    }

    /// The time until the next work, in ms; `None` if no work is left.
    pub fn next_in(&self, now: UnixMs, clock: MonoMs) -> Option<u64> {
        if self.calls.dropping().is_some() {
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

    /// An entry point of the rules begins. Returns false within another one.
    pub(crate) fn enter(&mut self, meter: Meter) -> bool {
        self.hot.enter(meter);
        self.agenda.enter()
    }
}
