//! The locks that cost most waiting: a sketch of bounded size.
//!
//! Space-Saving (Metwally, Agrawal, El Abbadi 2005): a full table gives the place of the lock with the least waiting time to a new
//! lock, which inherits this time as its possible error. The reported time is never too small, and too large by the error at
//! most. Every lock with more than the total time divided by the size of the table is in it.

use std::collections::{BTreeMap, BTreeSet};

use super::{LockName, LockRef};
use crate::types::MonoMs;

/// A lock in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotLock {
    /// The lock.
    pub lock: LockRef,
    /// How long its waiters have waited together, in ms; too large by `error_ms` at most.
    pub waited_ms: u64,
    /// The time that the lock inherited when it entered the table, in ms.
    pub error_ms: u64,
    /// The waits that have ended since the lock entered the table.
    pub waits: u64,
    /// The longest of these waits and of those that were still running, in ms.
    pub longest_ms: u64,
    /// The denials since the lock entered the table.
    pub denied: u64,
    /// The waiters now.
    pub waiters: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    waited_ms: u64,
    error_ms: u64,
    waits: u64,
    longest_ms: u64,
    denied: u64,
}

/// Waiting time that the table does not contain yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waited {
    /// The time that all waiters of the lock have waited together, in ms.
    pub(super) together_ms: u64,
    /// The number of waits that ended.
    pub(super) ended: u64,
    /// The longest wait, ended or running, in ms.
    pub(super) longest_ms: u64,
}

/// The table.
#[derive(Clone, Debug, Default)]
pub(super) struct HotTable {
    entries: BTreeMap<LockRef, Entry>,
    /// The same locks by their waiting time.
    order: BTreeSet<(u64, LockRef)>,
    /// When the table was last emptied: earlier waiting does not count.
    pub(super) emptied: MonoMs,
}

impl HotTable {
    /// Adds waiting time of a lock. A lock without an entry gets one: in place of the lock with the least time, if the table
    /// has `most` locks.
    pub(super) fn add(&mut self, lock: LockRef, waited: Waited, most: usize) {
        self.shrink_to(most);
        if most == 0 {
            return;
        }
        if !self.entries.contains_key(&lock) {
            // A wait without waiting time does not replace another lock.
            if self.is_full(most) && waited.together_ms == 0 {
                return;
            }
            let inherited = if self.is_full(most) { self.remove_least() } else { 0 };
            self.insert(lock.clone(), inherited);
        }
        self.change(&lock, |entry| {
            entry.waited_ms = entry.waited_ms.saturating_add(waited.together_ms);
            entry.waits = entry.waits.saturating_add(waited.ended);
            entry.longest_ms = entry.longest_ms.max(waited.longest_ms);
        });
    }

    /// Counts a denial. It cost no waiting, so a lock without an entry gets one only while the table has room.
    pub(super) fn add_denial(&mut self, lock: LockName<'_>, most: usize) {
        self.shrink_to(most);
        let lock = lock.to_ref();
        if !self.entries.contains_key(&lock) {
            if self.is_full(most) {
                return;
            }
            self.insert(lock.clone(), 0);
        }
        self.change(&lock, |entry| entry.denied = entry.denied.saturating_add(1));
    }

    /// The locks in the table, those with the most waiting time first; `waiters` counts the waiters of each.
    pub(super) fn ranking(&self, waiters: impl Fn(LockName<'_>) -> usize) -> Vec<HotLock> {
        let row = |(waited_ms, lock): &(u64, LockRef)| {
            let Entry { error_ms, waits, longest_ms, denied, .. } = self.entries.get(lock).copied()?;
            let (waited_ms, waiters) = (*waited_ms, waiters(lock.name()));
            Some(HotLock { lock: lock.clone(), waited_ms, error_ms, waits, longest_ms, denied, waiters })
        };
        self.order.iter().rev().filter_map(row).collect()
    }

    /// The locks in the table.
    pub(super) fn locks(&self) -> Vec<LockRef> {
        self.entries.keys().cloned().collect()
    }

    /// Removes all entries; waiting before `clock` does not count any more.
    pub(super) fn empty(&mut self, clock: MonoMs) {
        *self = Self { emptied: clock, ..Self::default() };
    }

    /// Removes the locks with the least time until `most` are left.
    pub(super) fn shrink_to(&mut self, most: usize) {
        while self.entries.len() > most {
            self.remove_least();
        }
    }

    fn is_full(&self, most: usize) -> bool {
        self.entries.len() >= most
    }

    /// Removes the lock with the least time, and returns this time.
    fn remove_least(&mut self) -> u64 {
        let Some((waited_ms, lock)) = self.order.pop_first() else { return 0 };
        self.entries.remove(&lock);
        waited_ms
    }

    fn insert(&mut self, lock: LockRef, inherited_ms: u64) {
        self.order.insert((inherited_ms, lock.clone()));
        let (waited_ms, error_ms) = (inherited_ms, inherited_ms);
        self.entries.insert(lock, Entry { waited_ms, error_ms, ..Entry::default() });
    }

    fn change(&mut self, lock: &LockRef, change: impl FnOnce(&mut Entry)) {
        let Some(entry) = self.entries.get_mut(lock) else { return };
        let before = entry.waited_ms;
        change(entry);
        let after = entry.waited_ms;
        if after != before {
            self.order.remove(&(before, lock.clone()));
            self.order.insert((after, lock.clone()));
        }
    }
}

#[cfg(test)]
#[path = "hot_table_tests.rs"]
mod tests;
