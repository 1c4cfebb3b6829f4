//! The warning that the server may evict locks: an evicted lock has two holders soon after.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::ffi::{Ctx, warn};

/// What the log and INFO say.
pub(crate) const WARNING: &CStr =
    c"maxmemory-policy may evict locks, and then two owners hold one: set maxmemory-policy noeviction";

static MAY_BE_EVICTED: AtomicBool = AtomicBool::new(false);

/// Whether maxmemory is set with a policy other than noeviction, as of the last time either changed.
pub(crate) fn locks_may_be_evicted() -> bool {
    MAY_BE_EVICTED.load(Ordering::Relaxed)
}

/// Checks the server's settings, and warns if they are dangerous.
pub(crate) fn check(ctx: Ctx<'_>) {
    let limited = ctx.server_info_number(c"memory", c"maxmemory") > 0;
    let policy = ctx.server_info_text(c"memory", c"maxmemory_policy");
    let dangerous = limited && policy.as_deref() != Some(c"noeviction");
    MAY_BE_EVICTED.store(dangerous, Ordering::Relaxed);
    if dangerous {
        warn(WARNING);
    }
}
