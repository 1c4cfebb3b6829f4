//! Read leases that were not granted here: the server had them when it was started or promoted, or they came with a slot.
//!
//! They are in lease keys only, one for each hold of each reader. A search reads these a few at a time; until it is over the
//! leases of a lock are unknown.

use super::{Job, LockName, Locks};
use crate::facts::Holder;
use crate::types::UnixMs;

/// What is known of the read leases of a lock that were not granted here.
#[derive(Clone, Debug, Default)]
pub(super) struct FoundReads {
    /// When the latest of them ends, by the last search.
    pub(super) ends: Option<UnixMs>,
    /// The era in which they are known; `None` if they are not.
    known_in: Option<u64>,
    /// The search under way, unless a cycle of the timer has it.
    search: Option<Box<ReadSearch>>,
}

/// A search for the latest read lease of a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadSearch {
    /// Where the next page of readers begins; `None` after the last one.
    pub cursor: Option<u64>,
    /// The readers of the page whose leases are not read yet.
    pub readers: Vec<Holder>,
    /// When the latest lease so far ends.
    pub latest: Option<UnixMs>,
    /// When it began.
    era: u64,
}

impl FoundReads {
    /// The search under way and whether it is of this era, for the model checker; and whether the leases are known.
    pub(super) fn state(&self, era: u64) -> (Option<(&ReadSearch, bool)>, bool) {
        let search = self.search.as_deref().map(|search| (search, search.era == era));
        (search, self.known_in == Some(era))
    }

    /// Whether all known leases have ended.
    pub(super) fn is_old(&self, read_ends: Option<UnixMs>, now: UnixMs) -> bool {
        self.search.is_none() && self.ends.max(read_ends).is_none_or(|ends| ends < now)
    }
}

impl Locks {
    /// Whether all read leases of a lock are known, or are being searched for in this era. With the end of the latest the
    /// knowledge ends.
    pub fn knows_reads(&self, lock: LockName<'_>, now: UnixMs) -> bool {
        let Some(found) = self.known(lock).and_then(|record| record.found_reads.as_deref()) else {
            return false;
        };
        let known = || found.known_in == Some(self.era) && self.read_end(lock).is_some_and(|end| end > now);
        found.search.as_ref().is_some_and(|search| search.era == self.era) || known()
    }

    /// The lock has no readers but those that are granted it from now on.
    pub fn reads_are_known(&mut self, lock: LockName<'_>) {
        let known_in = Some(self.era);
        self.edit(lock, |record| {
            let found = record.found_reads.get_or_insert_default();
            **found = FoundReads { ends: None, known_in, search: None };
        });
    }

    /// The read leases of a lock must be searched for, from the start if they are being searched for.
    pub fn search_reads(&mut self, lock: LockName<'_>) {
        let search = self.new_read_search();
        self.edit(lock, |record| {
            let found = record.found_reads.get_or_insert_default();
            (found.known_in, found.search) = (None, Some(search));
        });
        let name = self.shared_name(lock);
        self.agenda.push(Job::RepairReads, name);
    }

    fn new_read_search(&self) -> Box<ReadSearch> {
        Box::new(ReadSearch { cursor: Some(0), era: self.era, ..ReadSearch::default() })
    }

    /// A lease key of a lock has come: earlier knowledge of its leases may lack that one.
    pub fn doubt_reads(&mut self, lock: LockName<'_>) {
        if self.known(lock).is_some_and(|record| record.found_reads.is_some()) {
            self.search_reads(lock);
        }
    }

    /// Takes the search for a lock's read leases, to continue it.
    pub fn take_read_search(&mut self, lock: LockName<'_>) -> Option<Box<ReadSearch>> {
        self.edit_known(lock, |record| record.found_reads.as_mut()?.search.take())?
    }

    /// The search continues later, unless a new one was begun meanwhile.
    pub fn continue_read_search(&mut self, lock: LockName<'_>, search: Box<ReadSearch>) {
        self.edit_known(lock, |record| {
            if let Some(found) = &mut record.found_reads {
                found.search.get_or_insert(search);
            }
        });
        let name = self.shared_name(lock);
        self.agenda.push(Job::RepairReads, name);
    }

    /// The search is over, and its result is complete, unless a new one was begun meanwhile.
    pub fn reads_are_found(&mut self, lock: LockName<'_>, search: &ReadSearch) {
        self.edit_known(lock, |record| {
            if let Some(found) = record.found_reads.as_mut().filter(|found| found.search.is_none()) {
                (found.ends, found.known_in) = (search.latest, Some(search.era));
            }
        });
    }

    /// The lock is not read: the search ends.
    pub fn give_up_read_search(&mut self, lock: LockName<'_>) {
        self.edit_known(lock, |record| {
            record.found_reads = record.found_reads.take().filter(|found| found.search.is_some());
        });
    }

    /// A part of the lock may be on the other server of a migration: the search begins anew when the slot is here.
    pub fn defer_read_search(&mut self, lock: LockName<'_>) {
        let search = self.new_read_search();
        self.edit(lock, |record| record.found_reads.get_or_insert_default().search = Some(search));
        self.defer_read_repair(lock);
    }

    /// Keys came that other servers know of, and without an event for each: no read leases are known but those that are
    /// granted from now on.
    pub(super) fn begin_era(&mut self) {
        self.era = self.era.wrapping_add(1);
    }
}
