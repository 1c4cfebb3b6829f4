//! What memory knows of few locks: kept apart from the record, which every lock with a waiter has.

use std::collections::VecDeque;

use super::Grant;
use super::leaving::Walk;

/// The rare part of a record.
#[derive(Clone, Debug, Default)]
pub(super) struct Rare {
    /// Grants whose clients disconnected before the reply.
    pub(super) revokes: VecDeque<Grant>,
    /// How far the fair list was walked to bound the deadlines of entries that this server cannot tell alive from dead.
    pub(super) uncapped: Option<Walk>,
    /// Whether the deadlines are bounded, while the lists of other locks may still have unbounded entries.
    pub(super) is_capped: bool,
}

impl Rare {
    pub(super) fn is_empty(&self) -> bool {
        let Self { revokes, uncapped, is_capped } = self;
        revokes.is_empty() && uncapped.is_none() && !is_capped
    }
}
