//! The waiting time of each lock, and when it enters the table of hot locks: at the end of each wait, by the ten-second
//! sweep, and before the table is shown.

use super::hot_table::Waited;
use super::{HotLock, LockName, Locks, Queue};
use crate::types::MonoMs;

/// The clock of an entry point of the rules, and the most locks in the table of hot locks (`rlock.hot-locks`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Meter {
    /// The clock that never steps.
    pub clock: MonoMs,
    /// The most locks in the table.
    pub most: usize,
}

/// Waiting time of a queue that the table of hot locks does not contain yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pending {
    ms: u64,
    up_to: MonoMs,
}

impl Pending {
    /// The first waiter waits from then on; or it waits on by a later call.
    pub(super) fn begin(&mut self, since: MonoMs) {
        self.up_to = self.up_to.max(since);
    }

    /// This number of waiters has waited up to `clock`. What was before the table was emptied does not count.
    fn advance(&mut self, waiters: usize, clock: MonoMs, emptied: MonoMs) {
        if self.up_to < emptied {
            *self = Self { ms: 0, up_to: emptied };
        }
        let each = clock.0.saturating_sub(self.up_to.0);
        let together = each.saturating_mul(u64::try_from(waiters).unwrap_or(u64::MAX));
        self.ms = self.ms.saturating_add(together);
        self.up_to = self.up_to.max(clock);
    }
}

impl Queue {
    /// The queue is about to get longer.
    pub(super) fn note_joining(&mut self, clock: MonoMs, emptied: MonoMs) {
        self.pending.advance(self.waiters.len(), clock, emptied);
    }

    /// A wait that began at `since` is about to end: takes the time that the table does not contain yet.
    pub(super) fn end_wait(&mut self, since: MonoMs, clock: MonoMs, emptied: MonoMs) -> Waited {
        let together_ms = self.take_waited(clock, emptied);
        Waited { together_ms, ended: 1, longest_ms: clock.0.saturating_sub(since.0) }
    }

    fn take_waited(&mut self, clock: MonoMs, emptied: MonoMs) -> u64 {
        self.pending.advance(self.waiters.len(), clock, emptied);
        std::mem::take(&mut self.pending.ms)
    }

    /// How long the first waiter has waited, in ms.
    fn first_waits_ms(&self, clock: MonoMs) -> u64 {
        self.waiters.first().map_or(0, |(_, first)| clock.0.saturating_sub(first.since.0))
    }
}

impl Locks {
    /// The waiters of a lock are still waiting.
    pub(super) fn note_running_waits(&mut self, lock: LockName<'_>) {
        let Meter { clock, most } = self.meter;
        let emptied = self.hot.emptied;
        let Some(record) = self.records.get_mut(lock) else { return };
        let name = record.name(lock.db);
        let Some(queue) = record.queue.as_deref_mut() else { return };
        let together_ms = queue.take_waited(clock, emptied);
        let longest_ms = queue.first_waits_ms(clock);
        self.hot.add(name, Waited { together_ms, ended: 0, longest_ms }, most);
    }

    /// ACQUIRE was denied a lock, and its caller does not wait.
    pub fn note_denied(&mut self, lock: LockName<'_>, most: usize) {
        self.hot.add_denial(lock, most);
    }

    /// Counts the running waits, and returns the locks that cost most waiting, the first one most of all.
    pub fn rank_hot_locks(&mut self, meter: Meter) -> Vec<HotLock> {
        self.meter = meter;
        self.hot.shrink_to(meter.most);
        for lock in self.hot.locks() {
            self.note_running_waits(lock.name());
        }
        self.hot.ranking(|lock| self.waiting_for(lock))
    }

    /// Counts all waiting from now on, and forgets what was before.
    pub fn reset_hot_locks(&mut self, clock: MonoMs) {
        self.hot.empty(clock);
    }
}
