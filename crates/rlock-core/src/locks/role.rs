//! The role of the server, and what it cannot know of data from other servers.

use crate::types::MonoMs;

/// An hour after a start, a promotion or the arrival of slots, no fair list is doubted any more: the deadlines of twelve dead
/// owners in a row pass in it.
const DOUBTED_FOR_MS: u64 = 3_600_000;

/// The role of the server.
#[derive(Clone, Debug, Default)]
pub struct Role {
    /// Whether the server is a replica since it was demoted, and writes nothing.
    is_replica: bool,
    /// Whether the server has its primary's data since the demotion: the fair lists belong to the primary.
    is_synchronised: bool,
    /// Counts the arrivals of data of which other servers know more.
    era: u64,
    /// Until when a fair list may have entries that this server cannot tell alive from dead.
    lists_doubted_until: Option<MonoMs>,
}

impl Role {
    pub(super) fn is_replica(&self) -> bool {
        self.is_replica
    }

    pub(super) fn is_synchronised(&self) -> bool {
        self.is_synchronised
    }

    pub(super) fn era(&self) -> u64 {
        self.era
    }

    /// The server is a replica.
    pub(super) fn demoted(&mut self) {
        self.is_synchronised &= self.is_replica;
        self.is_replica = true;
        self.lists_doubted_until = None;
    }

    /// The server is the primary again.
    pub(super) fn promoted(&mut self) {
        (self.is_replica, self.is_synchronised) = (false, false);
    }

    /// The server has the data of another primary.
    pub(super) fn synchronised(&mut self) {
        self.is_synchronised = true;
    }

    /// The server has data whose owners other servers know.
    pub fn data_arrived(&mut self, clock: MonoMs) {
        self.begin_era();
        self.lists_doubted_until = Some(MonoMs(clock.0.saturating_add(DOUBTED_FOR_MS)));
    }

    /// Keys arrived that other servers know of, without an event for each. Of read leases, only those that are granted
    /// from now on are known.
    pub(super) fn begin_era(&mut self) {
        self.era = self.era.wrapping_add(1);
    }

    /// Ends the doubt in fair lists after its time; whether there is any.
    pub(super) fn forget_list_doubts(&mut self, clock: MonoMs) -> bool {
        self.lists_doubted_until = self.lists_doubted_until.filter(|until| *until > clock);
        self.lists_doubted_until.is_some()
    }

    /// Whether any fair list is doubted: it may have entries of owners that waited at another server, or before the start of
    /// this one.
    pub fn doubts_fair_lists(&self) -> bool {
        self.lists_doubted_until.is_some()
    }

    /// Whether fair lists are doubted at this time.
    pub(super) fn doubts_fair_lists_at(&self, clock: MonoMs) -> bool {
        self.lists_doubted_until.is_some_and(|until| until > clock)
    }
}
