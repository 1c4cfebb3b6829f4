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

/// The handle of a blocked client. The server uses it again only after that client was answered or has disconnected.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Handle(usize);

impl Handle {
    /// The handle of a blocked client.
    pub(super) fn of(client: *mut raw::RedisModuleBlockedClient) -> Self {
        Self(client.addr())
    }
}
