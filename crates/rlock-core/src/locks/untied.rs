//! The ties of locks whose holds all ended at one moment: deleted, forgotten with their slot, or replaced without an event.

use super::{LockName, Locks};
use crate::weight::Weighed;

impl Locks {
    /// No hold of a lock is tied any more, and the end of its lease is not watched.
    pub fn untie_all(&mut self, lock: LockName<'_>) {
        if self.sessions.forget_end(lock) {
            self.agenda.change();
        }
        self.untie_holds(lock);
    }

    /// No hold of a lock is tied any more.
    pub fn untie_holds(&mut self, lock: LockName<'_>) {
        if self.has_tied_holds(lock) {
            self.take_ties(lock);
        }
    }

    /// A lock may have a million ties: one is freed now, which is all that most locks have, the others in
    /// [`Self::free_untied`].
    fn take_ties(&mut self, lock: LockName<'_>) {
        let name = self.records.shared_name(lock);
        let ties = self.records.edit_known(lock, |record| record.ties.take()).flatten();
        if let Some(ties) = ties {
            self.sessions.add_untied(name, *ties);
        }
        self.free_untied(1);
        if self.sessions.has_untied() {
            self.agenda.change();
        }
    }

    /// Frees ties of locks that are not tied any more, up to a weight of `most`, and removes their stale entries by connection.
    pub fn free_untied(&mut self, most: usize) {
        let mut freed = 0_usize;
        while freed < most {
            let Some((client, hold)) = self.sessions.next_untied() else { return };
            freed = freed.saturating_add(hold.weight());
            // The same hold may have been acquired and tied to the same connection again.
            if !self.is_indexed_by(client, &hold) {
                self.remove_hold(client, &hold);
            }
        }
    }

    /// Removes the ties of a lock if they do not count any more.
    pub(super) fn remove_void_ties(&mut self, lock: LockName<'_>) {
        let ties = self.records.known(lock).and_then(|record| record.ties.as_deref());
        if ties.is_some_and(|ties| !self.sessions.counts(lock.db, ties)) {
            self.take_ties(lock);
        }
    }
}
