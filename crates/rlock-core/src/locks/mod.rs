//! The waiters of each lock, their order, and the ends of their waits.
//!
//! Each lock has one queue, strictly first come, first served, with one entry per owner and mode. The queues hold no
//! state of locks: only the server knows whether a lock is free. Points in time only say when to check.

mod admission;
mod agenda;
mod canonical;
mod channels;
mod drop_reason;
mod dropped;
mod due;
mod ended;
mod fair;
mod forgotten;
mod found;
mod grants;
mod hot_table;
mod leaving;
mod name;
mod queue;
mod rank;
mod reads;
mod record;
mod records;
mod role;
mod seen;
mod swapped;
mod sweep;
mod ties;
mod untied;
mod users;
mod waited;
mod waiter_index;
mod waiters;
mod yielding;

use std::collections::{BTreeMap, BTreeSet};

pub use admission::{Limits, TieLimits};
pub use agenda::{Due, Job, Rearm};
pub use canonical::{Lens, append_sorted};
pub use drop_reason::DropReason;
pub use found::ReadSearch;
pub use grants::Grant;
pub use hot_table::HotLock;
pub use leaving::Walked;
pub use name::{LockName, LockRef};
pub use queue::{Via, Waiter, Wanted};
pub use seen::Cause;
pub use sweep::{Databases, Sweep};
pub use ties::{EndedTie, Session, tied};
pub use users::{Usage, User};
pub use waited::Meter;
pub use yielding::{Turns, Yielding};

use crate::types::{Mode, MonoMs};
use agenda::Agenda;
use channels::Channels;
use dropped::SentAway;
use hot_table::HotTable;
use queue::Queue;
use record::Counts;
use records::Records;
use sweep::Sweeps;
use ties::Sessions;
use users::Users;

/// One waiting call of one client; never used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// The queues of all locks.
#[derive(Clone, Debug, Default)]
pub struct Locks {
    records: Records,
    /// The locks with waiters: there may be a million other records.
    awaited: BTreeSet<LockRef>,
    /// Where [`Self::check_some_now`] continues.
    checked_up_to: Option<LockRef>,
    /// Where [`Self::doubt_some_slots`] continues.
    doubted_up_to: Option<LockRef>,
    /// Where each call stands.
    places: BTreeMap<Ticket, (LockRef, Place)>,
    /// The locks that calls were granted whose answers are pending.
    granted: BTreeMap<Ticket, LockRef>,
    counts: Counts,
    /// The work that is due, and when.
    agenda: Agenda,
    /// Where [`Self::forget_old`] continues.
    forgotten_up_to: Option<LockRef>,
    /// Counts the times at which data came of which other servers know more.
    era: u64,
    /// Until when a fair list may have entries that this server cannot tell alive from dead.
    lists_doubted_until: Option<MonoMs>,
    /// How many releases beside many readers there were.
    releases: u8,
    /// The waiters that are being sent away, a few at a time.
    dropped_waiters: Option<SentAway>,
    /// Reasons to check many locks, which is done a few locks at a time.
    sweeps: Sweeps,
    /// The holds and waiters that end with a connection.
    sessions: Sessions,
    /// The channels of enqueued waiters.
    channels: Channels,
    /// What counts for each user.
    users: Users,
    /// How many waiters were granted a lock, or taken out of a queue that was served, since the start.
    served: usize,
    /// The locks that cost most waiting.
    hot: HotTable,
    /// The clock of the entry point under way.
    meter: Meter,
    next_place: Place,
    last_ticket: Ticket,
    /// How often the server was demoted: see [`Self::known`].
    term: u64,
    /// Whether the server is a replica since it was demoted, and writes nothing.
    is_replica: bool,
    /// Whether it has its primary's data since: the fair lists belong to the primary.
    is_synchronised: bool,
}

type Place = u64;

impl Locks {
    /// Whether there are no waiters, no pending grants, and no grants to revoke or departed owners to remove.
    pub fn is_idle(&self) -> bool {
        let (revoke, leave) = (self.agenda.has(Job::Revoke), self.agenda.has(Job::LeaveFairList));
        self.places.is_empty() && self.granted.is_empty() && !revoke && !leave
    }

    /// Whether a command must read records of locks: some lock has waiters, pending or counted grants, departed owners, or a
    /// shortened lease. Native readers alone do not count.
    pub fn is_watched(&self) -> bool {
        self.counts.is_watched() || self.knows_ends()
    }

    /// Whether a command on this lock must read its record.
    pub fn watches(&self, lock: LockName<'_>) -> bool {
        self.records.get(lock).is_some_and(|record| record.is_watched(self.term)) || self.knows_end(lock)
    }

    /// Whether anything is known of this lock.
    pub fn knows(&self, lock: LockName<'_>) -> bool {
        self.records.get(lock).is_some()
    }

    /// The number of waiters on the whole server.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are no waiters.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The number of waiters for a lock.
    pub fn waiting_for(&self, lock: LockName<'_>) -> usize {
        self.queue(lock).map_or(0, |queue| queue.waiters.len())
    }

    /// A ticket for a new call.
    pub fn new_ticket(&mut self) -> Ticket {
        self.last_ticket = Ticket(self.last_ticket.0.wrapping_add(1));
        self.last_ticket
    }

    /// Appends a waiter to a lock's queue, after [`Self::admit`]. An owner in the queue keeps its place; its replaced
    /// waiter is returned, and must receive no other answer.
    pub fn join(&mut self, lock: LockName<'_>, mut waiter: Waiter) -> Option<Waiter> {
        self.note_joining(lock, waiter.since);
        let place = self.queue(lock).and_then(|queue| queue.waiters.place_of(&waiter.owner, waiter.mode));
        // An entry of the fair list that has not left it yet stands where it stood, and so does its owner in the queue.
        let left = if waiter.fair { self.forget_departed(lock, &waiter.owner) } else { None };
        let place = place.or(left).unwrap_or_else(|| self.new_place());
        let changed = self.queue(lock).is_some_and(|queue| queue.fair_changed);
        // Before the removal: with the last waiter of a connection that has ended, its end is forgotten.
        waiter.session = self.session_in(lock, place, &waiter);
        let replaced = self.remove(lock, place);
        if let Some(before) = &replaced {
            if before.fair && waiter.fair {
                self.forget_departed(lock, &waiter.owner);
            }
            // An owner that keeps its place has waited since it took it, however often it asks.
            waiter.since = before.since;
        }
        let (ticket, until) = (waiter.ticket, waiter.until);
        self.sessions.joined(&waiter);
        self.channels.joined(&mut waiter);
        self.users.joined(&mut waiter);
        self.edit(lock, |record| {
            let queue = record.queue.get_or_insert_default();
            queue.join(place, waiter);
            queue.fair_changed = changed && queue.fair > 0;
        });
        self.places.insert(ticket, (self.shared_name(lock), place));
        if let Some(until) = until {
            self.agenda.push_end(until, ticket);
        }
        replaced
    }

    /// The first waiter.
    pub fn head(&self, lock: LockName<'_>) -> Option<&Waiter> {
        self.queue(lock)?.waiters.first().map(|(_, head)| head)
    }

    /// All waiters for a lock, in order.
    pub fn in_order<'a>(&'a self, lock: LockName<'_>) -> impl Iterator<Item = &'a Waiter> + use<'a> {
        self.queue(lock).into_iter().flat_map(|queue| queue.waiters.iter())
    }

    /// Removes the first waiter from the queue.
    pub fn pop(&mut self, lock: LockName<'_>) -> Option<Waiter> {
        let (place, _) = self.queue(lock)?.waiters.first()?;
        self.remove_and_tidy(lock, place)
    }

    /// Removes an owner from a lock's queue, in all its modes.
    pub fn cancel(&mut self, lock: LockName<'_>, owner: &[u8]) -> Vec<Waiter> {
        let Some(queue) = self.queue(lock) else { return Vec::new() };
        let places = [Mode::Mutex, Mode::Read, Mode::Write, Mode::Permit]
            .map(|mode| queue.waiters.place_of(owner, mode));
        places.into_iter().flatten().filter_map(|place| self.remove_and_tidy(lock, place)).collect()
    }

    /// Removes a call from its queue; `None` if it no longer waits.
    pub fn leave(&mut self, ticket: Ticket) -> Option<(LockRef, Waiter)> {
        let (lock, place) = self.places.get(&ticket)?.clone();
        let waiter = self.remove_and_tidy(lock.name(), place)?;
        Some((lock, waiter))
    }

    fn new_place(&mut self) -> Place {
        self.next_place = self.next_place.wrapping_add(1);
        self.next_place
    }

    fn remove_and_tidy(&mut self, lock: LockName<'_>, place: Place) -> Option<Waiter> {
        let since = self.queue(lock)?.waiters.get(place)?.since;
        self.note_end_of_wait(lock, since);
        let waiter = self.remove(lock, place)?;
        let Some(queue) = self.queue(lock) else { return Some(waiter) };
        match queue.waiters.first() {
            None => {
                self.check_at(lock, None);
                self.edit_known(lock, |record| record.end_queue(waiter.mode));
            }
            Some((first, head)) if first > place && head.may_gain_by_the_end_of(&waiter) => {
                self.check_at(lock, Some(Due::Now));
            }
            Some(_) => {}
        }
        Some(waiter)
    }

    fn remove(&mut self, lock: LockName<'_>, place: Place) -> Option<Waiter> {
        let waiter = self.queue_mut(lock)?.remove(place)?;
        self.places.remove(&waiter.ticket);
        self.sessions.left(&waiter);
        self.channels.left(&waiter);
        self.users.left(&waiter);
        if let Some(until) = waiter.until {
            self.agenda.remove_end(until, waiter.ticket);
        }
        if waiter.fair && !self.is_synchronised {
            self.note_departed_from(lock, &waiter.owner, place);
        }
        Some(waiter)
    }
}

#[cfg(test)]
mod tests;
