//! Bugs that are planted on purpose, one at a time, to show that the model, the fuzzer's oracle and the
//! tests find them. Only builds with the feature `planted-bugs` have them, and no release has that feature;
//! without it [`planted`] is always false and costs nothing. Bugs named `edge-…` are in the module, at its
//! border to the server; docs/PROOF.md shows which check finds each.

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// The count of hand-offs in a row survives the end of a lock that has no waiters.
    KeepStreak,
    /// Redisson's renewal of a shorter lease ends a longer native read lease.
    ReadEndedEarly,
    /// After a fail-over, dead waiters in a fair list keep their full time.
    FairUncapped,
    /// Native readers starve a waiting Redisson writer.
    ForeignWriterStarves,
    /// New readers are held back for a Redisson writer that has stopped waiting.
    ForeignWriterForEver,
    /// After its last reader, a lock is not left free for a waiting Redisson writer.
    ForeignWriterNoMoment,
    /// Readers are held back too early: their count survives a time when the lock was free.
    ForeignWriterTooEarly,
    /// The module counts leases from the start of the server's event-loop cycle.
    EdgeCachedClock,
    /// The module ignores DEL events.
    EdgeDeafToDelete,
    /// The module ignores read leases that another server granted, or this one before a restart.
    EdgeReadLeaseUnknown,
}

impl Bug {
    /// Every bug with the name by which it is planted.
    pub const ALL: [(Self, &'static str); 10] = [
        (Self::KeepStreak, "keep-streak"),
        (Self::ReadEndedEarly, "read-ended-early"),
        (Self::FairUncapped, "fair-uncapped"),
        (Self::ForeignWriterStarves, "foreign-writer-starves"),
        (Self::ForeignWriterForEver, "foreign-writer-for-ever"),
        (Self::ForeignWriterNoMoment, "foreign-writer-no-moment"),
        (Self::ForeignWriterTooEarly, "foreign-writer-too-early"),
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
