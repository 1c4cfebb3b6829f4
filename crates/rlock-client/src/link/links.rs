//! The settings of links, and their end.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::graces::Graces;
use crate::clock::Clock;
use crate::events::Hook;

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
    pub(crate) events: Hook,
    /// How long replicas may take, and with them WAIT.
    pub(crate) durability_wait: Duration,
    /// How many acquisitions there are: while there are any, Sentinels are asked often.
    pub(crate) busy: Arc<AtomicUsize>,
    pub(crate) graces: Arc<Graces>,
    pub(crate) runtime: Handle,
    pub(crate) stop: CancellationToken,
}
