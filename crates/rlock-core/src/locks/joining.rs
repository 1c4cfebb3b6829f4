//! How a waiter joins the queue of a lock.

use super::calls::Place;
use super::queue::Queue;
use super::records::Records;
use super::{LockName, Locks, Waiter};
use crate::error::Error;
use crate::types::Mode;

impl Records {
    /// Fails if an owner that asks in this mode would stand behind its own wait to read: a reader keeps every writer out.
    pub fn check_upgrade(&self, lock: LockName<'_>, owner: &[u8], mode: Mode) -> Result<(), Error> {
        let waits = |queue: &Queue, mode| queue.waiters.place_of(owner, mode).is_some();
        // A writer that repeats its call keeps its place, which is before that of the reader.
        let is_behind = |queue: &Queue| waits(queue, Mode::Read) && !waits(queue, Mode::Write);
        let waits_for_itself = mode == Mode::Write && self.queue(lock).is_some_and(is_behind);
        if waits_for_itself { Err(Error::Upgrade) } else { Ok(()) }
    }
}

impl Locks {
    /// Appends a waiter to a lock's queue, after [`Self::admit`]. An owner in the queue keeps its place; its replaced
    /// waiter is returned, and must receive no other answer.
    pub fn join(&mut self, lock: LockName<'_>, mut waiter: Waiter) -> Option<Waiter> {
        let (_, emptied) = self.hot.clocks();
        let queue = self.records.queue_mut(lock);
        let (known, changed) = queue.map_or((None, false), |queue| {
            queue.note_joining(waiter.since, emptied);
            (queue.waiters.place_of(&waiter.owner, waiter.mode()), queue.fair_changed)
        });
        // An entry of the fair list that has not left it yet stands where it stood, and so does its owner in the queue.
        let left = if waiter.fair { self.forget_departed(lock, &waiter.owner) } else { None };
        let place = known.or(left).unwrap_or_else(|| self.calls.new_place());
        let replaced = known.and_then(|place| self.replace(lock, place, &mut waiter));
        let (ticket, until) = (waiter.ticket, waiter.until);
        self.sessions.joined(&waiter);
        self.channels.joined(&mut waiter);
        self.users.joined(&mut waiter);
        let name = self.records.edit(lock, |record| {
            let queue = record.queue.get_or_insert_default();
            queue.join(place, waiter);
            queue.fair_changed = changed && queue.fair > 0;
            record.name(lock.db)
        });
        self.calls.joined(ticket, name, place);
        if let Some(until) = until {
            self.agenda.push_end(until, ticket);
        }
        replaced
    }

    /// Removes the waiter at a place, which one of the same owner replaces.
    fn replace(&mut self, lock: LockName<'_>, place: Place, by: &mut Waiter) -> Option<Waiter> {
        let before = self.records.queue_mut(lock)?.remove(place)?;
        self.forget_waiter(lock, &before, place);
        if before.fair && by.fair {
            self.forget_departed(lock, &by.owner);
        }
        // An owner that keeps its place has waited since it took it, however often it asks.
        by.since = before.since;
        Some(before)
    }
}
