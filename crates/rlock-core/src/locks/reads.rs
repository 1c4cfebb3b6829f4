//! Locks with native readers.
//!
//! Redisson's renewal of a reader sets the expiry of the lock's key to its own lease end, and would shorten a longer native
//! lease: the module therefore remembers the native lease ends. Overlapping native readers would starve a Redisson writer:
//! the module therefore counts them.

use super::{Job, LockName, LockRef, Locks, Turns};
use crate::types::{MonoMs, UnixMs};

/// The native readers of a lock that they read, or have read lately.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    /// How many came to read since foreign writers last had their chance.
    pub(super) came: u32,
    /// Since when.
    pub(super) since: MonoMs,
    /// Whether, and until when, new readers are held back.
    pub(super) closed: Option<HeldBack>,
}

impl Reading {
    /// Whether all read leases have ended, and no reader is held back any more: after their end a lock that is free for a
    /// Redisson writer is still to be left to it.
    pub(super) fn is_old(&self, read_ends: Option<UnixMs>, now: UnixMs, clock: MonoMs) -> bool {
        let kept = match self.closed {
            None => 0,
            Some(HeldBack::UntilFree { .. }) => KEPT_AFTER_MS,
            Some(HeldBack::Window { until }) if until > clock => return false,
            Some(HeldBack::Window { .. }) => 0,
        };
        read_ends.is_none_or(|ends| ends.0.saturating_add(kept) < now.0)
    }
}

/// How long it is remembered after the last read lease that readers are held back for a Redisson writer, in ms.
const KEPT_AFTER_MS: i64 = 10_000;

/// New readers are held back for a Redisson writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldBack {
    /// Until the lock is free, or the native leases have ended: Redisson readers continue to join each other.
    UntilFree {
        /// The time of the next check for a Redisson writer.
        check_at: MonoMs,
    },
    /// The lock is free, during a yield window.
    Window {
        /// The end of the window.
        until: MonoMs,
    },
}

/// Of so many releases beside many readers one looks at a few of them: each look costs more than the release.
const RELEASES_PER_LOOK: u8 = 8;

impl Locks {
    fn reading(&self, lock: LockName<'_>) -> Option<&Reading> {
        self.known(lock)?.reading.as_ref()
    }

    fn reading_mut(&mut self, lock: LockName<'_>) -> Option<&mut Reading> {
        self.known_mut(lock)?.reading.as_mut()
    }

    /// Whether this release must check other readers.
    pub fn is_check_due(&mut self) -> bool {
        self.releases = self.releases.wrapping_add(1);
        self.releases.is_multiple_of(RELEASES_PER_LOOK)
    }

    /// Whether a lock has native readers, and is therefore known to be a read/write lock.
    pub fn has_native_readers(&self, lock: LockName<'_>) -> bool {
        self.read_end(lock).is_some()
    }

    /// The latest known end of a read lease.
    pub fn read_end(&self, lock: LockName<'_>) -> Option<UnixMs> {
        self.known(lock)?.read_ends
    }

    /// A read lease with this end was granted.
    pub fn note_read_end(&mut self, lock: LockName<'_>, ends: UnixMs, clock: MonoMs) {
        self.edit(lock, |record| {
            record.read_ends = record.read_ends.max(Some(ends));
            record.reading.get_or_insert(Reading { came: 0, since: clock, closed: None });
        });
    }

    /// Counts a new reader.
    pub fn count_reader(&mut self, lock: LockName<'_>) {
        if let Some(reading) = self.reading_mut(lock) {
            reading.came = reading.came.saturating_add(1);
        }
    }

    /// The lock has no readers any more. If new readers are held back, they are held back until this time.
    pub fn forget_read_end(&mut self, lock: LockName<'_>, until: Option<MonoMs>) {
        if let Some(name) = self.records.shared_name(lock) {
            self.agenda.remove(Job::RepairReads, &name);
        }
        self.edit_known(lock, |record| {
            record.read_ends = None;
            match (&mut record.reading, until) {
                (Some(reading), Some(until)) if reading.closed.is_some() => {
                    // Who has had its moment has no other one.
                    if matches!(reading.closed, Some(HeldBack::UntilFree { .. })) {
                        reading.closed = Some(HeldBack::Window { until });
                    }
                }
                _ => record.reading = None,
            }
        });
    }

    /// Whether any read end is known.
    pub fn knows_read_ends(&self) -> bool {
        self.counts.read_ends > 0
    }

    /// Whether waiting Redisson writers, if any, have been passed over until their turn.
    pub fn writers_yield_is_due(&self, lock: LockName<'_>, turns: Turns, clock: MonoMs) -> bool {
        self.reading(lock).is_some_and(|reading| {
            reading.came >= turns.after_grants || clock.0.saturating_sub(reading.since.0) >= turns.after_ms
        })
    }

    /// Whether, and until when, new readers are held back.
    pub fn readers_held_back(&self, lock: LockName<'_>) -> Option<HeldBack> {
        self.reading(lock)?.closed
    }

    /// Whether a free lock is in the yield window of Redisson writers.
    pub fn yields_to_writers(&self, lock: LockName<'_>, clock: MonoMs) -> bool {
        match self.readers_held_back(lock) {
            None => false,
            Some(HeldBack::UntilFree { .. }) => true,
            Some(HeldBack::Window { until }) => until > clock,
        }
    }

    /// Holds new readers back.
    pub fn hold_readers_back(&mut self, lock: LockName<'_>, closed: HeldBack) {
        if let Some(reading) = self.reading_mut(lock) {
            reading.closed = Some(closed);
        }
    }

    /// Redisson writers had their chance, or do not exist: the count of new readers starts again.
    pub fn admit_readers(&mut self, lock: LockName<'_>, clock: MonoMs) {
        self.edit_known(lock, |record| match &mut record.reading {
            Some(reading) if record.read_ends.is_some() => {
                (reading.came, reading.since, reading.closed) = (0, clock, None);
            }
            _ => record.reading = None,
        });
    }

    /// Another client has changed a lock's key: its expiry must be checked if it has native readers.
    pub fn note_foreign_read_change(&mut self, lock: LockName<'_>) {
        if self.has_native_readers(lock) {
            let name = self.shared_name(lock);
            self.agenda.push(Job::RepairReads, name);
        }
    }

    /// The expiry of a lock's key was checked.
    pub fn reads_are_repaired(&mut self, lock: &LockRef) {
        self.agenda.remove(Job::RepairReads, lock);
    }

    /// The lock must not be written here, or not yet: its slot migrates.
    pub fn defer_read_repair(&mut self, lock: LockName<'_>) {
        let name = self.shared_name(lock);
        self.agenda.park(Job::RepairReads, name);
    }
}
