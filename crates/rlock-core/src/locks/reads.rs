//! Locks with native readers.
//!
//! Redisson's renewal of a reader sets the expiry of the lock's key to its own lease end, and would shorten a longer native
//! lease: the module therefore remembers the native lease ends.

use super::records::Records;
use super::{Job, LockName, Locks, Yielding};
use crate::types::{MonoMs, UnixMs};

impl Records {
    /// Whether a lock has readers that are known, and is therefore known to be a read/write lock.
    pub fn has_known_readers(&self, lock: LockName<'_>) -> bool {
        self.read_end(lock).is_some()
    }

    /// The latest known end of a read lease, native or found.
    pub fn read_end(&self, lock: LockName<'_>) -> Option<UnixMs> {
        self.known(lock)?.read_end()
    }

    /// The latest end of a read lease that was granted here.
    pub fn native_read_end(&self, lock: LockName<'_>) -> Option<UnixMs> {
        self.known(lock)?.read_ends
    }

    /// A read lease with this end was granted. The time of native readers counts from the first one on.
    pub fn note_read_end(&mut self, lock: LockName<'_>, ends: UnixMs, clock: MonoMs) {
        self.edit(lock, |record| {
            record.read_ends = record.read_ends.max(Some(ends));
            record.yielding.get_or_insert(Yielding::counting(clock));
        });
    }
}

impl Locks {
    /// The lock has no native readers any more.
    pub fn forget_read_end(&mut self, lock: LockName<'_>) {
        if let Some(record) = self.records.get(lock) {
            self.agenda.remove(Job::RepairReads, &record.name(lock.db));
        }
        self.records.edit_known(lock, |record| (record.read_ends, record.found_reads) = (None, None));
    }

    /// The lock is free, and has no native readers any more. If natives wait for it, they are served next, and the row
    /// continues. Otherwise, if readers were held back, a window opens until `window_end`.
    pub fn reads_ended(&mut self, lock: LockName<'_>, window_end: Option<MonoMs>) {
        self.records.edit_known(lock, |record| {
            if record.queue.is_none() {
                record.yielding = record.yielding.and_then(|yielding| yielding.freed(window_end));
            }
        });
        self.forget_read_end(lock);
    }

    /// Another client has changed a lock's key: its expiry must be checked if it has known readers.
    pub fn schedule_read_repair(&mut self, lock: LockName<'_>) {
        if self.records.has_known_readers(lock) {
            let name = self.records.shared_name(lock);
            self.agenda.push(Job::RepairReads, name);
        }
    }

    /// The lock must not be written here, or not yet: its slot migrates.
    pub fn defer_read_repair(&mut self, lock: LockName<'_>) {
        let name = self.records.shared_name(lock);
        self.agenda.park(Job::RepairReads, name);
    }
}
