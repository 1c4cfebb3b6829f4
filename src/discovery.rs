//! When the module must listen to changes of keys before its first waiter or reader: the server may have read leases
//! that it did not grant. A Redisson client's renewal may end one of them, and only the renewal's event shows that.
//!
//! The module does not always listen: without waiters and readers, the events are processed in vain.

use std::sync::atomic::{AtomicBool, Ordering};

use rlock_core::names;

use crate::ffi::{Ctx, LoadedFrom, StringRef, is_primary, listen_to_keys, listen_to_loads};

/// Whether the file that was loaded last may have lease keys.
static LEASES_LOADED: AtomicBool = AtomicBool::new(false);

/// The module is loaded. In a cluster slots may arrive at any time. Otherwise a server that has keys by now was started
/// without the module.
pub(crate) fn at_load(ctx: Ctx<'_>) {
    if ctx.in_cluster() || ctx.has_keys() {
        listen(ctx);
    }
}

/// The server begins to load a file. The commands in an AOF raise no event of loading. The module does not listen
/// earlier: each event of any key costs a little more from that time on.
pub(crate) fn loads(ctx: Ctx<'_>, from: LoadedFrom) {
    LEASES_LOADED.store(from == LoadedFrom::Aof, Ordering::Relaxed);
    if from == LoadedFrom::Snapshot && is_primary(ctx) && !ctx.in_cluster() {
        listen_to_loads(ctx);
    }
}

/// A key was loaded.
pub(crate) fn key_loaded(key: StringRef<'_>) {
    if names::is_read_lease_key(key.bytes()) {
        LEASES_LOADED.store(true, Ordering::Relaxed);
    }
}

/// The server has loaded a file. A replica begins to listen when it is promoted.
pub(crate) fn loaded(ctx: Ctx<'_>) {
    if is_primary(ctx) && LEASES_LOADED.load(Ordering::Relaxed) && ctx.has_keys() {
        listen(ctx);
    }
}

/// The server is the primary now.
pub(crate) fn promoted(ctx: Ctx<'_>) {
    listen(ctx);
}

fn listen(ctx: Ctx<'_>) {
    // If the server refuses, the first command that needs the events says so.
    let _ = listen_to_keys(ctx);
}
