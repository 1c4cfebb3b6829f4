//! Waiters that leave their queues together, a few at a time: their waits have ended, or they are sent away.

use std::iter::from_fn;

use super::calls::Place;
use super::queue::Queue;
use super::{DropReason, LockName, LockRef, Locks, Waiter};
use crate::types::MonoMs;
use crate::weight::take_weighed;

impl Locks {
    /// Removes waiters whose wait has ended, up to a weight of `most`; the others stay due.
    pub fn remove_timed_out(&mut self, now: MonoMs, most: usize) -> Vec<(LockRef, Waiter)> {
        let next = || self.agenda.ended(now).and_then(|ticket| self.leave(ticket));
        take_weighed(most, from_fn(next)).items
    }

    /// Removes the first waiters for a lock on a channel, up to a weight of `most`, and counts them as served; returns their number.
    pub fn drop_channel(&mut self, lock: LockName<'_>, channel: &[u8], most: usize) -> usize {
        self.serve_until(lock, most, |queue| queue.waiters.first_on(channel)).len()
    }

    /// Removes the first waiters for a lock, up to a weight of `most`, and counts them as served.
    pub fn drain(&mut self, lock: LockName<'_>, most: usize) -> Vec<(LockRef, Waiter)> {
        self.serve_until(lock, most, |queue| queue.waiters.first().map(|(place, _)| place))
    }

    /// Removes the next waiters for a lock, up to a weight of `most`, and counts them as served.
    fn serve_until(
        &mut self,
        lock: LockName<'_>,
        most: usize,
        next: impl Fn(&Queue) -> Option<Place>,
    ) -> Vec<(LockRef, Waiter)> {
        let name = self.records.shared_name(lock);
        let take = || Some((name.clone(), self.remove_and_tidy(lock, &next)?));
        let taken = take_weighed(most, from_fn(take));
        self.calls.count_served(taken.weight);
        taken.items
    }

    /// All present waiters will be sent away for this reason. If a demotion already sends them away, that stays the reason.
    pub fn drop_waiters(&mut self, why: DropReason) {
        self.agenda.change();
        self.calls.send_away(why);
    }

    /// Removes the next waiters that are sent away, up to a weight of `most`; returns the reason as well.
    pub fn next_dropped(&mut self, most: usize) -> (Vec<(LockRef, Waiter)>, Option<DropReason>) {
        let Some(why) = self.calls.dropping() else { return (Vec::new(), None) };
        let next = || self.calls.next_sent_away().and_then(|ticket| self.leave(ticket));
        let gone = take_weighed(most, from_fn(next)).items;
        self.calls.note_sent_away();
        (gone, Some(why))
    }
}
