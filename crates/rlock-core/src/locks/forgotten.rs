//! Ties from before a demotion, and the lease ends that were watched for them. They do not count any more, but a million
//! ties cannot be freed within one event-loop cycle.

use std::collections::{BTreeMap, BTreeSet};

use super::ties::Hold;
use super::{LockRef, User};
use crate::types::{Mode, UnixMs};

/// Collections whose members are freed a few at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Forgotten {
    holds: Vec<BTreeMap<Hold, Option<User>>>,
    ends: Vec<BTreeMap<LockRef, (UnixMs, Mode)>>,
    by_end: Vec<BTreeSet<(UnixMs, LockRef)>>,
}

impl Forgotten {
    /// The tied holds by their connections.
    pub(super) fn add_holds(&mut self, holds: BTreeMap<u64, BTreeMap<Hold, Option<User>>>) {
        self.holds.extend(holds.into_values());
    }

    /// The ends of shortened leases. A replica's timer asks for this again and again.
    pub(super) fn add_ends(
        &mut self,
        ends: BTreeMap<LockRef, (UnixMs, Mode)>,
        by_end: BTreeSet<(UnixMs, LockRef)>,
    ) {
        self.ends.extend(Some(ends).filter(|ends| !ends.is_empty()));
        self.by_end.extend(Some(by_end).filter(|ends| !ends.is_empty()));
    }

    /// Frees `most` members of each kind.
    pub(super) fn free(&mut self, most: usize) {
        free(&mut self.holds, most, BTreeMap::pop_first);
        free(&mut self.ends, most, BTreeMap::pop_first);
        free(&mut self.by_end, most, BTreeSet::pop_first);
    }
}

/// Frees `most` members of these collections.
pub(super) fn free<C, T>(collections: &mut Vec<C>, most: usize, pop: impl Fn(&mut C) -> Option<T>) {
    for _ in 0..most {
        let Some(last) = collections.last_mut() else { return };
        if pop(last).is_none() {
            collections.pop();
        }
    }
}
