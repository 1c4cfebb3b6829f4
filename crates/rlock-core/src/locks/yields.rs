//! How locks yield to Redisson clients.

use super::records::Records;
use super::{LockName, Yielding};
use crate::types::{LeaseMs, MonoMs};

impl Records {
    /// How a lock yields to Redisson clients.
    pub fn yielding(&self, lock: LockName<'_>) -> Option<Yielding> {
        self.known(lock)?.yielding
    }

    /// Sets how a lock yields to Redisson clients.
    pub fn set_yielding(&mut self, lock: LockName<'_>, yielding: Option<Yielding>) {
        if self.yielding(lock) != yielding {
            self.edit(lock, |record| record.yielding = yielding);
        }
    }

    /// Counts a native grant, or a new native reader.
    pub fn count_admitted(&mut self, lock: LockName<'_>, clock: MonoMs) {
        self.edit(lock, |record| record.yielding = Some(Yielding::admit(record.yielding, clock)));
    }

    /// Redisson clients had their chance, or do not exist: the count ends.
    pub fn end_count(&mut self, lock: LockName<'_>) {
        if let Some(Yielding::Counting { .. }) = self.yielding(lock) {
            self.set_yielding(lock, None);
        }
    }

    /// Redisson clients had their chance, or do not exist: native readers are counted from now on, if the lock may have any.
    pub fn count_anew(&mut self, lock: LockName<'_>, clock: MonoMs) {
        let yielding = self.native_read_end(lock).map(|_| Yielding::counting(clock));
        self.set_yielding(lock, yielding);
    }

    /// Closes the yield window if its time is over; returns the rest of an open one.
    pub fn expire_window(
        &mut self,
        lock: LockName<'_>,
        clock: MonoMs,
        longest: Option<LeaseMs>,
    ) -> Option<LeaseMs> {
        let left = self.yielding(lock)?.window_left(clock, longest);
        if left.is_none() {
            self.close_window(lock);
        }
        left
    }

    /// The lock is held: its yield window is over.
    pub fn close_window(&mut self, lock: LockName<'_>) {
        if let Some(Yielding::Window { .. }) = self.yielding(lock) {
            self.set_yielding(lock, None);
        }
    }
}
