//! Waiters that leave their queues together, a few at a time: their waits have ended, or they are sent away.

use std::iter::from_fn;

use super::{DropReason, LockName, LockRef, Locks, Place, Queue, Ticket, Waiter};
use crate::types::MonoMs;
use crate::weight::take_weighed;

/// The waiters that are being sent away: all those with a ticket up to this one. Later ones come after that.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentAway {
    up_to: Ticket,
    why: DropReason,
}

impl SentAway {
    pub(super) fn up_to(self) -> Ticket {
        self.up_to
    }
}

impl Locks {
    /// Removes waiters whose wait has ended, until they count `most`; the others stay due.
    pub fn remove_timed_out(&mut self, now: MonoMs, most: usize) -> Vec<(LockRef, Waiter)> {
        let next = || self.agenda.ended(now).and_then(|ticket| self.leave(ticket));
        take_weighed(most, from_fn(next)).items
    }

    /// Removes the first waiters for a lock on a channel, until they count `most`, as served ones; returns their number.
    pub fn drop_channel(&mut self, lock: LockName<'_>, channel: &[u8], most: usize) -> usize {
        self.serve_until(lock, most, |queue| queue.waiters.first_on(channel)).len()
    }

    /// Removes the first waiters for a lock, until they count `most`, as served ones.
    pub fn drain(&mut self, lock: LockName<'_>, most: usize) -> Vec<(LockRef, Waiter)> {
        self.serve_until(lock, most, |queue| queue.waiters.first().map(|(place, _)| place))
    }

    /// Removes the next waiters for a lock, until they count `most`, as served ones.
    fn serve_until(
        &mut self,
        lock: LockName<'_>,
        most: usize,
        next: impl Fn(&Queue) -> Option<Place>,
    ) -> Vec<(LockRef, Waiter)> {
        let name = self.shared_name(lock);
        let take = || Some((name.clone(), self.remove_and_tidy(lock, &next)?));
        let taken = take_weighed(most, from_fn(take));
        self.count_served(taken.weight);
        taken.items
    }

    /// All present waiters will be sent away for this reason, which replaces an earlier one. But a waiter of a demoted server
    /// is granted nothing by it, whatever comes after.
    pub fn drop_waiters(&mut self, why: DropReason) {
        let why = self.dropping().filter(|before| *before == DropReason::Demoted).unwrap_or(why);
        self.agenda.change();
        self.dropped_waiters = (!self.places.is_empty()).then_some(SentAway { up_to: self.last_ticket, why });
    }

    /// The reason for which waiters are being sent away, if they are.
    pub fn dropping(&self) -> Option<DropReason> {
        self.dropped_waiters.map(|sent| sent.why)
    }

    /// Removes the next waiters that are sent away, until they count `most`, with the reason.
    pub fn next_dropped(&mut self, most: usize) -> (Vec<(LockRef, Waiter)>, Option<DropReason>) {
        let Some(SentAway { up_to, why }) = self.dropped_waiters else { return (Vec::new(), None) };
        let next = || {
            self.places
                .range(..=up_to)
                .next()
                .map(|(ticket, _)| *ticket)
                .and_then(|ticket| self.leave(ticket))
        };
        let gone = take_weighed(most, from_fn(next)).items;
        if self.places.range(..=up_to).next().is_none() {
            self.dropped_waiters = None;
        }
        (gone, Some(why))
    }

    /// Waiters that count this were granted a lock, or left the queue during a hand-off.
    pub fn count_served(&mut self, count: usize) {
        self.served = self.served.wrapping_add(count);
    }

    /// The count since an earlier reading of [`Self::served`].
    pub fn served_since(&self, before: usize) -> usize {
        self.served.wrapping_sub(before)
    }

    /// A reading for [`Self::served_since`].
    pub fn served(&self) -> usize {
        self.served
    }
}
