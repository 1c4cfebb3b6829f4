//! How long the read leases last that were given here. Redisson's renewal of a reader sets the end of the lock's key to
//! that of its own lease, and so would end a longer one of ours.

use super::{LockId, Queues};
use crate::types::UnixMs;

/// Of so many releases beside many readers one looks at a few of them: each look costs more than the release.
const RELEASES_PER_LOOK: u8 = 8;

impl Queues {
    /// Whether a release is to look at other readers.
    pub fn is_turn_to_look(&mut self) -> bool {
        self.releases = self.releases.wrapping_add(1);
        self.releases.is_multiple_of(RELEASES_PER_LOOK)
    }

    /// Whether a lock is read by owners from here, and so is known to be one.
    pub fn is_known_to_be_read(&self, lock: &LockId) -> bool {
        self.read_ends.contains_key(lock)
    }

    /// A read lease was given that ends then.
    pub fn note_read_end(&mut self, lock: &LockId, ends: UnixMs) {
        match self.read_ends.get_mut(lock) {
            Some(latest) => *latest = (*latest).max(ends),
            None => drop(self.read_ends.insert(lock.clone(), ends)),
        }
    }

    /// The lock is gone.
    pub fn forget_read_end(&mut self, lock: &LockId) {
        self.read_ends.remove(lock);
        self.read_changed.remove(lock);
    }

    /// Forgets those that have passed.
    pub fn forget_old_read_ends(&mut self, now: UnixMs) {
        self.read_ends.retain(|_, ends| *ends > now);
    }

    /// Whether any is known.
    pub fn knows_read_ends(&self) -> bool {
        !self.read_ends.is_empty()
    }

    /// Somebody else has changed a lock's key: true if its end is to be looked at.
    pub fn note_read_change(&mut self, lock: &LockId) -> bool {
        self.read_ends.contains_key(lock) && self.read_changed.insert(lock.clone())
    }

    /// Keys have come and gone without an event for each: all that are known are to be looked at.
    pub fn note_all_reads_changed(&mut self) {
        self.read_changed = self.read_ends.keys().cloned().collect();
    }

    /// The next lock whose key's end is to be looked at, and the latest end that it is to have.
    pub fn next_read_change(&mut self) -> Option<(LockId, UnixMs)> {
        while let Some(lock) = self.read_changed.pop_first() {
            if let Some(ends) = self.read_ends.get(&lock).copied() {
                return Some((lock, ends));
            }
        }
        None
    }

    /// It could not be looked at now.
    pub fn look_at_reads_later(&mut self, lock: LockId) {
        self.read_changed.insert(lock);
    }
}
