//! The counters since the module was loaded, and our section in INFO.

mod counter;

use std::ffi::CStr;

use counter::{Counter, Histogram};
use rlock_core::{Change, LockEvent, Reply};

use crate::ffi::InfoPage;
use crate::{eviction, options, waiters};

/// What happened since the module was loaded.
pub(crate) struct Stats {
    /// Locks taken that were free.
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
    /// RELEASE and RENEW of somebody who held nothing: lost leases, mostly.
    not_held: Counter,
    /// FORCERELEASE answered with 1.
    force_released: Counter,
    /// CANCEL answered with 1.
    pub(crate) cancelled: Counter,
    /// Locks given to the one who waited first.
    pub(crate) hand_offs: Counter,
    /// Locks with waiters that were found free since their lease had ended.
    pub(crate) found_expired: Counter,
    /// Locks with waiters that were found free for another reason: deleted, overwritten, flushed.
    pub(crate) found_deleted: Counter,
    /// Grants by message that nobody confirmed before they ended, while others waited.
    pub(crate) unconfirmed: Counter,
    /// Times that a lock was left to those who wait by Redisson's protocol.
    pub(crate) foreign_turns: Counter,
    /// Waits that ended without a grant.
    pub(crate) timeouts: Counter,
    /// Grants taken back, since their clients went before the answer.
    pub(crate) take_backs: Counter,
    /// Waiters whose clients went.
    pub(crate) waiters_gone: Counter,
    /// Waiters answered with UNBLOCKED.
    pub(crate) waiters_sent_away: Counter,
    /// The most that ever waited at once.
    pub(crate) waiters_peak: Counter,
    /// How long waits for a grant were.
    pub(crate) waited: Histogram,
    /// Unlock messages published.
    pub(crate) unlock_messages: Counter,
    /// Commands answered with an error.
    pub(crate) errors: Counter,
    /// Effects that the server did not take for replicas and AOF.
    pub(crate) replication_failures: Counter,
    /// Panics caught.
    pub(crate) panics: Counter,
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
    unconfirmed: Counter::new(),
    foreign_turns: Counter::new(),
    timeouts: Counter::new(),
    take_backs: Counter::new(),
    waiters_gone: Counter::new(),
    waiters_sent_away: Counter::new(),
    waiters_peak: Counter::new(),
    waited: Histogram::new(),
    unlock_messages: Counter::new(),
    errors: Counter::new(),
    replication_failures: Counter::new(),
    panics: Counter::new(),
};

/// Counts what a command did.
pub(crate) fn count(reply: &Reply, change: &Change) {
    let counter = match reply {
        Reply::Acquired { holds, .. } if holds.get() == 1 && change.event == Some(LockEvent::Acquire) => {
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

/// Writes our section in INFO.
pub(crate) fn show(page: &InfoPage) {
    page.text(c"version", c"0.1.0");
    page.number(c"accept", options::ACCEPT.get().into());
    page.number(c"locks_may_be_evicted", eviction::locks_may_be_evicted().into());
    if eviction::locks_may_be_evicted() {
        page.text(c"warning", eviction::WARNING);
    }
    page.number(c"waiters", waiters::queues(|queues| queues.len()) as u64);
    for (name, counter) in counters() {
        page.number(name, counter.get());
    }
    STATS.waited.show(page);
}

/// Every counter with the name of its field.
fn counters() -> [(&'static CStr, &'static Counter); 23] {
    [
        (c"acquired", &STATS.acquired),
        (c"reentered", &STATS.reentered),
        (c"denied", &STATS.denied),
        (c"released", &STATS.released),
        (c"partly_released", &STATS.partly_released),
        (c"renewed", &STATS.renewed),
        (c"not_held", &STATS.not_held),
        (c"force_released", &STATS.force_released),
        (c"waiters_peak", &STATS.waiters_peak),
        (c"hand_offs", &STATS.hand_offs),
        (c"found_expired", &STATS.found_expired),
        (c"found_deleted", &STATS.found_deleted),
        (c"unconfirmed_grants", &STATS.unconfirmed),
        (c"foreign_turns", &STATS.foreign_turns),
        (c"timeouts", &STATS.timeouts),
        (c"cancelled", &STATS.cancelled),
        (c"take_backs", &STATS.take_backs),
        (c"waiters_gone", &STATS.waiters_gone),
        (c"waiters_sent_away", &STATS.waiters_sent_away),
        (c"unlock_messages", &STATS.unlock_messages),
        (c"errors", &STATS.errors),
        (c"replication_failures", &STATS.replication_failures),
        (c"panics", &STATS.panics),
    ]
}

/// Starts counting anew: the counters can outlive an unloading of the module.
pub(crate) fn reset() {
    for (_, counter) in counters() {
        counter.reset();
    }
    STATS.waited.reset();
}
