//! Whether the effects of changes have readers: replicas or an AOF.
//!
//! To build effects is a third of what an uncontended lock costs, and a server without AOF, replicas and backlog
//! discards them at once. Effects of changes in the snapshot that a reader starts from are not needed: a replica,
//! a stream to one and an AOF all begin with a snapshot. So effects are built from any snapshot on, forked or
//! not, and from a promotion on (a replica keeps its backlog when it becomes the primary), until a beat of the
//! server finds no reader. In a cluster they are always built, since slots are moved by a stream of them there.
//!
//! Between a replica's request and its snapshot the server has a backlog already, which the module learns at the next
//! beat. No replica reads what stands in it from that time: it continues from where its snapshot was made.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::ffi::Ctx;

/// Whether there may be replicas or a backlog.
static MAY_BE_REPLICATED: AtomicBool = AtomicBool::new(true);

/// Whether there may be an AOF.
static MAY_BE_LOGGED: AtomicBool = AtomicBool::new(true);

/// Whether a change under way must be sent as its effects.
pub(crate) fn are_read() -> bool {
    MAY_BE_LOGGED.load(Ordering::Relaxed) || are_replicated()
}

/// Whether replicas read the effects: they publish messages to their own subscribers, and an AOF does not.
pub(crate) fn are_replicated() -> bool {
    MAY_BE_REPLICATED.load(Ordering::Relaxed)
}

/// Effects may have readers from now on.
pub(crate) fn begin() {
    MAY_BE_REPLICATED.store(true, Ordering::Relaxed);
    MAY_BE_LOGGED.store(true, Ordering::Relaxed);
}

/// Checks whether effects have readers.
pub(crate) fn look(ctx: Ctx<'_>) {
    MAY_BE_LOGGED.store(ctx.has_aof(), Ordering::Relaxed);
    MAY_BE_REPLICATED.store(ctx.in_cluster() || ctx.has_replicas_or_backlog(), Ordering::Relaxed);
}
