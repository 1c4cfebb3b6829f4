//! The settings of links, their receivers and their end.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::events::Hook;
use crate::gauge::Gauge;

/// What is done with a message.
pub(crate) type Deliver = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// The times a link goes by, and its process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// A connection that leaves a request unanswered for this long is given up; idle ones are probed as often.
    pub(crate) response: Duration,
    /// The same before the first connection, which takes longer than a request.
    pub(crate) first: Duration,
    /// How long a request may keep the server from answering those behind it, as WAIT does.
    pub(crate) blocking: Duration,
    pub(crate) clock: Clock,
    /// The process of the client: the child of a fork has a copy of the connection, and must send nothing on it.
    pub(crate) process: u32,
}

/// What every new link needs.
#[derive(Clone)]
pub(crate) struct Links {
    pub(crate) pace: Pace,
    pub(crate) deliver: Deliver,
    pub(crate) events: Hook,
    /// Told when a connection was restored.
    pub(crate) restored: Arc<Notify>,
    /// How long replicas may take, and with them WAIT.
    pub(crate) durability_wait: Duration,
    /// The owners that a server may know of: while there are any, Sentinels are asked often.
    pub(crate) owners: Arc<Gauge>,
    pub(crate) runtime: Handle,
    pub(crate) stop: CancellationToken,
}
