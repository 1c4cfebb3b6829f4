//! A read/write lock's keys, as plainly as they can be said.

use std::collections::BTreeMap;

use super::op::{OWNERS, Owner};

/// The hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hash {
    /// Whether `mode` is `write`.
    pub(super) writing: bool,
    /// The hold counts of readers, also of dead ones; 0 if there is no field.
    pub(super) reads: [i64; OWNERS.len()],
    /// The hold counts of writers.
    pub(super) writes: [i64; OWNERS.len()],
    /// When it expires by the wall clock, if ever.
    pub(super) ends: Option<i64>,
}

/// The lease keys of read holds, by owner and number of the hold: when each ends.
pub(super) type Leases = BTreeMap<(Owner, i64), i64>;

impl Hash {
    /// Whether the hash has no hold left.
    pub(super) fn is_empty(&self) -> bool {
        self.reads.iter().chain(&self.writes).all(|count| *count == 0)
    }

    /// Whether another owner has a field.
    pub(super) fn has_others(&self, owner: Owner) -> bool {
        owners().any(|other| other != owner && (self.reads[other.0] > 0 || self.writes[other.0] > 0))
    }

    /// When an owner's read lease ends: that of the newest hold that has one; `None` if it does not read, or is dead.
    pub(super) fn reads_until(&self, leases: &Leases, owner: Owner, now: i64) -> Option<i64> {
        let mut hold = self.reads[owner.0];
        while hold > 0 {
            match leases.get(&(owner, hold)) {
                Some(at) if *at >= now => return Some(*at),
                _ => hold -= 1,
            }
        }
        None
    }

    /// The latest end of any read hold's lease, except for those of one owner.
    pub(super) fn latest(&self, leases: &Leases, but: Option<Owner>, now: i64) -> Option<i64> {
        let counts = |(owner, hold): &(Owner, i64)| Some(*owner) != but && *hold <= self.reads[owner.0];
        leases.iter().filter(|(key, at)| counts(key) && **at >= now).map(|(_, at)| *at).max()
    }

    /// Extends the hash to this time, if it would end before.
    pub(super) fn last_until(&mut self, at: i64) {
        self.ends = self.ends.map(|ends| ends.max(at));
    }
}

/// All owners.
pub(super) fn owners() -> impl Iterator<Item = Owner> {
    (0..OWNERS.len()).map(Owner)
}
