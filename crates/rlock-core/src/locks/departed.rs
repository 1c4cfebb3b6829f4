//! How the fair-list entries of departed waiters are removed.

use std::iter::from_fn;

use super::calls::Place;
use super::leaving::{Leaving, Walk};
use super::records::Records;
use super::{Job, LockName, Locks, Walked};
use crate::weight::take_weighed;

impl Records {
    fn leaving(&self, lock: LockName<'_>) -> Option<&Leaving> {
        self.get(lock)?.leaving.as_deref()
    }

    fn leaving_mut(&mut self, lock: LockName<'_>) -> Option<&mut Leaving> {
        self.get_mut(lock)?.leaving.as_deref_mut()
    }

    /// Whether this owner has left the queue, but its fair-list entry is not removed yet.
    pub fn is_leaving(&self, lock: LockName<'_>, owner: &[u8]) -> bool {
        self.leaving(lock).is_some_and(|leaving| leaving.has(owner))
    }

    /// The number of owners that have left the queue, but whose fair-list entries are not removed yet.
    pub fn count_leaving(&self, lock: LockName<'_>) -> usize {
        self.leaving(lock).map_or(0, Leaving::count)
    }

    /// Whether a departed owner was left at the head of a lock's fair list, and the head was not called since.
    pub fn departed_heads_remain(&self, lock: LockName<'_>) -> bool {
        self.leaving(lock).is_some_and(Leaving::has_departed_heads)
    }

    /// The number of entries at the end of a lock's fair list that the walk has passed; `None` after its end.
    pub fn walked_so_far(&self, lock: LockName<'_>) -> Option<usize> {
        self.leaving(lock)?.walked_so_far()
    }

    /// Another client has changed a lock's fair list in the middle.
    pub fn disturb_walk(&mut self, lock: LockName<'_>) {
        if let Some(leaving) = self.leaving_mut(lock) {
            leaving.disturb();
        }
        if let Some(walk) = self.known_mut(lock).and_then(|record| record.uncapped_mut()) {
            *walk = Walk::default();
        }
    }
}

impl Locks {
    /// Changes the departed owners of a lock, and whether there are any.
    pub(super) fn edit_leaving(
        &mut self,
        lock: LockName<'_>,
        change: impl FnOnce(&mut Option<Box<Leaving>>),
    ) {
        let some = self.records.edit(lock, |record| {
            change(&mut record.leaving);
            record.leaving.is_some()
        });
        let name = self.records.shared_name(lock);
        match some {
            true if self.role.is_replica() => self.agenda.park(Job::LeaveFairList, name),
            true => self.agenda.push(Job::LeaveFairList, name),
            false => self.agenda.remove(Job::LeaveFairList, &name),
        }
    }

    /// Whether a lock's fair list may have entries of departed owners.
    pub fn has_leaving(&self, lock: LockName<'_>) -> bool {
        // Mostly no lock has any, and the record need not be found.
        self.agenda.may_have(Job::LeaveFairList) && self.records.leaving(lock).is_some()
    }

    /// Notes that an owner with this former place in the queue must be removed from this fair list, and from no other.
    pub(super) fn add_departed(&mut self, lock: LockName<'_>, owner: &[u8], place: Place) {
        let era = self.role.era();
        let none = || Box::new(Leaving::of(era));
        self.edit_leaving(lock, |leaving| leaving.get_or_insert_with(none).add(owner.into(), place));
    }

    /// The owner has left the fair list, or stays in it; returns its former place in the queue.
    pub fn forget_departed(&mut self, lock: LockName<'_>, owner: &[u8]) -> Option<u64> {
        let place = self.records.leaving_mut(lock)?.remove(owner);
        self.restart_or_forget(lock);
        place
    }

    /// If the walk has no owner left to look for, the next one begins.
    fn restart_or_forget(&mut self, lock: LockName<'_>) {
        let era = self.role.era();
        let Some(leaving) = self.records.leaving_mut(lock) else { return };
        if leaving.begins_or_ends(era) {
            self.edit_leaving(lock, |leaving| *leaving = None);
        }
    }

    /// Notes whether a departed owner still stands at the head of a lock's fair list.
    pub fn note_departed_heads(&mut self, lock: LockName<'_>, left: bool) {
        if let Some(leaving) = self.records.leaving_mut(lock) {
            leaving.note_departed_heads(left);
        }
        self.restart_or_forget(lock);
    }

    /// A part of a lock's fair list was walked.
    pub fn walked(&mut self, lock: LockName<'_>, walked: &Walked) {
        let era = self.role.era();
        let Some(leaving) = self.records.leaving_mut(lock) else { return };
        leaving.walked(walked, era);
        // Only now: the walk did not search the whole list for owners that left during it.
        self.restart_or_forget(lock);
    }

    /// Departed owners that are not in a lock's fair list, up to a weight of `most`: the rest of their data must be removed now.
    pub fn next_absent(&mut self, lock: LockName<'_>, most: usize) -> Vec<Box<[u8]>> {
        let Some(leaving) = self.records.leaving_mut(lock) else { return Vec::new() };
        let absent = take_weighed(most, from_fn(|| leaving.pop_absent())).items;
        self.restart_or_forget(lock);
        absent
    }

    /// The lock's fair list no longer exists.
    pub fn forget_all_departed(&mut self, lock: LockName<'_>) {
        self.edit_leaving(lock, |leaving| *leaving = None);
    }
}
