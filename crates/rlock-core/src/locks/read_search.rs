//! The search for read leases that were not granted here.

use super::found::FoundReads;
use super::records::Records;
use super::{Job, LockName, Locks, ReadSearch};
use crate::types::UnixMs;

impl Records {
    /// Takes the search for a lock's read leases, to continue it.
    pub fn take_read_search(&mut self, lock: LockName<'_>) -> Option<Box<ReadSearch>> {
        self.edit_known(lock, |record| record.found_reads.as_mut()?.take_search())?
    }

    /// The search is over, and its result is complete, unless a new one was begun meanwhile.
    pub fn reads_are_found(&mut self, lock: LockName<'_>, search: &ReadSearch) {
        self.edit_known(lock, |record| {
            if let Some(found) = &mut record.found_reads {
                found.end_search(search);
            }
        });
    }

    /// The lock is not read: the search ends.
    pub fn give_up_read_search(&mut self, lock: LockName<'_>) {
        self.edit_known(lock, |record| {
            record.found_reads = record.found_reads.take().filter(|found| found.has_search());
        });
    }
}

impl Locks {
    /// Whether all read leases of a lock are known, or are being searched for in this era. The knowledge ends with the
    /// latest lease.
    pub fn knows_reads(&self, lock: LockName<'_>, now: UnixMs) -> bool {
        let Some(found) = self.records.known(lock).and_then(|record| record.found_reads.as_deref()) else {
            return false;
        };
        let era = self.role.era();
        let known = || found.is_known_in(era) && self.records.read_end(lock).is_some_and(|end| end > now);
        found.is_searched_in(era) || known()
    }

    /// Notes that the lock has no readers but those that are granted it from now on.
    pub fn reads_are_known(&mut self, lock: LockName<'_>) {
        let era = self.role.era();
        self.records
            .edit(lock, |record| **record.found_reads.get_or_insert_default() = FoundReads::none(era));
    }

    /// The read leases of a lock must be searched for, from the start if they are being searched for.
    pub fn search_reads(&mut self, lock: LockName<'_>) {
        let era = self.role.era();
        self.records.edit(lock, |record| record.found_reads.get_or_insert_default().begin_search(era));
        let name = self.records.shared_name(lock);
        self.agenda.push(Job::RepairReads, name);
    }

    /// A lease key of a lock has arrived: earlier knowledge of the lock's leases may lack it.
    pub fn doubt_reads(&mut self, lock: LockName<'_>) {
        if self.records.known(lock).is_some_and(|record| record.found_reads.is_some()) {
            self.search_reads(lock);
        }
    }

    /// The search continues later, unless a new one was begun meanwhile.
    pub fn continue_read_search(&mut self, lock: LockName<'_>, search: Box<ReadSearch>) {
        self.records.edit_known(lock, |record| {
            if let Some(found) = &mut record.found_reads {
                found.continue_later(search);
            }
        });
        let name = self.records.shared_name(lock);
        self.agenda.push(Job::RepairReads, name);
    }

    /// A part of the lock may be on the other server of a migration: the search begins anew when the slot is here.
    pub fn defer_read_search(&mut self, lock: LockName<'_>) {
        let era = self.role.era();
        self.records.edit(lock, |record| record.found_reads.get_or_insert_default().restart_search(era));
        self.defer_read_repair(lock);
    }
}
