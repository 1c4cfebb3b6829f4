//! Bugs that are planted on purpose, one at a time, to show that the model, the fuzzer's oracle and the
//! tests find them. Only in builds with the feature `planted-bugs`, which no release has; without it every
//! question here is answered with no, and costs nothing. Those whose names begin with `edge-` are in the
//! module, where it meets the server; docs/PROOF.md tells what finds each.

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Who asks for a free lock gets it, whoever waits for it.
    SkipQueue,
    /// Nothing is done about the timer when a lock is looked at.
    ForgetTimer,
    /// The end of a lease is looked for a second too late.
    WakeLate,
    /// A grant is taken back from its owner whatever happened since.
    TakeBackWithoutId,
    /// A grant whose client went is not taken back.
    ForgetTakeBack,
    /// An owner that was heard of by another call may still have its grant taken back.
    ForgetSettle,
    /// Those who wait by Redisson's protocol are called before the lock is free.
    PublishBeforeWrite,
    /// A re-entry sets the lease that it asks for, also a shorter one.
    ShortenOnReEntry,
    /// HOLDS n adds a hold each time.
    HoldsAdds,
    /// A repeat goes to the end of the queue.
    RepeatLosesPlace,
    /// Who came last is served first.
    LastComeFirstServed,
    /// A grant by message that nobody heard counts.
    GrantUnheard,
    /// A grant by message gets its full lease at once.
    NoConfirmation,
    /// A cancelled client stays blocked.
    CancelInSilence,
    /// A wait has no end.
    EndlessWait,
    /// A demoted server keeps its queue.
    KeepWhenDemoted,
    /// A re-entry is given the last token again.
    TokenStaysOnReEntry,
    /// A token is told, and neither stored nor replicated.
    TokenNotStored,
    /// A hand-off gives no token to who asked for one.
    HandOffWithoutToken,
    /// A token is one more than the last, whatever the clock says.
    TokenByCounterOnly,
    /// A token is what the clock says, whatever the last one was.
    TokenByClockOnly,
    /// A waiter that can have no token stays in the queue.
    WaitWithoutToken,
    /// Hand-offs in a row are counted on after a lock has ended with nobody waiting.
    KeepStreak,
    /// A new reader joins those who read, ahead of a writer that waits.
    ReaderOvertakes,
    /// A writer takes readers for dead that live.
    WriterBesideReaders,
    /// A writer that waits is woken when the lock's key ends, not when the last reader has died.
    DeadReaderBlocks,
    /// A reader whose lease has ended counts as long as the lock's key is there.
    DeadReaderHolds,
    /// Nobody looks at the readers behind a writer that waits no more.
    GoneWriterKeepsReadersOut,
    /// Of the readers at the head only the first is served.
    OneReaderAtATime,
    /// A read hold gets no lease key.
    ReadLeaseNotWritten,
    /// The lease keys of read holds stay when these are released.
    ReadLeaseStays,
    /// A writer that reads on leaves the lock written.
    DowngradeKeepsMode,
    /// Those who wait by Redisson's protocol are not told of a downgrade.
    DowngradeInSilence,
    /// A reader that releases frees the lock, whoever else reads.
    OneReaderFreesAll,
    /// A reader that renews sets the end of the lock's key, also to a sooner one.
    RenewReadLowersKey,
    /// A read grant that is taken back takes the other readers' holds with it.
    ReadTakeBackTakesAll,
    /// The lock's key keeps the end of a reader's lease that has gone.
    KeyOutlastsReaders,
    /// A release leaves the hand-off to the timer: they are not one transaction.
    HandOffApart,
    /// Redisson's renewal of a shorter lease ends a longer read lease of ours.
    ReadEndedEarly,
    /// FAIR is the order of those who wait here alone.
    FairAsPlain,
    /// Who asks for a free fair lock gets it, whoever of Redisson's stands before it.
    FairBarges,
    /// One of ours that a script has dropped from the list is not put back.
    FairDropped,
    /// One of Redisson's at the head of a free lock has for as long as it said, alive or not.
    FairTurnEndless,
    /// Who waits no more stays in the list.
    FairStays,
    /// One of Redisson's is not called when it has its turn.
    FairInSilence,
    /// One of ours that a script has dropped from the list is put back at its end.
    FairPutBackLast,
    /// The deadline of one of ours at the head of the list is left as it is.
    FairHeadDies,
    /// After a fail-over the dead in a fair list have all the time that they were to have.
    FairUncapped,
    /// Natives read on and on, whoever of Redisson's waits to write.
    ForeignWriterStarves,
    /// Those who come to read are kept waiting for one of Redisson's that waits to write no more.
    ForeignWriterForEver,
    /// A lock that nobody reads any more is not left free for one of Redisson's that waits to write.
    ForeignWriterNoMoment,
    /// Readers are counted on, and kept waiting too early, where nobody told that the lock was free.
    ForeignWriterTooEarly,
    /// A dead reader that comes back passes one of Redisson's that waits to write.
    ForeignWriterBehindDead,
    /// The module replicates a hand-off as nothing.
    EdgeHandOffNotReplicated,
    /// The module replicates no expiry.
    EdgeExpiryNotReplicated,
    /// The module publishes the release before it writes it.
    EdgePublishBeforeWrite,
    /// The module publishes no release.
    EdgeUnlockMessageLost,
    /// The module counts leases from the time at which the server's loop last turned.
    EdgeCachedClock,
    /// The module tells the server of no change, so that WATCH does not break.
    EdgeChangeNotSignalled,
    /// The module does not hear of DEL.
    EdgeDeafToDelete,
    /// The module does not hear of clients that go.
    EdgeDepartureUnseen,
    /// The module takes an answer for delivered whose client the server is going to close.
    EdgeClosingClientServed,
    /// The module counts pattern subscribers among those who hear a grant.
    EdgePatternHears,
    /// The module writes during CLIENT PAUSE.
    EdgeWriteInPause,
    /// The module builds effects only a while after somebody has begun to read them.
    EdgeEffectsBeginLate,
    /// The module replicates no fencing token.
    EdgeTokenNotReplicated,
    /// The module replicates no lease key of a reader.
    EdgeReadLeaseNotReplicated,
    /// The module knows nothing of read leases that another server gave, or this one before a restart.
    EdgeReadLeaseUnknown,
}

impl Bug {
    /// Every bug with the name by which it is planted.
    pub const ALL: [(Self, &'static str); 68] = [
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
