//! The number of natives that hold a lock in a row while Redisson clients wait, from docs/REDISSON.md.

/// Whether natives are held back for Redisson clients. It must be like this if `sure`; otherwise it may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Yielding {
    /// Natives acquire the lock.
    #[default]
    No,
    /// New readers are held back until the lock is free, or the native read leases have ended.
    Draining { sure: bool },
    /// The free lock is left to Redisson clients until this time at the latest.
    Window { until: u64, sure: bool },
}

impl Yielding {
    /// The lock is held, or its last waiter has left.
    pub(super) fn close_window(&mut self) {
        if matches!(self, Self::Window { .. }) {
            *self = Self::No;
        }
    }

    /// It may have ended, or may end earlier.
    pub(super) fn doubt(&mut self) {
        if let Self::Draining { sure } | Self::Window { sure, .. } = self {
            *sure = false;
        }
    }
}

/// The natives that have passed waiting Redisson clients in a row: their number, and the time of the first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Row {
    pub(super) yielding: Yielding,
    /// The last time at which a Redisson client listened, and a native held the lock as reader.
    pub(super) wanted_at: u64,
    /// A lock that has become free is left to Redisson clients until this time at least, by whichever event the module notices it.
    pub(super) left_until: u64,
    /// Hand-offs, at least.
    pub(super) handed: Option<(u32, u64)>,
    /// Readers that a Redisson writer has waited through, at least.
    pub(super) least: Option<(u32, u64)>,
    /// All of them, at most.
    pub(super) most: Option<(u32, u64)>,
}
