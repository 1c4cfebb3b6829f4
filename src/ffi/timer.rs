//! The server's timers. They fire up to 2 ms late, and follow a wall clock that may step.

use std::ffi::c_void;
use std::ptr;

use redis_module::raw;

use super::api::{api, optional_api};
use super::callbacks;
use super::contexts::{ScopedCtx, Task};
use super::ctx::Ctx;
use super::guard::{Callback, guarded};

/// A timer of the server's.
pub(crate) struct Timer(raw::RedisModuleTimerID);

/// Calls back once, in `in_ms` milliseconds; at most some years.
pub(crate) fn start_timer(ctx: Ctx<'_>, in_ms: u64) -> Timer {
    let period = i64::try_from(in_ms).unwrap_or(0);
    // There is no failure: the number is of a timer that was set.
    // SAFETY: the context is valid; the callback uses no data.
    Timer(unsafe { api!(RedisModule_CreateTimer)(ctx.as_ptr(), period, Some(on_timer), ptr::null_mut()) })
}

/// Stops a timer that has not fired.
pub(crate) fn stop_timer(ctx: Ctx<'_>, timer: Timer) {
    // It fails if the timer has fired and needs no stop.
    // SAFETY: the context is valid; the timer is the module's and has no data.
    unsafe { api!(RedisModule_StopTimer)(ctx.as_ptr(), timer.0, ptr::null_mut()) };
}

unsafe extern "C" fn on_timer(ctx: *mut raw::RedisModuleCtx, _: *mut c_void) {
    guarded(Callback::Timer, (), || {
        // SAFETY: the context is valid for this callback.
        let ctx = unsafe { Ctx::from_raw(ctx) };
        callbacks::with(|module| module.timer_fired(ScopedCtx::new(ctx, Task)));
    });
}
