//! Blocked clients. The module blocks them without a time-out of the server, because several servers abort if an unblock and
//! that time-out meet in one event-loop cycle. The time-outs are the module's.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use redis_module::raw;
use rlock_core::Error;

use super::api::{api, optional_api};
use super::callbacks;
use super::contexts::{CommandCtx, Event, ScopedCtx};
use super::ctx::Ctx;
use super::guard::{Callback, guarded};
use super::wait::{Handle, WaitOutcome};

/// A blocked client, to be unblocked exactly once.
pub(crate) struct Blocked(*mut raw::RedisModuleBlockedClient);

impl Blocked {
    /// The handle of this client.
    pub(crate) fn handle(&self) -> Handle {
        Handle::of(self.0)
    }

    /// Answers the client at the end of this event-loop cycle.
    pub(crate) fn unblock(self, outcome: WaitOutcome) {
        let data: *mut WaitOutcome = Box::into_raw(Box::new(outcome));
        // It fails only for a client that is blocked on keys, which these are not.
        // SAFETY: the handle is unblocked only here, which consumes it; `free` takes the box back.
        unsafe { api!(RedisModule_UnblockClient)(self.0, data.cast()) };
    }
}

/// How many clients were blocked; it wraps around.
static BLOCKED: AtomicU32 = AtomicU32::new(0);

/// How many clients were blocked so far: the same before and after a call that blocks none.
pub(super) fn blocked_so_far() -> u32 {
    BLOCKED.load(Ordering::Relaxed)
}

impl CommandCtx<'_> {
    /// Whether the client may be blocked: not in a transaction or script, and not on a replica.
    pub(crate) fn may_block(self) -> bool {
        self.flags()
            & (raw::REDISMODULE_CTX_FLAGS_DENY_BLOCKING | raw::REDISMODULE_CTX_FLAGS_SLAVE).cast_signed()
            == 0
    }

    /// Blocks the client; the command must not reply after it. `None` if the server refuses: Valkey from 8.1 on does
    /// where the client is subscribed to anything.
    pub(crate) fn block(self) -> Option<Blocked> {
        let no_timeout = 0;
        let block = api!(RedisModule_BlockClient);
        // SAFETY: the context is that of a command which may block; the callbacks live as long as the module is loaded.
        let blocked = unsafe { block(self.as_ptr(), Some(on_reply), None, Some(free), no_timeout) };
        if blocked.is_null() {
            return None;
        }
        // SAFETY: the handle is that of a client which was just blocked.
        unsafe { api!(RedisModule_SetDisconnectCallback)(blocked, Some(on_disconnect)) };
        BLOCKED.fetch_add(1, Ordering::Relaxed);
        Some(Blocked(blocked))
    }
}

/// Whether this server is a primary.
pub(crate) fn is_primary(ctx: Ctx<'_>) -> bool {
    ctx.flags() & raw::REDISMODULE_CTX_FLAGS_SLAVE as c_int == 0
}

unsafe extern "C" fn on_reply(
    ctx: *mut raw::RedisModuleCtx,
    _: *mut *mut raw::RedisModuleString,
    _: c_int,
) -> c_int {
    guarded(Callback::Unblocked, (), || {
        // SAFETY: the context is valid for this callback, and its private data is what `unblock` gave.
        let (ctx, outcome) = unsafe {
            let data = api!(RedisModule_GetBlockedClientPrivateData)(ctx);
            (Ctx::from_raw(ctx), data.cast::<WaitOutcome>().as_ref())
        };
        match outcome {
            Some(outcome) => callbacks::with(|module| module.answer(ScopedCtx::new(ctx, Event), outcome)),
            None => ctx.reply_error(&Error::Internal("a wait ended without an outcome")),
        }
    });
    raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn on_disconnect(
    ctx: *mut raw::RedisModuleCtx,
    blocked: *mut raw::RedisModuleBlockedClient,
) {
    guarded(Callback::Disconnect, (), || {
        // SAFETY: the context is valid for this callback.
        let ctx = unsafe { Ctx::from_raw(ctx) };
        callbacks::with(|module| module.client_disconnected(ScopedCtx::new(ctx, Event), Handle::of(blocked)));
    });
}

unsafe extern "C" fn free(_: *mut raw::RedisModuleCtx, outcome: *mut c_void) {
    if outcome.is_null() {
        return;
    }
    // SAFETY: made by `unblock`, and the server frees it once.
    guarded(Callback::Free, (), || drop(unsafe { Box::from_raw(outcome.cast::<WaitOutcome>()) }));
}
