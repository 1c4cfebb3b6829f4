//! The warning about a fault of the server that loses data of any key, as soon as a module listens to key events.

use std::ffi::CStr;

use crate::ffi::{Ctx, learn_moves, warn};

/// What the log and INFO say.
pub(crate) const WARNING: &CStr = c"this Valkey version writes COPY with DB to replicas and the AOF for the wrong database \
    once a module listens to key events, and data is lost: upgrade to Valkey 8.1.9, 9.0.5 or 9.1.1, and use no COPY with DB before";

/// Checks the server's version, and warns if it has the fault.
pub(crate) fn check(ctx: Ctx<'_>) {
    if learn_moves(ctx) {
        warn(WARNING);
    }
}
