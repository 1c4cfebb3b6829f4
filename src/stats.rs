//! The counters since the module was loaded, and our section in INFO.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

use rlock_core::{Change, LockEvent, Reply};

use crate::ffi::InfoPage;
use crate::{eviction, options};

/// A number that only grows. The server runs callbacks one at a time, so adding needs no atomic
/// read-modify-write; the atomic is for the compiler.
pub(crate) struct Counter(AtomicU64);

impl Counter {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds to it.
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.get().wrapping_add(more), Ordering::Relaxed);
    }

    fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

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
        Reply::NothingToForce => return,
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
    for (name, counter) in counters() {
        page.number(name, counter.get());
    }
}

/// Every counter with the name of its field.
fn counters() -> [(&'static CStr, &'static Counter); 12] {
    [
        (c"acquired", &STATS.acquired),
        (c"reentered", &STATS.reentered),
        (c"denied", &STATS.denied),
        (c"released", &STATS.released),
        (c"partly_released", &STATS.partly_released),
        (c"renewed", &STATS.renewed),
        (c"not_held", &STATS.not_held),
        (c"force_released", &STATS.force_released),
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
}
