//! The contexts of callbacks, as types: a command has a client of its own, which can be blocked and whose change can be
//! counted; outside commands another database can be selected. The compiler refuses either where it does not belong.

use std::ffi::c_int;
use std::ops::Deref;

use redis_module::raw;

use super::api::{api, optional_api};
use super::args::Args;
use super::ctx::Ctx;

/// A context that knows in what kind of callback it is; it can do all that a [`Ctx`] can.
#[derive(Clone, Copy)]
pub(crate) struct ScopedCtx<'a, S> {
    ctx: Ctx<'a>,
    scope: S,
}

/// The context of a command of the module, with the command's arguments.
pub(crate) type CommandCtx<'a> = ScopedCtx<'a, Args<'a>>;

/// The context of the timer and of the server's heartbeat, whose client is the server's own.
pub(crate) type TaskCtx<'a> = ScopedCtx<'a, Task>;

/// The context of any other callback: a key event, a server event, an answer, a changed option. It may be that of another
/// client's command, so its database stays as it is, and nothing is written.
pub(crate) type EventCtx<'a> = ScopedCtx<'a, Event>;

/// See [`TaskCtx`].
#[derive(Clone, Copy)]
pub(crate) struct Task;

/// See [`EventCtx`].
#[derive(Clone, Copy)]
pub(crate) struct Event;

impl<'a, S> Deref for ScopedCtx<'a, S> {
    type Target = Ctx<'a>;

    fn deref(&self) -> &Ctx<'a> {
        &self.ctx
    }
}

impl<'a, S> ScopedCtx<'a, S> {
    /// Wraps the context of a callback of this kind: only the functions that the server calls know the kind.
    pub(super) fn new(ctx: Ctx<'a>, scope: S) -> Self {
        Self { ctx, scope }
    }

    /// What is known of a callback of this kind: of a command, its arguments.
    pub(crate) fn scope(&self) -> &S {
        &self.scope
    }
}

impl<'a> CommandCtx<'a> {
    /// The command's arguments.
    pub(crate) fn args(self) -> Args<'a> {
        self.scope
    }

    /// The id of the command's client.
    pub(crate) fn client_id(self) -> u64 {
        self.ctx.client()
    }

    /// Counts a change, by which the server decides when to save a snapshot, while effects have no readers.
    ///
    /// The only way to count one is to send the command itself. The server discards it, or keeps it where
    /// nothing reads it: see `effects`.
    pub(crate) fn count_change(self) {
        // SAFETY: the context is that of a command. The answer is always the same.
        unsafe { api!(RedisModule_ReplicateVerbatim)(self.ctx.as_ptr()) };
    }
}

impl TaskCtx<'_> {
    /// Works in another database from here on; false if no database has that number.
    #[must_use]
    pub(crate) fn select(self, db: i32) -> bool {
        // SAFETY: the context is that of a timer or a heartbeat, whose client is the server's own.
        let status = unsafe { api!(RedisModule_SelectDb)(self.ctx.as_ptr(), db) };
        status == raw::REDISMODULE_OK as c_int
    }
}
