//! Locks with work of one kind.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::LockRef;

/// The locks with one kind of work to do now.
#[derive(Clone, Debug, Default)]
pub(super) struct Rank {
    pub(super) locks: BTreeSet<LockRef>,
    /// The last one that was worked on: the next is another, or one lock with much work would keep all others waiting.
    last: Option<LockRef>,
}

impl Rank {
    /// The last one, if the next depends on it.
    pub(super) fn last_of_many(&self) -> Option<&LockRef> {
        self.last.as_ref().filter(|_| self.locks.len() > 1)
    }

    /// A lock with work: another one at each call.
    pub(super) fn next(&mut self) -> Option<LockRef> {
        let later = self.last.take().and_then(|last| {
            let mut later = self.locks.range((Bound::Excluded(last), Bound::Unbounded));
            later.next().cloned()
        });
        self.last = later.or_else(|| self.locks.first().cloned());
        self.last.clone()
    }
}
