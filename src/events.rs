//! What happens outside our commands. Nothing is written here: a lock that may have become free is only
//! marked, and looked at by the timer.

use std::cell::Cell;

use rlock_core::MonoMs;
use rlock_core::message::DropReason;

use crate::ffi::{Ctx, ServerEvent, StringId, StringRef};
use crate::{serve, timer, waiters};

thread_local! {
    /// Wall clock minus the clock that never steps, in ms, as of the last beat.
    static CLOCK_OFFSET: Cell<Option<i64>> = const { Cell::new(None) };
}

thread_local! {
    /// Beats while somebody waited.
    static BEATS: Cell<u32> = const { Cell::new(0) };
    /// The key whose event we are raising, after which its lock is looked at anyway.
    static RAISING: Cell<Option<StringId>> = const { Cell::new(None) };
}

/// Raises an event of ours for a key, which need not tell ourselves. What other modules do when they hear
/// of it does.
pub(crate) fn quietly(key: StringRef<'_>, raise: impl FnOnce()) {
    let _restored = Restore(RAISING.replace(Some(key.id())));
    raise();
}

/// Restores the key of an outer event, also after a panic.
struct Restore(Option<StringId>);

impl Drop for Restore {
    fn drop(&mut self) {
        RAISING.set(self.0);
    }
}

/// About ten seconds.
const BEATS_BETWEEN_SWEEPS: u32 = 100;

/// A step of the wall clock that is worth looking at every lock, in ms: more than it drifts between beats.
const CLOCK_STEP_MS: i64 = 50;

/// A key was changed, deleted, renamed, or has expired.
pub(crate) fn key_changed(ctx: Ctx<'_>, key: StringRef<'_>) {
    if RAISING.get() == Some(key.id()) || waiters::queues(|queues| queues.is_empty()) {
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
    waiters::clear_doubt(ctx);
    let MonoMs(clock) = ctx.clock();
    let offset = ctx.real_time().0.saturating_sub_unsigned(clock);
    let before = CLOCK_OFFSET.replace(Some(offset));
    let stepped = before.is_some_and(|before| before.abs_diff(offset) > CLOCK_STEP_MS.unsigned_abs());
    if waiters::blank() {
        return;
    }
    if stepped {
        timer::look_at_all(ctx);
        waiters::restart_timer(ctx);
    }
    let beats = BEATS.get().wrapping_add(1);
    BEATS.set(beats);
    if beats.is_multiple_of(BEATS_BETWEEN_SWEEPS) {
        waiters::queues(|queues| queues.forget_old_streaks(MonoMs(clock)));
    }
    if ctx.in_cluster() {
        // A slot that leaves this server takes its keys along without an event on some versions.
        timer::look_at_some(ctx);
    }
}
