//! The fair-list entries of departed waiters, removed a few at a time.
//!
//! A fair list may hold fifty thousand entries, and one search per departed owner would block the server for minutes. The
//! departed owners of a lock are therefore a set, and its fair list is walked once for all of them.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::calls::Place;

/// Owners that left the queue of a lock, and whose entries in its fair list have not been removed yet.
///
/// The walk goes from the end of the list to its head, since Redisson's scripts take heads out and add entries at the
/// end: neither hides an entry from it. A change in the middle may, and so the walk begins anew after one.
#[derive(Clone, Debug, Default)]
pub(super) struct Leaving {
    /// The owners that had left before the walk began, with the places that they had in the queue.
    now: BTreeMap<Box<[u8]>, Place>,
    /// The owners that have left since: the walk may have passed their entries.
    later: BTreeMap<Box<[u8]>, Place>,
    walk: Walk,
    /// Whether the walk is over: the owners that are left had no entry in the list.
    absent: bool,
    /// Whether a departed owner stood at the head of the list after a command had removed as many as it may. The
    /// message of a release went to that owner, and the next owner in the list did not get it.
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

    /// How many entries at the end of the list need no further check; none in another era.
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

    /// An empty set of departed owners, for this era.
    pub(super) fn of(era: u64) -> Self {
        Self { walk: Walk::at(0, era), ..Self::default() }
    }

    pub(super) fn has(&self, owner: &[u8]) -> bool {
        self.later.contains_key(owner) || !self.absent && self.now.contains_key(owner)
    }

    pub(super) fn remove(&mut self, owner: &[u8]) -> Option<Place> {
        let place = self.now.remove(owner);
        self.later.remove(owner).or(place)
    }

    /// The walk begins, for all owners that have left by now.
    fn begin(&mut self, era: u64) {
        self.now.append(&mut self.later);
        (self.walk, self.absent) = (Walk::at(0, era), false);
    }

    /// Begins the next walk if this one has no owner left to look for. Returns whether nothing is left to do.
    pub(super) fn begins_or_ends(&mut self, era: u64) -> bool {
        if !self.now.is_empty() {
            return false;
        }
        self.begin(era);
        self.now.is_empty() && !self.departed_heads
    }

    /// Whether a departed owner was left at the head of the list, and the head was not called since.
    pub(super) fn has_departed_heads(&self) -> bool {
        self.departed_heads
    }

    /// Notes whether a departed owner still stands at the head of the list.
    pub(super) fn note_departed_heads(&mut self, left: bool) {
        self.departed_heads = left;
    }

    /// A part of the list was walked.
    pub(super) fn walked(&mut self, walked: &Walked, era: u64) {
        for owner in &walked.taken {
            self.remove(owner);
        }
        self.walk.passed = self.walk.passed.saturating_add(walked.passed);
        if walked.at_head {
            let disturbed = self.walk.is_disturbed(era);
            if disturbed { self.begin(era) } else { self.absent = true }
        }
    }

    /// The number of entries at the end of the list that the walk has passed; `None` after its end.
    pub(super) fn walked_so_far(&self) -> Option<usize> {
        (!self.absent && !self.now.is_empty()).then_some(self.walk.passed)
    }

    /// Another client has changed the list in the middle.
    pub(super) fn disturb(&mut self) {
        self.walk.disturbed = true;
    }

    /// Takes an owner that is not in the list; none before the walk is over.
    pub(super) fn pop_absent(&mut self) -> Option<Box<[u8]>> {
        if self.absent { self.now.pop_first().map(|(owner, _)| owner) } else { None }
    }

    /// The number of owners whose entries are not removed yet.
    pub(super) fn count(&self) -> usize {
        let now = if self.absent { 0 } else { self.now.len() };
        now.saturating_add(self.later.len())
    }

    /// Departed owners after this one, in the order of their bytes; at most `most` of each kind.
    pub(super) fn after(&self, after: Option<&[u8]>, most: usize) -> impl Iterator<Item = &Box<[u8]>> {
        let bounds = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        [&self.now, &self.later]
            .into_iter()
            .flat_map(move |owners| owners.range::<[u8], _>(bounds).take(most))
            .map(|(owner, _)| owner)
    }

    /// All departed owners, for the model checker.
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
    /// The weight of all these entries: long owners count more.
    pub weight: usize,
    /// Whether the walk has reached the head.
    pub at_head: bool,
}
