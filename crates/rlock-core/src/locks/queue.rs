//! The waiters of one lock, in their order.

use super::calls::Place;
use super::hot_table::Waited;
use super::pending::Pending;
use super::waiters::Waiters;
use super::{Cause, Due, Waiter};
use crate::types::{Expiry, MonoMs};

/// The waiters of one lock, and what was last seen of the lock that they wait for.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    pub(super) waiters: Waiters,
    /// When the lock is due to be served.
    pub(super) due: Option<Due>,
    /// How many stand in the fair list as well.
    pub(super) fair: usize,
    /// Whether another client may have changed the fair list since it was last checked.
    pub(super) fair_changed: bool,
    /// The state of the fair list, if the lock has one.
    fair_list: Option<Box<FairList>>,
    /// Whether more waiters can have the lock than were served at once: the timer serves the others.
    pub(super) unserved: bool,
    /// Whether dead readers must be removed before it is known whether the first waiter can have the lock.
    pub(super) in_doubt: bool,
    /// Whether the server must be asked if it still serves the lock's slot.
    pub(super) slot_in_doubt: bool,
    /// The lease end that was last seen.
    pub(super) ends: Option<Expiry>,
    /// What has happened to the key since it was seen.
    pub(super) seen: Option<Cause>,
    /// The latest lease end that waiting Redisson clients may know since they were last called.
    pub(super) announced_end: Option<Expiry>,
    /// The owner of an unconfirmed grant by message, until the grant is confirmed or ends.
    pub(super) unconfirmed: Option<Box<[u8]>>,
    /// Waiting time that the table of hot locks does not contain yet.
    pub(super) pending: Pending,
}

/// The state of a fair list.
#[derive(Clone, Debug, Default)]
pub(super) struct FairList {
    /// The first waiter, if it was found in the list.
    checked: Option<Place>,
    /// The Redisson waiter that was called since the lock became free.
    called: Option<Box<[u8]>>,
}

/// The work after the departure of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Departure {
    /// No waiter is left.
    QueueEnded,
    /// The waiter that is first now may have the lock.
    MayServe,
    NothingToDo,
}

impl Queue {
    /// The place of the first waiter, if it is in the fair list too.
    pub(super) fn first_fair(&self) -> Option<Place> {
        self.waiters.first().filter(|(_, head)| head.fair).map(|(place, _)| place)
    }

    /// The first waiter, if it was found in the fair list.
    pub(super) fn fair_checked(&self) -> Option<Place> {
        self.fair_list.as_ref()?.checked
    }

    /// The first waiter was found in the fair list, or none was.
    pub(super) fn set_fair_checked(&mut self, checked: Option<Place>) {
        if checked.is_some() || self.fair_list.is_some() {
            self.fair_list.get_or_insert_default().checked = checked;
        }
    }

    /// The Redisson waiter that was called since the lock became free.
    pub(super) fn called(&self) -> Option<&[u8]> {
        self.fair_list.as_ref()?.called.as_deref()
    }

    /// A Redisson waiter was called, or the lock is held.
    pub(super) fn set_called(&mut self, owner: Option<&[u8]>) {
        if owner.is_some() || self.fair_list.is_some() {
            self.fair_list.get_or_insert_default().called = owner.map(Box::from);
        }
    }

    /// Sets when the lock is due to be served. Returns the times before and after.
    pub(super) fn set_due(&mut self, due: Option<Due>) -> (Option<Due>, Option<Due>) {
        // A command that reads only the key must not put off the check of the fair list.
        let at_once = self.fair_changed || self.unserved;
        let due = if at_once && !self.waiters.is_empty() { Some(Due::Now) } else { due };
        (std::mem::replace(&mut self.due, due), due)
    }

    /// Adds a waiter at a place.
    pub(super) fn join(&mut self, place: Place, waiter: Waiter) {
        self.fair = self.fair.saturating_add(waiter.fair.into());
        if self.waiters.is_empty() {
            self.pending.begin(waiter.since);
        }
        self.waiters.insert(place, waiter);
    }

    /// Removes the waiter at a place.
    pub(super) fn remove(&mut self, place: Place) -> Option<Waiter> {
        let waiter = self.waiters.remove(place)?;
        if waiter.fair {
            self.fair = self.fair.saturating_sub(1);
            // With no native left to put back, a check of the list would be due for ever.
            self.fair_changed &= self.fair > 0;
            if let Some(list) = &mut self.fair_list {
                list.checked.take_if(|checked| *checked == place);
            }
        }
        Some(waiter)
    }

    /// The work after the departure of a waiter from this place.
    pub(super) fn after_departure(&self, place: Place, gone: &Waiter) -> Departure {
        match self.waiters.first() {
            None => Departure::QueueEnded,
            Some((first, head)) if first > place && head.may_gain_by_the_end_of(gone) => Departure::MayServe,
            Some(_) => Departure::NothingToDo,
        }
    }
}

/// How long its waiters have waited.
impl Queue {
    /// The queue is about to get longer.
    pub(super) fn note_joining(&mut self, clock: MonoMs, emptied: MonoMs) {
        self.pending.advance(self.waiters.len(), clock, emptied);
    }

    /// A wait that began at `since` is about to end: takes the time that the table does not contain yet.
    pub(super) fn end_wait(&mut self, since: MonoMs, clock: MonoMs, emptied: MonoMs) -> Waited {
        let together_ms = self.take_waited(clock, emptied);
        Waited { together_ms, ended: 1, longest_ms: clock.0.saturating_sub(since.0) }
    }

    pub(super) fn take_waited(&mut self, clock: MonoMs, emptied: MonoMs) -> u64 {
        self.pending.advance(self.waiters.len(), clock, emptied);
        self.pending.take()
    }

    /// How long the first waiter has waited, in ms.
    pub(super) fn first_waits_ms(&self, clock: MonoMs) -> u64 {
        self.waiters.first().map_or(0, |(_, first)| clock.0.saturating_sub(first.since.0))
    }
}
