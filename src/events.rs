//! What happens outside our commands. Nothing is written here: a lock that may have become free is only
//! marked, and looked at by the timer.

use std::cell::Cell;

use rlock_core::MonoMs;
use rlock_core::message::DropReason;

use crate::ffi::{Ctx, ServerEvent, StringRef};
use crate::{serve, timer, waiters};

thread_local! {
    /// Wall clock minus the clock that never steps, in ms, as of the last beat.
    static CLOCK_OFFSET: Cell<Option<i64>> = const { Cell::new(None) };
}

thread_local! {
    /// Beats while somebody waited.
    static BEATS: Cell<u32> = const { Cell::new(0) };
    /// Whether the changes now are our own, after which the lock is looked at anyway.
    static OUR_OWN: Cell<bool> = const { Cell::new(false) };
}

/// Raises events that need not tell ourselves.
pub(crate) fn quietly(raise: impl FnOnce()) {
    OUR_OWN.set(true);
    raise();
    OUR_OWN.set(false);
}

/// About a second.
const BEATS_BETWEEN_SLOT_CHECKS: u32 = 10;

/// A step of the wall clock that is worth looking at every lock, in ms: more than it drifts between beats.
const CLOCK_STEP_MS: i64 = 50;

/// A key was changed, deleted, renamed, or has expired.
pub(crate) fn key_changed(ctx: Ctx<'_>, key: StringRef<'_>) {
    if OUR_OWN.get() || waiters::queues(|queues| queues.is_empty()) {
        return;
    }
    let lock = serve::lock_id(ctx, key);
    if waiters::queues(|queues| queues.head(&lock).is_some()) {
        timer::look_soon(ctx, &lock);
    }
}

/// Something happened to the server.
pub(crate) fn server_event(ctx: Ctx<'_>, event: ServerEvent) {
    match event {
        ServerEvent::KeysMoved => timer::look_at_all(ctx),
        ServerEvent::Demoted => {
            waiters::send_all_away(ctx, DropReason::Demoted);
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
    if waiters::blank() {
        return;
    }
    waiters::queues(|queues| queues.forget_old_streaks(MonoMs(clock)));
    if stepped {
        timer::look_at_all(ctx);
        waiters::restart_timer(ctx);
    }
    // A slot that leaves this server takes its keys along without an event on some versions.
    let beats = BEATS.get().wrapping_add(1);
    BEATS.set(beats);
    if ctx.in_cluster() && beats.is_multiple_of(BEATS_BETWEEN_SLOT_CHECKS) {
        timer::look_at_all(ctx);
    }
}
