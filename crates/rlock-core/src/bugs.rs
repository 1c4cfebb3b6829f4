//! Bugs that are planted on purpose, one at a time, to show that the model, the fuzzer's oracle and the
//! tests find them. Only builds with the feature `planted-bugs` have them, and no release has that feature;
//! without it [`planted`] is always false and costs nothing. Bugs named `edge-…` are in the module, at its
//! border to the server; docs/PROOF.md shows which check finds each.

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Redisson's renewal of a shorter lease ends a longer native read lease.
    ReadEndedEarly,
    /// After a fail-over, dead waiters in a fair list keep their full time.
    FairUncapped,
    /// The module counts leases from the start of the server's event-loop cycle.
    EdgeCachedClock,
    /// The module ignores DEL events.
    EdgeDeafToDelete,
    /// The module ignores read leases that another server granted, or this one before a restart.
    EdgeReadLeaseUnknown,
}

impl Bug {
    /// Every bug with the name by which it is planted.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::ReadEndedEarly, "read-ended-early"),
        (Self::FairUncapped, "fair-uncapped"),
        (Self::EdgeCachedClock, "edge-cached-clock"),
        (Self::EdgeDeafToDelete, "edge-deaf-to-delete"),
        (Self::EdgeReadLeaseUnknown, "edge-read-lease-unknown"),
    ];
}

/// Whether this bug is planted.
#[cfg(not(feature = "planted-bugs"))]
#[must_use]
pub const fn planted(_: Bug) -> bool {
    false
}

/// Whether this bug is planted: the one that the environment's `RLOCK_PLANTED_BUG` names.
#[cfg(feature = "planted-bugs")]
#[must_use]
pub fn planted(bug: Bug) -> bool {
    use std::sync::OnceLock;
    static PLANTED: OnceLock<Option<Bug>> = OnceLock::new();
    let named = || {
        let name = std::env::var("RLOCK_PLANTED_BUG").ok()?;
        Bug::ALL.iter().find(|(_, known)| *known == name).map(|(bug, _)| *bug)
    };
    *PLANTED.get_or_init(named) == Some(bug)
}
