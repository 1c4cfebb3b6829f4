//! The counters since the module was loaded, and the section of rlock in INFO.

mod counter;

use std::ffi::CStr;

use counter::{Counter, Histogram};
use rlock_core::locks::Cause;
use rlock_core::note::Note;
use rlock_core::{Decision, LockEvent, Reply};

use crate::ffi::{self, InfoPage};
use crate::{eviction, options, server_fault, waiters};

/// What happened since the module was loaded.
pub(crate) struct Stats {
    /// First holds of an owner in a mode, hand-offs left out.
    acquired: Counter,
    /// ACQUIRE by a holder.
    reentered: Counter,
    /// ACQUIRE answered with null.
    denied: Counter,
    /// RELEASE that freed the lock.
    released: Counter,
    /// RELEASE after which holds remained.
    partly_released: Counter,
    /// RENEW answered with 1.
    renewed: Counter,
    /// RELEASE and RENEW of owners without a hold: lost leases, mostly.
    not_held: Counter,
    /// FORCERELEASE answered with 1.
    force_released: Counter,
    /// CANCEL answered with 1.
    cancelled: Counter,
    /// Locks granted to the first waiter.
    hand_offs: Counter,
    /// Locks with waiters that were found free since their lease had ended.
    found_expired: Counter,
    /// Locks with waiters that were found free after a DEL, an UNLINK or a script's unlock.
    found_deleted: Counter,
    /// Locks with waiters that were found free after RENAME or MOVE.
    found_renamed: Counter,
    /// Locks with waiters that were found free after FLUSHALL or FLUSHDB.
    found_flushed: Counter,
    /// Locks with waiters that were found free after SWAPDB.
    found_swapped: Counter,
    /// Locks with waiters that were found free after the server had evicted them.
    found_evicted: Counter,
    /// Locks with waiters that were found free after anything else.
    found_otherwise: Counter,
    /// Grants by message that ended unconfirmed, while others waited.
    unconfirmed: Counter,
    /// Times that a lock was left to waiting Redisson clients.
    yields: Counter,
    /// Waits that ended without a grant.
    timeouts: Counter,
    /// Grants revoked, since their clients disconnected before the answer.
    revokes: Counter,
    /// Waiters whose clients are gone.
    waiters_gone: Counter,
    /// Waiters answered with UNBLOCKED.
    waiters_sent_away: Counter,
    /// Calls that were refused, since their user had its share of the waiters or of the ties.
    refused_by_share: Counter,
    /// The most that ever waited at once.
    waiters_peak: Counter,
    /// How long waits for a grant were.
    waited: Histogram,
    /// Unlock messages published.
    pub(crate) unlock_messages: Counter,
    /// Changes whose effects were not built, since they had no reader.
    pub(crate) unread_changes: Counter,
    /// Effects that the server did not take for replicas and AOF.
    pub(crate) replication_failures: Counter,
}

/// The counters.
pub(crate) static STATS: Stats = Stats {
    acquired: Counter::new(),
    reentered: Counter::new(),
    denied: Counter::new(),
    released: Counter::new(),
    partly_released: Counter::new(),
    renewed: Counter::new(),
    not_held: Counter::new(),
    force_released: Counter::new(),
    cancelled: Counter::new(),
    hand_offs: Counter::new(),
    found_expired: Counter::new(),
    found_deleted: Counter::new(),
    found_renamed: Counter::new(),
    found_flushed: Counter::new(),
    found_swapped: Counter::new(),
    found_evicted: Counter::new(),
    found_otherwise: Counter::new(),
    unconfirmed: Counter::new(),
    yields: Counter::new(),
    timeouts: Counter::new(),
    revokes: Counter::new(),
    waiters_gone: Counter::new(),
    waiters_sent_away: Counter::new(),
    refused_by_share: Counter::new(),
    waiters_peak: Counter::new(),
    waited: Histogram::new(),
    unlock_messages: Counter::new(),
    unread_changes: Counter::new(),
    replication_failures: Counter::new(),
};

/// Counts what happened.
pub(crate) fn count(note: &Note<'_>) {
    let more = |many: usize| u64::try_from(many).unwrap_or(u64::MAX);
    match *note {
        Note::Decided(decision) => count_decision(decision),
        Note::Waiting(now) => STATS.waiters_peak.raise_to(more(now)),
        Note::HandedOff(waited_ms) => {
            STATS.hand_offs.add(1);
            STATS.waited.record(waited_ms);
        }
        Note::Found(cause) => found(cause).add(1),
        Note::Unconfirmed => STATS.unconfirmed.add(1),
        Note::Yielded => STATS.yields.add(1),
        Note::TimedOut => STATS.timeouts.add(1),
        Note::Cancelled => STATS.cancelled.add(1),
        Note::Revoked => STATS.revokes.add(1),
        Note::Gone(many) => STATS.waiters_gone.add(more(many)),
        Note::SentAway => STATS.waiters_sent_away.add(1),
        Note::RefusedByShare => STATS.refused_by_share.add(1),
    }
}

fn found(cause: Cause) -> &'static Counter {
    match cause {
        Cause::Expired => &STATS.found_expired,
        Cause::Deleted => &STATS.found_deleted,
        Cause::Renamed => &STATS.found_renamed,
        Cause::Flushed => &STATS.found_flushed,
        Cause::Swapped => &STATS.found_swapped,
        Cause::Evicted => &STATS.found_evicted,
        Cause::Other => &STATS.found_otherwise,
    }
}

fn count_decision(decision: &Decision) {
    let counter = match decision.reply {
        Reply::Acquired { holds, .. }
            if holds.get() == 1 && decision.change.event == Some(LockEvent::Acquire) =>
        {
            &STATS.acquired
        }
        Reply::Acquired { .. } => &STATS.reentered,
        Reply::Denied => &STATS.denied,
        Reply::Released => &STATS.released,
        Reply::StillHeld => &STATS.partly_released,
        Reply::Renewed => &STATS.renewed,
        Reply::NotHeld | Reply::NotRenewed => &STATS.not_held,
        Reply::Forced => &STATS.force_released,
        // Counted where they happen.
        Reply::NothingToForce | Reply::Cancelled | Reply::NotQueued | Reply::Enqueued => return,
    };
    counter.add(1);
}

/// The module's version.
const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => c"unknown",
};

/// Writes the section of rlock in INFO.
pub(crate) fn show(page: &InfoPage) {
    page.text(c"version", VERSION);
    page.number(c"accept", options::ACCEPT.get().into());
    page.number(c"locks_may_be_evicted", eviction::locks_may_be_evicted().into());
    if eviction::locks_may_be_evicted() {
        page.text(c"warning", eviction::WARNING);
    }
    if ffi::loses_moves() {
        page.text(c"server_warning", server_fault::WARNING);
    }
    // Beside their bounds: a reader that may not read the configuration can compare them.
    let settings = options::settings();
    page.number(c"waiters", waiters::locks(|locks| locks.calls.waiting()) as u64);
    page.number(c"max_waiters", settings.limits.server as u64);
    page.number(c"ties", waiters::locks(|locks| locks.sessions.tie_count()) as u64);
    page.number(c"max_ties", settings.max_ties.server as u64);
    page.number(c"max_share_per_user", options::max_share_per_user());
    let (user_waiters, user_ties) = waiters::locks(|locks| locks.users.largest_usage());
    page.number(c"user_waiters", user_waiters as u64);
    page.number(c"user_ties", user_ties as u64);
    for (name, counter) in counters() {
        page.number(name, counter.get());
    }
    page.number(c"errors", ffi::errors());
    page.number(c"panics", ffi::panics());
    STATS.waited.show(page);
}

/// Every counter with the name of its field.
fn counters() -> [(&'static CStr, &'static Counter); 28] {
    [
        (c"acquired", &STATS.acquired),
        (c"reentered", &STATS.reentered),
        (c"denied", &STATS.denied),
        (c"released", &STATS.released),
        (c"partly_released", &STATS.partly_released),
        (c"renewed", &STATS.renewed),
        (c"not_held", &STATS.not_held),
        (c"force_released", &STATS.force_released),
        (c"refused_by_share", &STATS.refused_by_share),
        (c"waiters_peak", &STATS.waiters_peak),
        (c"hand_offs", &STATS.hand_offs),
        (c"found_expired", &STATS.found_expired),
        (c"found_deleted", &STATS.found_deleted),
        (c"found_renamed", &STATS.found_renamed),
        (c"found_flushed", &STATS.found_flushed),
        (c"found_swapped", &STATS.found_swapped),
        (c"found_evicted", &STATS.found_evicted),
        (c"found_otherwise", &STATS.found_otherwise),
        (c"unconfirmed_grants", &STATS.unconfirmed),
        (c"foreign_turns", &STATS.yields),
        (c"timeouts", &STATS.timeouts),
        (c"cancelled", &STATS.cancelled),
        (c"revokes", &STATS.revokes),
        (c"waiters_gone", &STATS.waiters_gone),
        (c"waiters_sent_away", &STATS.waiters_sent_away),
        (c"unlock_messages", &STATS.unlock_messages),
        (c"unread_changes", &STATS.unread_changes),
        (c"replication_failures", &STATS.replication_failures),
    ]
}
