//! The fair-list entries of departed waiters, removed a few at a time.
//!
//! A fair list may hold fifty thousand entries, and one search per departed owner would block the server for minutes. The
//! departed owners of a lock are therefore a set, and its fair list is walked once for all of them.

use std::collections::BTreeMap;
use std::iter::from_fn;
use std::ops::Bound;

use super::{Job, LockName, Locks, Place};
use crate::weight::take_weighed;

/// Owners that left the queue of a lock, and whose entries in its fair list have not been removed yet.
///
/// The walk goes from the end of the list to its head, since Redisson's scripts take heads out and add entries at the
/// end: neither hides an entry from it. A change in the middle may, and so the walk begins anew after one.
#[derive(Clone, Debug, Default)]
pub(super) struct Leaving {
    /// The owners that had left before the walk began, with the places that they had in the queue.
    now: BTreeMap<Box<[u8]>, Place>,
    /// Those that have left since: the walk may have passed their entries.
    later: BTreeMap<Box<[u8]>, Place>,
    walk: Walk,
    /// Whether the walk is over: the owners that are left had no entry in the list.
    absent: bool,
    /// Whether one of these stood at the head of the list after a command had removed as many as it may: the message of
    /// a release went to that one, and the next owner in the list did not get it.
    departed_heads: bool,
}

/// A walk through a list from its end to its head.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Walk {
    /// How many entries at the end of the list were passed, and stay.
    passed: usize,
    /// Whether another client has changed the middle of the list since the walk began.
    disturbed: bool,
    /// The era in which it began: with the next one all lists may have changed.
    era: u64,
}

impl Walk {
    pub(super) fn at(passed: usize, era: u64) -> Self {
        Self { passed, disturbed: false, era }
    }

    /// How many entries at the end of the list need no other look; none in another era.
    pub(super) fn passed(self, era: u64) -> usize {
        if self.era == era { self.passed } else { 0 }
    }

    fn is_disturbed(self, era: u64) -> bool {
        self.disturbed || self.era != era
    }
}

impl Leaving {
    pub(super) fn add(&mut self, owner: Box<[u8]>, place: Place) {
        let begun = self.absent || self.walk.passed > 0;
        if begun {
            self.later.insert(owner, place)
        } else {
            self.now.insert(owner, place)
        };
    }

    fn has(&self, owner: &[u8]) -> bool {
        self.later.contains_key(owner) || !self.absent && self.now.contains_key(owner)
    }

    fn remove(&mut self, owner: &[u8]) -> Option<Place> {
        let place = self.now.remove(owner);
        self.later.remove(owner).or(place)
    }

    /// The walk begins, for all owners that have left by now.
    fn begin(&mut self, era: u64) {
        self.now.append(&mut self.later);
        (self.walk, self.absent) = (Walk::at(0, era), false);
    }

    /// These owners, after this one in the order of their bytes; `most` at most of each kind.
    pub(super) fn after(&self, after: Option<&[u8]>, most: usize) -> impl Iterator<Item = &Box<[u8]>> {
        let bounds = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        [&self.now, &self.later]
            .into_iter()
            .flat_map(move |owners| owners.range::<[u8], _>(bounds).take(most))
            .map(|(owner, _)| owner)
    }

    /// All of these owners, for the model checker.
    pub(super) fn owners(&self) -> impl Iterator<Item = (&[u8], bool)> {
        let now = self.now.keys().map(|owner| (&**owner, false));
        now.chain(self.later.keys().map(|owner| (&**owner, true)))
    }

    /// Where the walk is, for the model checker.
    pub(super) fn position(&self, era: u64) -> [i64; 4] {
        let passed = i64::try_from(self.walk.passed).unwrap_or(i64::MAX);
        [passed, self.walk.is_disturbed(era).into(), self.absent.into(), self.departed_heads.into()]
    }
}

/// A part of a fair list that was walked, from its end to its head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// The owners whose entries were removed.
    pub taken: Vec<Box<[u8]>>,
    /// The number of entries that stay.
    pub passed: usize,
    /// What all of these entries count: long owners count more.
    pub weight: usize,
    /// Whether the walk has reached the head.
    pub at_head: bool,
}

impl Locks {
    fn leaving(&self, lock: LockName<'_>) -> Option<&Leaving> {
        self.records.get(lock)?.leaving.as_deref()
    }

    fn leaving_mut(&mut self, lock: LockName<'_>) -> Option<&mut Leaving> {
        self.records.get_mut(lock)?.leaving.as_deref_mut()
    }

    /// Changes the departed owners of a lock, and whether there are any.
    pub(super) fn edit_leaving(
        &mut self,
        lock: LockName<'_>,
        change: impl FnOnce(&mut Option<Box<Leaving>>),
    ) {
        let some = self.edit(lock, |record| {
            change(&mut record.leaving);
            record.leaving.is_some()
        });
        let name = self.shared_name(lock);
        match some {
            true if self.is_replica => self.agenda.park(Job::LeaveFairList, name),
            true => self.agenda.push(Job::LeaveFairList, name),
            false => self.agenda.remove(Job::LeaveFairList, &name),
        }
    }

    /// Whether a lock's fair list may have entries of departed owners.
    pub fn has_leaving(&self, lock: LockName<'_>) -> bool {
        // Mostly no lock has any, and the record need not be found.
        self.agenda.may_have(Job::LeaveFairList) && self.leaving(lock).is_some()
    }

    /// Whether this owner has left the queue, but its fair-list entry is not removed yet.
    pub fn is_leaving(&self, lock: LockName<'_>, owner: &[u8]) -> bool {
        self.leaving(lock).is_some_and(|leaving| leaving.has(owner))
    }

    /// The number of owners that have left the queue, but whose fair-list entries are not removed yet.
    pub fn count_leaving(&self, lock: LockName<'_>) -> usize {
        let count = |leaving: &Leaving| {
            let now = if leaving.absent { 0 } else { leaving.now.len() };
            now.saturating_add(leaving.later.len())
        };
        self.leaving(lock).map_or(0, count)
    }

    /// An owner that had this place in the queue must be removed from the fair list, and from no other.
    pub(super) fn add_departed(&mut self, lock: LockName<'_>, owner: &[u8], place: Place) {
        let walk = Walk::at(0, self.era);
        let none = || Box::new(Leaving { walk, ..Leaving::default() });
        self.edit_leaving(lock, |leaving| leaving.get_or_insert_with(none).add(owner.into(), place));
    }

    /// The owner has left the fair list, or stays in it; returns its former place in the queue.
    pub fn forget_departed(&mut self, lock: LockName<'_>, owner: &[u8]) -> Option<u64> {
        let place = self.leaving_mut(lock)?.remove(owner);
        self.restart_or_forget(lock);
        place
    }

    /// If the walk has no owner left to look for, the next one begins.
    fn restart_or_forget(&mut self, lock: LockName<'_>) {
        let era = self.era;
        let Some(leaving) = self.leaving_mut(lock).filter(|leaving| leaving.now.is_empty()) else {
            return;
        };
        leaving.begin(era);
        if leaving.now.is_empty() && !leaving.departed_heads {
            self.edit_leaving(lock, |leaving| *leaving = None);
        }
    }

    /// Notes whether an owner that left still stands at the head of a lock's fair list.
    pub fn note_departed_heads(&mut self, lock: LockName<'_>, left: bool) {
        if let Some(leaving) = self.leaving_mut(lock) {
            leaving.departed_heads = left;
        }
        self.restart_or_forget(lock);
    }

    /// Whether an owner that left stood at the head of a lock's fair list, without a call of its head since.
    pub fn departed_heads_remain(&self, lock: LockName<'_>) -> bool {
        self.leaving(lock).is_some_and(|leaving| leaving.departed_heads)
    }

    /// The number of entries at the end of a lock's fair list that the walk has passed; `None` after its end.
    pub fn walked_so_far(&self, lock: LockName<'_>) -> Option<usize> {
        let leaving = self.leaving(lock)?;
        (!leaving.absent && !leaving.now.is_empty()).then_some(leaving.walk.passed)
    }

    /// A part of a lock's fair list was walked.
    pub fn walked(&mut self, lock: LockName<'_>, walked: &Walked) {
        let era = self.era;
        let Some(leaving) = self.leaving_mut(lock) else { return };
        for owner in &walked.taken {
            leaving.remove(owner);
        }
        leaving.walk.passed = leaving.walk.passed.saturating_add(walked.passed);
        if walked.at_head {
            let disturbed = leaving.walk.is_disturbed(era);
            if disturbed { leaving.begin(era) } else { leaving.absent = true }
        }
        // Only now: the walk did not search the whole list for owners that left during it.
        self.restart_or_forget(lock);
    }

    /// Departed owners that are not in a lock's fair list, until they count `most`: the rest of their data must be removed now.
    pub fn next_absent(&mut self, lock: LockName<'_>, most: usize) -> Vec<Box<[u8]>> {
        let Some(leaving) = self.leaving_mut(lock).filter(|leaving| leaving.absent) else {
            return Vec::new();
        };
        let absent = from_fn(|| leaving.now.pop_first().map(|(owner, _)| owner));
        let absent = take_weighed(most, absent).items;
        self.restart_or_forget(lock);
        absent
    }

    /// The lock's fair list no longer exists.
    pub fn forget_all_departed(&mut self, lock: LockName<'_>) {
        self.edit_leaving(lock, |leaving| *leaving = None);
    }

    /// Another client has changed a lock's fair list in the middle.
    pub fn disturb_walk(&mut self, lock: LockName<'_>) {
        if let Some(leaving) = self.leaving_mut(lock) {
            leaving.walk.disturbed = true;
        }
        if let Some(walk) = self.known_mut(lock).and_then(|record| record.uncapped_mut()) {
            *walk = Walk::default();
        }
    }
}
