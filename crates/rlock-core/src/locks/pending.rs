//! Waiting time that the table of hot locks does not contain yet.

use crate::types::MonoMs;

/// Waiting time of a queue that the table of hot locks does not contain yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pending {
    ms: u64,
    up_to: MonoMs,
}

impl Pending {
    /// The first waiter starts to wait, or continues by a later call.
    pub(super) fn begin(&mut self, since: MonoMs) {
        self.up_to = self.up_to.max(since);
    }

    /// Counts the time that this number of waiters has waited up to `clock`. Time before the table was emptied does not count.
    pub(super) fn advance(&mut self, waiters: usize, clock: MonoMs, emptied: MonoMs) {
        if self.up_to < emptied {
            *self = Self { ms: 0, up_to: emptied };
        }
        let each = clock.0.saturating_sub(self.up_to.0);
        let together = each.saturating_mul(u64::try_from(waiters).unwrap_or(u64::MAX));
        self.ms = self.ms.saturating_add(together);
        self.up_to = self.up_to.max(clock);
    }

    /// Takes the time, which the table is about to contain.
    pub(super) fn take(&mut self) -> u64 {
        std::mem::take(&mut self.ms)
    }
}
