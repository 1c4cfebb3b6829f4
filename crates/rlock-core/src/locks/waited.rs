//! When waiting time enters the table of hot locks: at the end of each wait, by the ten-second sweep, and before the table is
//! shown.

use super::hot_table::Waited;
use super::{HotLock, LockName, Locks, Meter};

impl Locks {
    /// The waiters of a lock are still waiting.
    pub(super) fn note_running_waits(&mut self, lock: LockName<'_>) {
        let (clock, emptied) = self.hot.clocks();
        let Some(record) = self.records.get_mut(lock) else { return };
        let name = record.name(lock.db);
        let Some(queue) = record.queue.as_deref_mut() else { return };
        let together_ms = queue.take_waited(clock, emptied);
        let longest_ms = queue.first_waits_ms(clock);
        self.hot.add(name, Waited { together_ms, ended: 0, longest_ms });
    }

    /// Counts the running waits, and returns the locks that cost most waiting, the first one most of all.
    pub fn rank_hot_locks(&mut self, meter: Meter) -> Vec<HotLock> {
        self.hot.enter(meter);
        for lock in self.hot.locks() {
            self.note_running_waits(lock.name());
        }
        self.hot.ranking(|lock| self.records.waiting_for(lock))
    }
}
