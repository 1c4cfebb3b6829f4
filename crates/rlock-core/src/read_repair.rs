//! Redisson's renewal of a reader sets the expiry of the lock's key to its own lease end: the module raises it to the latest
//! lease end again.

use std::ops::ControlFlow;

use crate::at::At;
use crate::decision::Change;
use crate::facts::{Holder, ReadLease, WriteAccess};
use crate::locks::ReadSearch;
use crate::look::{Picture, is_read};
use crate::port::{Lock, Server};
use crate::read_leases::{holds_read, weigh_lease_keys};
use crate::timing::{WorkOutcome, check_soon};
use crate::turn::Turn;
use crate::types::{Expiry, Mode, UnixMs};
use crate::view::{Kind, Need};
use crate::weight::weight;
use crate::yielding;

/// The progress of a search.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Searched {
    /// There are more lease keys.
    Part,
    /// All were read.
    All,
    /// Some may be on the other server of a migration.
    Migrating,
    /// The lock is not read.
    NotRead,
}

impl<P: Server> At<'_, '_, P> {
    /// Reads the next lease keys of the lock; returns their weight as well.
    fn search_leases(&mut self, search: &mut ReadSearch, most: usize) -> (Searched, usize) {
        let mut read = weight(self.name().key.len());
        if !is_read(self.lock) {
            return (Searched::NotRead, read);
        }
        while read <= most {
            if let Some(reader) = search.readers.pop() {
                read = read.saturating_add(weigh_lease_keys(self.name(), &reader.owner, reader.holds));
                if self.add_leases(&reader, search).is_break() {
                    return (Searched::Migrating, read);
                }
                continue;
            }
            let Some(cursor) = search.cursor else { return (Searched::All, read) };
            let (readers, next) = match self.lock.readers_from(cursor, most) {
                Ok(Some(page)) => page,
                Ok(None) if self.lock.write_access() == WriteAccess::SlotMoved => {
                    return (Searched::Migrating, read);
                }
                // No question for write access to a user's own hash: the question names a field that the hash may have.
                Ok(None) | Err(_) => return (Searched::NotRead, read),
            };
            (search.readers, search.cursor) = (readers, next);
            read = read.saturating_add(1);
        }
        (Searched::Part, read)
    }

    /// Adds the leases of a reader; breaks where one may be on another server.
    fn add_leases(&self, Holder { owner, holds }: &Holder, search: &mut ReadSearch) -> ControlFlow<()> {
        for hold in holds_read(self.name(), owner, *holds) {
            match self.lock.read_lease(owner, hold) {
                ReadLease::Until(Expiry::At(ends)) => search.latest = search.latest.max(Some(ends)),
                ReadLease::Until(Expiry::Never) | ReadLease::Gone => {}
                ReadLease::Unknown => return ControlFlow::Break(()),
            }
        }
        ControlFlow::Continue(())
    }
}

impl<'a, 'l, P: Server> Turn<'a, 'l, P> {
    /// Searches for the read leases of a lock, if they are unknown, and raises the expiry of its key if it is before the latest
    /// end. It reads lease keys up to a weight of `most`, and the rest of one owner's; returns their weight.
    pub(crate) fn repair_reads(&mut self, most: usize) -> (WorkOutcome, usize) {
        let Some(mut search) = self.at.locks(|locks, lock| locks.records.take_read_search(lock)) else {
            return (self.repair_known(), weight(self.at.name().key.len()));
        };
        let (searched, read) = self.at.search_leases(&mut search, most);
        self.at.locks(|locks, lock| match searched {
            Searched::Part => locks.continue_read_search(lock, search),
            Searched::Migrating => locks.defer_read_search(lock),
            Searched::All => locks.records.reads_are_found(lock, &search),
            Searched::NotRead => locks.records.give_up_read_search(lock),
        });
        // Also while the search continues, which may take as long as a migration: the key must not end before what is known.
        (self.repair_known(), read)
    }

    fn repair_known(&mut self) -> WorkOutcome {
        match self.at.locks(|locks, lock| locks.records.read_end(lock)) {
            Some(ends) => self.repair_read_lease(ends),
            None => WorkOutcome::Done,
        }
    }

    /// Checks a read/write lock whose key another client has changed: it must last as long as its read leases, the longest of
    /// which ends at `ends`.
    fn repair_read_lease(&mut self, ends: UnixMs) -> WorkOutcome {
        match self.look_read_write().map(|picture| ends_early(&picture, ends)) {
            Some(true) => {}
            Some(false) => return WorkOutcome::Done,
            None => {
                self.forget_readers();
                return WorkOutcome::Done;
            }
        }
        match self.at.lock.write_access() {
            WriteAccess::Allowed => {}
            WriteAccess::Refused => return WorkOutcome::Refused,
            // The slot is not on this server yet, or not any more.
            WriteAccess::SlotMoved => {
                self.at.locks(|locks, lock| locks.defer_read_repair(lock));
                return WorkOutcome::Done;
            }
        }
        // Asking is a command, in which the lock may have ended.
        let Some(mut picture) = self.look_read_write().filter(|picture| ends_early(picture, ends)) else {
            return WorkOutcome::Done;
        };
        if !picture.shows_readers_only() {
            return WorkOutcome::Done;
        }
        let key_end = picture.view().key_end;
        let last_end =
            picture.last_end(Expiry::At(ends)).filter(|last_end| last_end.later(key_end) != key_end);
        if let Some(Expiry::At(at)) = last_end {
            // A failure is in the log.
            let change = Change { mode: Mode::Read, expire_at: Some(at), ..Change::default() };
            if let Ok(Some(performed)) = picture.perform(&change) {
                picture.turn().at.tell(None, &change, performed);
            }
            drop(picture);
            // Not later: the first waiter may be able to have the lock by now.
            check_soon(self.at.node, self.at.name());
        }
        WorkOutcome::Done
    }

    fn look_read_write(&mut self) -> Option<Picture<'_, 'a, 'l, P>> {
        self.look(None, Need::Own).ok().filter(|picture| picture.view().is_read_write())
    }

    /// Another client has deleted or replaced a lock with native readers. The hand-offs of a mutex that has its name now still count.
    fn forget_readers(&mut self) {
        let is_mutex = self.look(None, Need::Own).is_ok_and(|found| found.view().kind == Kind::Mutex);
        match is_mutex {
            true => self.at.locks(|locks, lock| locks.forget_read_end(lock)),
            false => yielding::native_reads_ended(self.at.node, self.at.name()),
        }
    }
}

/// Whether readers hold the lock, and its key ends before this time.
fn ends_early<P: Server>(picture: &Picture<'_, '_, '_, P>, ends: UnixMs) -> bool {
    let view = picture.view();
    view.kind == Kind::Reading && matches!(view.key_end, Expiry::At(at) if at < ends)
}
