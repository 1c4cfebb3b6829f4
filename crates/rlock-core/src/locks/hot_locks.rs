//! The locks that cost most waiting, and the clock by which waiting is counted.

use super::hot_table::{HotTable, Waited};
use super::{HotLock, LockName, LockRef};
use crate::types::MonoMs;

/// The clock of an entry point of the rules, and the most locks in the table of hot locks (`rlock.hot-locks`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Meter {
    /// The clock that never steps.
    pub clock: MonoMs,
    /// The most locks in the table.
    pub most: usize,
}

/// The locks that cost most waiting.
#[derive(Clone, Debug, Default)]
pub struct HotLocks {
    table: HotTable,
    /// The clock of the entry point under way.
    meter: Meter,
}

impl HotLocks {
    /// An entry point begins.
    pub(super) fn enter(&mut self, meter: Meter) {
        self.meter = meter;
    }

    /// The clock of the entry point under way, and when the table was last emptied.
    pub(super) fn clocks(&self) -> (MonoMs, MonoMs) {
        (self.meter.clock, self.table.emptied)
    }

    /// Adds waiting time of a lock.
    pub(super) fn add(&mut self, lock: LockRef, waited: Waited) {
        self.table.add(lock, waited, self.meter.most);
    }

    /// The locks in the table, after its size was set to that of the entry point under way.
    pub(super) fn locks(&mut self) -> Vec<LockRef> {
        self.table.shrink_to(self.meter.most);
        self.table.locks()
    }

    /// The locks in the table, those with the most waiting time first; `waiters` counts the waiters of each.
    pub(super) fn ranking(&self, waiters: impl Fn(LockName<'_>) -> usize) -> Vec<HotLock> {
        self.table.ranking(waiters)
    }

    /// ACQUIRE was denied a lock, and its caller does not wait.
    pub fn note_denied(&mut self, lock: LockName<'_>, most: usize) {
        self.table.add_denial(lock, most);
    }

    /// Forgets all waiting before `clock`.
    pub fn reset(&mut self, clock: MonoMs) {
        self.table.empty(clock);
    }
}
