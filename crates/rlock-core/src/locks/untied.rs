//! The ties of locks whose holds all ended at one moment: deleted, forgotten with their slot, or replaced without an event.

use super::{Databases, LockName, Locks};
use crate::weight::Weighed;

impl Locks {
    /// No hold of a lock is tied any more, and the end of its lease is not watched.
    pub fn untie_all(&mut self, lock: LockName<'_>) {
        self.forget_end(lock);
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
        let name = self.shared_name(lock);
        let ties = self.edit_known(lock, |record| record.ties.take()).flatten();
        self.sessions.untied.extend(ties.map(|ties| (name, *ties)));
        self.free_untied(1);
        if !self.sessions.untied.is_empty() {
            self.agenda.change();
        }
    }

    /// Frees ties of locks that are not tied any more, until they count `most`, and removes their stale entries by connection.
    pub fn free_untied(&mut self, most: usize) {
        let mut freed = 0_usize;
        while freed < most {
            let Some((lock, ties)) = self.sessions.untied.last_mut() else { return };
            let (lock, next) = (lock.clone(), ties.sessions.pop_first());
            if ties.sessions.is_empty() {
                self.sessions.untied.pop();
            }
            let Some(((owner, mode), session)) = next else { continue };
            let hold = (lock, owner, mode);
            freed = freed.saturating_add(hold.weight());
            // The same hold may have been acquired and tied to the same connection again.
            if !self.is_tied_to(session.client, &hold) {
                self.remove_hold(session.client, &hold);
            }
        }
    }

    /// The keys of databases were replaced without an event for each: their ties do not count any more.
    pub fn void_ties(&mut self, databases: Databases) {
        let sessions = &mut self.sessions;
        sessions.replaced = sessions.replaced.saturating_add(1);
        match databases {
            Databases::All => sessions.all_replaced = sessions.replaced,
            Databases::One(db) => drop(sessions.one_replaced.insert(db, sessions.replaced)),
        }
    }

    /// Removes the ties of a lock if they do not count any more.
    pub(super) fn remove_void_ties(&mut self, lock: LockName<'_>) {
        let ties = self.known(lock).and_then(|record| record.ties.as_deref());
        if ties.is_some_and(|ties| !self.sessions.counts(lock.db, ties)) {
            self.take_ties(lock);
        }
    }
}
