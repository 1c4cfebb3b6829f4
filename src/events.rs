//! What happens outside our commands. Nothing is written here: a lock that may have become free is only
//! marked, and looked at by the timer.

use std::cell::Cell;

use rlock_core::MonoMs;

use crate::ffi::{Ctx, ServerEvent, StringRef};
use crate::{serve, waiters};

thread_local! {
    /// Wall clock minus the clock that never steps, in ms, as of the last beat.
    static CLOCK_OFFSET: Cell<Option<i64>> = const { Cell::new(None) };
}

thread_local! {
    /// Whether the changes now are our own, after which the lock is looked at anyway.
    static OUR_OWN: Cell<bool> = const { Cell::new(false) };
}

/// Raises events that need not tell ourselves.
pub(crate) fn quietly(raise: impl FnOnce()) {
    OUR_OWN.set(true);
    raise();
    OUR_OWN.set(false);
}

/// A step of the wall clock that is worth looking at every lock, in ms: more than it drifts between beats.
const CLOCK_STEP_MS: i64 = 50;

/// A key was changed, deleted, renamed, or has expired.
pub(crate) fn key_changed(ctx: Ctx<'_>, key: StringRef<'_>) {
    if OUR_OWN.get() || waiters::queues(|queues| queues.is_empty()) {
        return;
    }
    let lock = serve::lock_id(ctx, key);
    if waiters::queues(|queues| queues.head(&lock).is_some()) {
        serve::look_soon(ctx, &lock, ctx.real_time());
    }
}

/// Something happened to the server.
pub(crate) fn server_event(ctx: Ctx<'_>, event: ServerEvent) {
    match event {
        ServerEvent::KeysMoved => serve::look_at_all(ctx),
        ServerEvent::Demoted => {
            waiters::send_all_away(
                ctx,
                "this server is no longer the primary; find the new one and try again",
            );
        }
        ServerEvent::Beat => beat(ctx),
    }
}

fn beat(ctx: Ctx<'_>) {
    // A panic while events were raised may have left it set.
    OUR_OWN.set(false);
    waiters::clear_doubt(ctx);
    let MonoMs(clock) = ctx.clock();
    let offset = ctx.real_time().0.saturating_sub_unsigned(clock);
    let before = CLOCK_OFFSET.replace(Some(offset));
    let stepped = before.is_some_and(|before| before.abs_diff(offset) > CLOCK_STEP_MS.unsigned_abs());
    if stepped && !waiters::idle() {
        serve::look_at_all(ctx);
        waiters::restart_timer(ctx);
    }
}
