//! SWAPDB moves the fair lists of two databases, but not their waiters: the entries leave the lists where these are now.

use std::collections::BTreeSet;

use super::calls::Place;
use super::records::Records;
use super::{LockName, Locks};

impl Records {
    /// Owners of a lock whose entries may be in its fair list, after this one in the order of their bytes, `most` at most: its waiters,
    /// and owners that left.
    pub(super) fn listed_after(
        &self,
        lock: LockName<'_>,
        after: Option<&[u8]>,
        most: usize,
    ) -> Vec<Box<[u8]>> {
        let Some(record) = self.get(lock) else { return Vec::new() };
        let queue = record.queue.as_deref().filter(|queue| queue.fair > 0);
        let waiting = queue.into_iter().flat_map(|queue| queue.waiters.owners_after(after, most));
        let left = record.leaving.iter().flat_map(|leaving| leaving.after(after, most)).map(Box::as_ref);
        let all: BTreeSet<&[u8]> = waiting.chain(left).collect();
        all.into_iter().take(most).map(Box::from).collect()
    }
}

impl Locks {
    /// An owner in the fair list does not wait here, and must be removed from the list.
    pub fn note_departed(&mut self, lock: LockName<'_>, owner: &[u8]) {
        let place = self.calls.new_place();
        self.note_departed_from(lock, owner, place);
    }

    /// Notes a departed owner with its former place in the queue. Until the locks of two exchanged databases were swept, its
    /// entry may be in either database.
    pub(super) fn note_departed_from(&mut self, lock: LockName<'_>, owner: &[u8], place: Place) {
        self.add_departed(lock, owner, place);
        for db in self.sweeps.exchanged_with(lock.db) {
            let there = LockName { db, key: lock.key };
            if self.records.fair_waiter(there, owner).is_none() {
                self.add_departed(there, owner, place);
            }
        }
    }
}
