//! How a waiter joins the queue of a lock.

use super::{LockName, Locks, Place, Waiter};

impl Locks {
    /// Appends a waiter to a lock's queue, after [`Self::admit`]. An owner in the queue keeps its place; its replaced
    /// waiter is returned, and must receive no other answer.
    pub fn join(&mut self, lock: LockName<'_>, mut waiter: Waiter) -> Option<Waiter> {
        let emptied = self.hot.emptied;
        let queue = self.queue_mut(lock);
        let (known, changed) = queue.map_or((None, false), |queue| {
            queue.note_joining(waiter.since, emptied);
            (queue.waiters.place_of(&waiter.owner, waiter.mode()), queue.fair_changed)
        });
        // An entry of the fair list that has not left it yet stands where it stood, and so does its owner in the queue.
        let left = if waiter.fair { self.forget_departed(lock, &waiter.owner) } else { None };
        let place = known.or(left).unwrap_or_else(|| self.new_place());
        let replaced = known.and_then(|place| self.replace(lock, place, &mut waiter));
        let (ticket, until) = (waiter.ticket, waiter.until);
        self.sessions.joined(&waiter);
        self.channels.joined(&mut waiter);
        self.users.joined(&mut waiter);
        let name = self.edit(lock, |record| {
            let queue = record.queue.get_or_insert_default();
            queue.join(place, waiter);
            queue.fair_changed = changed && queue.fair > 0;
            record.name(lock.db)
        });
        self.places.insert(ticket, (name, place));
        if let Some(until) = until {
            self.agenda.push_end(until, ticket);
        }
        replaced
    }

    /// Removes the waiter at a place, which one of the same owner replaces.
    fn replace(&mut self, lock: LockName<'_>, place: Place, by: &mut Waiter) -> Option<Waiter> {
        // Before the removal: with the last waiter of a connection that has ended, its end is forgotten.
        by.session = self.session_in(lock, place, by);
        let before = self.queue_mut(lock)?.remove(place)?;
        self.forget_waiter(lock, &before, place);
        if before.fair && by.fair {
            self.forget_departed(lock, &by.owner);
        }
        // An owner that keeps its place has waited since it took it, however often it asks.
        by.since = before.since;
        Some(before)
    }
}
