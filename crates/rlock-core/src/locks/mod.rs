//! The waiters of each lock, their order, and the ends of their waits.
//!
//! Each lock has one queue, strictly first come, first served, with one entry per owner and mode. The queues hold no
//! state of locks: only the server knows whether a lock is free. Points in time only say when to check.

mod admission;
mod agenda;
mod canonical;
mod channels;
mod counts;
mod drop_reason;
mod dropped;
mod due;
mod ended;
mod fair;
mod forgotten;
mod found;
mod grants;
mod hot_table;
mod joining;
mod leaving;
mod name;
mod queue;
mod rank;
mod rare;
mod reads;
mod record;
mod records;
mod role;
mod seen;
mod swapped;
mod sweep;
mod tickets;
mod ties;
mod undelivered;
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
pub use queue::{Via, Waiter};
pub use seen::Cause;
pub use sweep::{Databases, Sweep};
pub use ties::{EndedTie, Session, tied};
pub use users::{Usage, User};
pub use waited::Meter;
pub use yielding::{Turns, Yielding};

use crate::types::{Mode, MonoMs};
use agenda::Agenda;
use channels::Channels;
use counts::Counts;
use dropped::SentAway;
use hot_table::HotTable;
use queue::{Departure, Queue};
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
    /// How often the key of a lock with a record was changed, by a turn or by another client.
    changes: u64,
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

    /// How often the key of a lock with a record was changed: the knowledge of a turn is out of date after that.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// The key of a lock with a record was changed.
    pub(crate) fn key_changed(&mut self) {
        self.changes = self.changes.wrapping_add(1);
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
        self.remove_and_tidy(lock, |queue| queue.waiters.first().map(|(place, _)| place))
    }

    /// Removes an owner from a lock's queue, in all its modes.
    pub fn cancel(&mut self, lock: LockName<'_>, owner: &[u8]) -> Vec<Waiter> {
        let Some(queue) = self.queue(lock) else { return Vec::new() };
        let places = [Mode::Mutex, Mode::Read, Mode::Write, Mode::Permit]
            .map(|mode| queue.waiters.place_of(owner, mode));
        places.into_iter().flatten().filter_map(|place| self.remove_and_tidy(lock, |_| Some(place))).collect()
    }

    /// Removes a call from its queue; `None` if it no longer waits.
    pub fn leave(&mut self, ticket: Ticket) -> Option<(LockRef, Waiter)> {
        let (lock, place) = self.places.get(&ticket)?.clone();
        let waiter = self.remove_and_tidy(lock.name(), |_| Some(place))?;
        Some((lock, waiter))
    }

    fn new_place(&mut self) -> Place {
        self.next_place = self.next_place.wrapping_add(1);
        self.next_place
    }

    /// Removes a waiter from a lock's queue, and ends the queue with the last one.
    fn remove_and_tidy(
        &mut self,
        lock: LockName<'_>,
        place: impl FnOnce(&Queue) -> Option<Place>,
    ) -> Option<Waiter> {
        let (Meter { clock, most }, emptied) = (self.meter, self.hot.emptied);
        let record = self.records.get_mut(lock)?;
        let name = record.name(lock.db);
        let queue = record.queue.as_deref_mut()?;
        let place = place(queue)?;
        let since = queue.waiters.get(place)?.since;
        let waited = queue.end_wait(since, clock, emptied);
        let waiter = queue.remove(place)?;
        let departure = queue.after_departure(place, &waiter);
        self.hot.add(name, waited, most);
        self.forget_waiter(lock, &waiter, place);
        match departure {
            Departure::QueueEnded => self.end_queue(lock, waiter.mode()),
            Departure::MayServe => self.check_at(lock, Some(Due::Now)),
            Departure::NothingToDo => {}
        }
        Some(waiter)
    }

    /// The last waiter has left, which wanted the lock in this mode.
    fn end_queue(&mut self, lock: LockName<'_>, mode: Mode) {
        let ended = self.edit_known(lock, |record| {
            let due = record.queue.as_ref().and_then(|queue| queue.due);
            record.end_queue(mode);
            (record.name(lock.db), due)
        });
        if let Some((name, due)) = ended {
            self.agenda.move_serve(&name, due, None);
        }
    }

    /// A waiter was removed from this place of its queue.
    fn forget_waiter(&mut self, lock: LockName<'_>, waiter: &Waiter, place: Place) {
        self.places.remove(&waiter.ticket);
        self.sessions.left(waiter);
        self.channels.left(waiter);
        self.users.left(waiter);
        if let Some(until) = waiter.until {
            self.agenda.remove_end(until, waiter.ticket);
        }
        if waiter.fair && !self.is_synchronised {
            self.note_departed_from(lock, &waiter.owner, place);
        }
    }
}

#[cfg(test)]
mod sizes_tests;
#[cfg(test)]
mod tests;
