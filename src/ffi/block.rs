//! Blocked clients. The module blocks them without a time-out of the server, because several servers abort if an unblock and
//! that time-out meet in one event-loop cycle. The time-outs are the module's.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use redis_module::raw;
use rlock_core::locks::Ticket;
use rlock_core::{Error, Reply};

use super::api::{api, optional_api};
use super::callbacks;
use super::contexts::{Event, ScopedCtx};
use super::ctx::Ctx;
use super::guard::{Callback, guarded};

/// How a wait ended.
pub(crate) struct WaitOutcome {
    /// The call that waited.
    pub(crate) ticket: Ticket,
    /// The answer of that call.
    pub(crate) answer: Result<Reply, Error>,
}

/// A blocked client, to be unblocked exactly once.
pub(crate) struct Blocked(*mut raw::RedisModuleBlockedClient);

/// Which blocked client it is; used again by the server only after that client was answered or went.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Handle(usize);

impl Blocked {
    /// Which one.
    pub(crate) fn handle(&self) -> Handle {
        Handle(self.0.addr())
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

/// See [`super::CommandCtx::block`].
pub(super) fn block(ctx: Ctx<'_>) -> Option<Blocked> {
    let no_timeout = 0;
    let block = api!(RedisModule_BlockClient);
    // SAFETY: the context is that of a command which may block; the callbacks live as long as the module is loaded.
    let blocked = unsafe { block(ctx.as_ptr(), Some(on_reply), None, Some(free), no_timeout) };
    if blocked.is_null() {
        return None;
    }
    // SAFETY: the handle is that of a client which was just blocked.
    unsafe { api!(RedisModule_SetDisconnectCallback)(blocked, Some(on_disconnect)) };
    BLOCKED.fetch_add(1, Ordering::Relaxed);
    Some(Blocked(blocked))
}

/// Whether this server is a primary.
pub(crate) fn is_primary(ctx: Ctx<'_>) -> bool {
    flags(ctx) & raw::REDISMODULE_CTX_FLAGS_SLAVE as c_int == 0
}

pub(super) fn flags(ctx: Ctx<'_>) -> c_int {
    // SAFETY: the context is valid.
    unsafe { api!(RedisModule_GetContextFlags)(ctx.as_ptr()) }
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
        callbacks::with(|module| {
            module.client_disconnected(ScopedCtx::new(ctx, Event), Handle(blocked.addr()))
        });
    });
}

unsafe extern "C" fn free(_: *mut raw::RedisModuleCtx, outcome: *mut c_void) {
    if outcome.is_null() {
        return;
    }
    // SAFETY: made by `unblock`, and the server frees it once.
    guarded(Callback::Free, (), || drop(unsafe { Box::from_raw(outcome.cast::<WaitOutcome>()) }));
}

/// The number of the client whose command is under way.
pub(super) fn client_id(ctx: Ctx<'_>) -> u64 {
    // SAFETY: the context is valid; 0 where it has no client.
    unsafe { api!(RedisModule_GetClientId)(ctx.as_ptr()) }
}
