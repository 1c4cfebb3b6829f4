//! The waiters of each lock, their order, and the ends of their waits.
//!
//! Each lock has one queue, strictly first come, first served, with one entry per owner and mode. The queues hold no
//! state of locks: only the server knows whether a lock is free. Points in time only say when to check.

mod admission;
mod aged;
mod agenda;
mod calls;
mod canonical;
mod cause;
mod channels;
mod counts;
mod departed;
mod drop_reason;
mod dropped;
mod due;
mod ended;
mod fair;
mod forgotten;
mod found;
mod grants;
mod hot_locks;
mod hot_table;
mod joining;
mod leaving;
mod name;

mod pending;
mod queue;
mod rank;
mod rare;
mod read_search;
mod reads;
mod record;
mod record_map;
mod records;
mod releases;
mod role;
mod role_change;
mod seen;
mod session;
mod sessions;
mod swapped;
mod sweep;
mod sweeping;
mod tickets;
mod ties;
mod tying;
mod undelivered;
mod unsubscribed;
mod untied;
mod users;
mod waited;
mod waiter;
mod waiter_index;
mod waiters;
mod walks;
mod yielding;
mod yields;

pub use admission::{Limits, TieLimits};
pub use agenda::{Due, Job, Rearm};
pub use calls::Ticket;
pub use canonical::{Lens, append_sorted};
pub use cause::Cause;
pub use drop_reason::DropReason;
pub use found::ReadSearch;
pub use hot_locks::Meter;
pub use hot_table::HotLock;
pub use leaving::Walked;
pub use name::{LockName, LockRef};
pub use session::{Call, Session};
pub use sweep::{Databases, Sweep};
pub use ties::{EndedTie, Tie};
pub use undelivered::Grant;
pub use users::Usage;
pub use waiter::{User, Via, Waiter};
pub use yielding::{Turns, Yielding};

use crate::types::Mode;
use agenda::Agenda;
use calls::{Calls, Place};
use channels::Channels;
use hot_locks::HotLocks;
use queue::{Departure, Queue};
use records::Records;
use releases::Releases;
use role::Role;
use sessions::Sessions;
use sweep::Sweeps;
use users::Users;
use walks::Walks;

/// What memory knows of all locks, in parts. A method of a part needs nothing but that part; methods that concern several
/// parts are here, in one file for each subject.
#[derive(Clone, Debug, Default)]
pub struct Locks {
    /// One record for each lock.
    pub records: Records,
    /// The work that is due, and when.
    pub agenda: Agenda,
    /// The calls that wait, or whose answers are pending.
    pub calls: Calls,
    /// The holds and waiters that end with a connection.
    pub sessions: Sessions,
    /// What counts for each user.
    pub users: Users,
    /// The channels of enqueued waiters.
    pub channels: Channels,
    /// The role of the server.
    pub role: Role,
    /// The locks that cost most waiting.
    pub hot: HotLocks,
    /// Reasons to check many locks, which is done a few locks at a time.
    pub sweeps: Sweeps,
    /// Where other walks through many locks continue.
    walks: Walks,
    /// The releases beside many readers.
    pub releases: Releases,
}

impl Locks {
    /// Whether a command must read records of locks: some lock has waiters, pending or counted grants, departed owners, or a
    /// shortened lease. Native readers alone do not count.
    pub fn is_watched(&self) -> bool {
        self.records.is_watched() || self.sessions.knows_ends()
    }

    /// Whether a command on this lock must read its record.
    pub fn watches(&self, lock: LockName<'_>) -> bool {
        self.records.watches(lock) || self.sessions.knows_end(lock)
    }

    /// Removes the first waiter from the queue.
    pub fn pop(&mut self, lock: LockName<'_>) -> Option<Waiter> {
        self.remove_and_tidy(lock, |queue| queue.waiters.first().map(|(place, _)| place))
    }

    /// Removes an owner from a lock's queue, in all its modes.
    pub fn cancel(&mut self, lock: LockName<'_>, owner: &[u8]) -> Vec<Waiter> {
        let Some(queue) = self.records.queue(lock) else { return Vec::new() };
        let places = [Mode::Mutex, Mode::Read, Mode::Write, Mode::Permit]
            .map(|mode| queue.waiters.place_of(owner, mode));
        places.into_iter().flatten().filter_map(|place| self.remove_and_tidy(lock, |_| Some(place))).collect()
    }

    /// Removes a call from its queue; `None` if it no longer waits.
    pub fn leave(&mut self, ticket: Ticket) -> Option<(LockRef, Waiter)> {
        let (lock, place) = self.calls.place_of(ticket)?.clone();
        let waiter = self.remove_and_tidy(lock.name(), |_| Some(place))?;
        Some((lock, waiter))
    }

    /// Removes a waiter from a lock's queue, and ends the queue with the last one.
    fn remove_and_tidy(
        &mut self,
        lock: LockName<'_>,
        place: impl FnOnce(&Queue) -> Option<Place>,
    ) -> Option<Waiter> {
        let (clock, emptied) = self.hot.clocks();
        let record = self.records.get_mut(lock)?;
        let name = record.name(lock.db);
        let queue = record.queue.as_deref_mut()?;
        let place = place(queue)?;
        let since = queue.waiters.get(place)?.since;
        let waited = queue.end_wait(since, clock, emptied);
        let waiter = queue.remove(place)?;
        let departure = queue.after_departure(place, &waiter);
        self.hot.add(name, waited);
        self.forget_waiter(lock, &waiter, place);
        match departure {
            Departure::QueueEnded => self.end_queue(lock, waiter.mode()),
            Departure::MayServe => self.check_at(lock, Some(Due::Now)),
            Departure::NothingToDo => {}
        }
        Some(waiter)
    }

    /// The last waiter has left; it wanted the lock in this mode.
    fn end_queue(&mut self, lock: LockName<'_>, mode: Mode) {
        let ended = self.records.edit_known(lock, |record| {
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
        self.calls.left(waiter.ticket);
        self.sessions.left(waiter);
        self.channels.left(waiter);
        self.users.left(waiter);
        if let Some(until) = waiter.until {
            self.agenda.remove_end(until, waiter.ticket);
        }
        if waiter.fair && !self.role.is_synchronised() {
            self.note_departed_from(lock, &waiter.owner, place);
        }
    }
}

#[cfg(test)]
mod sizes_tests;
#[cfg(test)]
mod tests;
