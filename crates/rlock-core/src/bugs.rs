//! Bugs that are planted on purpose, one at a time, to show that the model, the fuzzer's oracle and the
//! tests find them. Only builds with the feature `planted-bugs` have them, and no release has that feature;
//! without it [`planted`] is always false and costs nothing. Bugs named `edge-…` are in the module, at its
//! border to the server; docs/PROOF.md shows which check finds each.

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// ACQUIRE on a free lock ignores the queue.
    SkipQueue,
    /// A check of a lock leaves the timer as it is.
    ForgetTimer,
    /// The wake-up for a lease end is a second late.
    WakeLate,
    /// A grant is revoked even if a later call has replaced it.
    TakeBackWithoutId,
    /// A grant to a disconnected client is not revoked.
    ForgetTakeBack,
    /// A grant is revoked although a later call of its owner has confirmed it.
    ForgetSettle,
    /// The unlock message for Redisson waiters is sent before the lock is free.
    PublishBeforeWrite,
    /// A re-entry sets the lease that it asks for, even a shorter one.
    ShortenOnReEntry,
    /// HOLDS n adds a hold each time.
    HoldsAdds,
    /// A repeat goes to the end of the queue.
    RepeatLosesPlace,
    /// The last waiter is served first.
    LastComeFirstServed,
    /// A grant by message counts even if its channel has no subscriber.
    GrantUnheard,
    /// A grant by message gets its full lease at once.
    NoConfirmation,
    /// A cancelled client stays blocked.
    CancelInSilence,
    /// A wait has no end.
    EndlessWait,
    /// A demoted server keeps its queue.
    KeepWhenDemoted,
    /// A re-entry receives the last token again.
    TokenStaysOnReEntry,
    /// A token is sent, but neither stored nor replicated.
    TokenNotStored,
    /// A hand-off sends no token to a waiter that asked for one.
    HandOffWithoutToken,
    /// A token is the last one plus 1, whatever the clock says.
    TokenByCounterOnly,
    /// A token is the clock's time, whatever the last one was.
    TokenByClockOnly,
    /// A waiter that cannot get its token stays in the queue.
    WaitWithoutToken,
    /// The count of hand-offs in a row survives the end of a lock that has no waiters.
    KeepStreak,
    /// A new reader joins other readers ahead of a waiting writer.
    ReaderOvertakes,
    /// A writer treats live readers as dead.
    WriterBesideReaders,
    /// A waiting writer is woken at the end of the lock's key, not at the last reader's lease end.
    DeadReaderBlocks,
    /// A reader whose lease has ended counts until the lock's key ends.
    DeadReaderHolds,
    /// The readers behind a writer that stops waiting are not checked.
    GoneWriterKeepsReadersOut,
    /// Of the readers at the head, only the first is served.
    OneReaderAtATime,
    /// A read hold gets no lease key.
    ReadLeaseNotWritten,
    /// The lease keys of read holds stay after the release.
    ReadLeaseStays,
    /// A writer that downgrades leaves the lock in write mode.
    DowngradeKeepsMode,
    /// A downgrade sends no unlock message to Redisson waiters.
    DowngradeInSilence,
    /// A reader that releases frees the lock, despite other readers.
    OneReaderFreesAll,
    /// A reader's RENEW sets the end of the lock's key, even to an earlier time.
    RenewReadLowersKey,
    /// Revoking a read grant ends the holds of the other readers.
    ReadTakeBackTakesAll,
    /// The lock's key keeps the lease end of a reader that has released.
    KeyOutlastsReaders,
    /// A release leaves the hand-off to the timer: they are not one transaction.
    HandOffApart,
    /// Redisson's renewal of a shorter lease ends a longer native read lease.
    ReadEndedEarly,
    /// FAIR orders native waiters only.
    FairAsPlain,
    /// ACQUIRE on a free fair lock overtakes Redisson waiters.
    FairBarges,
    /// A native waiter that a script drops from the fair list is not put back.
    FairDropped,
    /// A Redisson waiter at the head of a free lock keeps its turn until its own deadline, alive or not.
    FairTurnEndless,
    /// A native that stops waiting stays in the fair list.
    FairStays,
    /// A Redisson waiter is not called at its turn.
    FairInSilence,
    /// A native waiter that a script drops from the fair list is put back at its end.
    FairPutBackLast,
    /// The deadline of a native at the head of the fair list is not extended.
    FairHeadDies,
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
    /// A dead reader that returns passes a waiting Redisson writer.
    ForeignWriterBehindDead,
    /// A call without SESSION keeps the tie of its owner.
    TieKept,
    /// A late command of an older connection takes the tie back.
    TieMovesBack,
    /// The end of a session sets the lease to the grace period, even if less is left.
    GraceLengthens,
    /// The end of a shortened lease is not told to waiting Redisson clients.
    SessionEndInSilence,
    /// A permit that has ended counts until it is removed.
    EndedPermitCounts,
    /// One owner more than the limit gets a permit.
    OnePermitMore,
    /// The module does not replicate a hand-off.
    EdgeHandOffNotReplicated,
    /// The module does not replicate lease ends.
    EdgeExpiryNotReplicated,
    /// The module publishes the release before it writes it.
    EdgePublishBeforeWrite,
    /// The module does not publish the release.
    EdgeUnlockMessageLost,
    /// The module counts leases from the start of the server's event-loop cycle.
    EdgeCachedClock,
    /// The module does not signal changes to the server: WATCH does not break.
    EdgeChangeNotSignalled,
    /// The module ignores DEL events.
    EdgeDeafToDelete,
    /// The module ignores client disconnects.
    EdgeDepartureUnseen,
    /// The module counts a grant as delivered although the server is closing its client.
    EdgeClosingClientServed,
    /// The module counts pattern subscribers as receivers of a grant.
    EdgePatternHears,
    /// The module writes during CLIENT PAUSE.
    EdgeWriteInPause,
    /// The module starts to build effects some time after the first reader of effects appears.
    EdgeEffectsBeginLate,
    /// The module does not replicate fencing tokens.
    EdgeTokenNotReplicated,
    /// The module does not replicate a lease that changes without an event, as at the end of a session.
    EdgeSessionEndNotReplicated,
    /// The module does not replicate the lease keys of readers.
    EdgeReadLeaseNotReplicated,
    /// The module ignores read leases that another server granted, or this one before a restart.
    EdgeReadLeaseUnknown,
}

impl Bug {
    /// Every bug with the name by which it is planted.
    pub const ALL: [(Self, &'static str); 75] = [
        (Self::SkipQueue, "skip-queue"),
        (Self::ForgetTimer, "forget-timer"),
        (Self::WakeLate, "wake-late"),
        (Self::TakeBackWithoutId, "take-back-without-id"),
        (Self::ForgetTakeBack, "forget-take-back"),
        (Self::ForgetSettle, "forget-settle"),
        (Self::PublishBeforeWrite, "publish-before-write"),
        (Self::ShortenOnReEntry, "shorten-on-re-entry"),
        (Self::HoldsAdds, "holds-adds"),
        (Self::RepeatLosesPlace, "repeat-loses-place"),
        (Self::LastComeFirstServed, "last-come-first-served"),
        (Self::GrantUnheard, "grant-unheard"),
        (Self::NoConfirmation, "no-confirmation"),
        (Self::CancelInSilence, "cancel-in-silence"),
        (Self::EndlessWait, "endless-wait"),
        (Self::KeepWhenDemoted, "keep-when-demoted"),
        (Self::TokenStaysOnReEntry, "token-stays-on-re-entry"),
        (Self::TokenNotStored, "token-not-stored"),
        (Self::HandOffWithoutToken, "hand-off-without-token"),
        (Self::TokenByCounterOnly, "token-by-counter-only"),
        (Self::TokenByClockOnly, "token-by-clock-only"),
        (Self::WaitWithoutToken, "wait-without-token"),
        (Self::KeepStreak, "keep-streak"),
        (Self::ReaderOvertakes, "reader-overtakes"),
        (Self::WriterBesideReaders, "writer-beside-readers"),
        (Self::DeadReaderBlocks, "dead-reader-blocks"),
        (Self::DeadReaderHolds, "dead-reader-holds"),
        (Self::GoneWriterKeepsReadersOut, "gone-writer-keeps-readers-out"),
        (Self::OneReaderAtATime, "one-reader-at-a-time"),
        (Self::ReadLeaseNotWritten, "read-lease-not-written"),
        (Self::ReadLeaseStays, "read-lease-stays"),
        (Self::DowngradeKeepsMode, "downgrade-keeps-mode"),
        (Self::DowngradeInSilence, "downgrade-in-silence"),
        (Self::OneReaderFreesAll, "one-reader-frees-all"),
        (Self::RenewReadLowersKey, "renew-read-lowers-key"),
        (Self::ReadTakeBackTakesAll, "read-take-back-takes-all"),
        (Self::KeyOutlastsReaders, "key-outlasts-readers"),
        (Self::HandOffApart, "hand-off-apart"),
        (Self::ReadEndedEarly, "read-ended-early"),
        (Self::FairAsPlain, "fair-as-plain"),
        (Self::FairBarges, "fair-barges"),
        (Self::FairDropped, "fair-dropped"),
        (Self::FairTurnEndless, "fair-turn-endless"),
        (Self::FairStays, "fair-stays"),
        (Self::FairInSilence, "fair-in-silence"),
        (Self::FairPutBackLast, "fair-put-back-last"),
        (Self::FairHeadDies, "fair-head-dies"),
        (Self::FairUncapped, "fair-uncapped"),
        (Self::ForeignWriterStarves, "foreign-writer-starves"),
        (Self::ForeignWriterForEver, "foreign-writer-for-ever"),
        (Self::ForeignWriterNoMoment, "foreign-writer-no-moment"),
        (Self::ForeignWriterTooEarly, "foreign-writer-too-early"),
        (Self::ForeignWriterBehindDead, "foreign-writer-behind-dead"),
        (Self::TieKept, "tie-kept"),
        (Self::TieMovesBack, "tie-moves-back"),
        (Self::GraceLengthens, "grace-lengthens"),
        (Self::SessionEndInSilence, "session-end-in-silence"),
        (Self::EndedPermitCounts, "ended-permit-counts"),
        (Self::OnePermitMore, "one-permit-more"),
        (Self::EdgeHandOffNotReplicated, "edge-hand-off-not-replicated"),
        (Self::EdgeExpiryNotReplicated, "edge-expiry-not-replicated"),
        (Self::EdgePublishBeforeWrite, "edge-publish-before-write"),
        (Self::EdgeUnlockMessageLost, "edge-unlock-message-lost"),
        (Self::EdgeCachedClock, "edge-cached-clock"),
        (Self::EdgeChangeNotSignalled, "edge-change-not-signalled"),
        (Self::EdgeDeafToDelete, "edge-deaf-to-delete"),
        (Self::EdgeDepartureUnseen, "edge-departure-unseen"),
        (Self::EdgeClosingClientServed, "edge-closing-client-served"),
        (Self::EdgePatternHears, "edge-pattern-hears"),
        (Self::EdgeWriteInPause, "edge-write-in-pause"),
        (Self::EdgeEffectsBeginLate, "edge-effects-begin-late"),
        (Self::EdgeTokenNotReplicated, "edge-token-not-replicated"),
        (Self::EdgeSessionEndNotReplicated, "edge-session-end-not-replicated"),
        (Self::EdgeReadLeaseNotReplicated, "edge-read-lease-not-replicated"),
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
