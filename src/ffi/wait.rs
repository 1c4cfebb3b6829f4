//! A wait: its blocked client, and its outcome.

use redis_module::raw;
use rlock_core::locks::Ticket;
use rlock_core::{Error, Reply};

/// How a wait ended.
pub(crate) struct WaitOutcome {
    /// The call that waited.
    pub(crate) ticket: Ticket,
    /// The answer of that call.
    pub(crate) answer: Result<Reply, Error>,
}

/// Which blocked client it is; used again by the server only after that client was answered or went.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Handle(usize);

impl Handle {
    /// That of a blocked client.
    pub(super) fn of(client: *mut raw::RedisModuleBlockedClient) -> Self {
        Self(client.addr())
    }
}
