//! The settings of links, and their end.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::graces::Graces;
use crate::clock::Clock;

/// The times of a link, and its process.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// A connection that leaves a request unanswered for this long is given up; idle connections are probed at this interval.
    pub response: Duration,
    /// The limit for the first answer: a connection takes longer than a request.
    pub first: Duration,
    /// How long a request may keep the server from answering those behind it, as WAIT does.
    pub blocking: Duration,
    /// The clock of the link.
    pub clock: Clock,
    /// The process of the client: the child of a fork has a copy of the connection, and must send nothing on it.
    pub process: u32,
}

/// What every new link needs.
#[derive(Clone)]
pub struct Links {
    /// The times.
    pub pace: Pace,
    /// How the names of channels begin.
    pub channels: &'static str,
    /// How long replicas may take to receive a write, and WAIT with them.
    pub durability_wait: Duration,
    /// How many tasks need a server at the moment: while there are any, Sentinels are asked often.
    pub busy: Arc<AtomicUsize>,
    /// The graces of the sessions.
    pub graces: Arc<Graces>,
    /// The runtime of all tasks.
    pub runtime: Handle,
    /// Ends all tasks when it is cancelled.
    pub stop: CancellationToken,
}
