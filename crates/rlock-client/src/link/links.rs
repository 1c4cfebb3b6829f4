//! The settings of links, their reports and their end.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::graces::Graces;
use super::live::Live;
use crate::clock::{Clock, Instant};
use crate::error::Error;
use crate::events::Hook;

/// What happens on a link.
pub(crate) enum Report<'a> {
    /// There is a connection.
    Up(&'a Arc<Live>),
    /// The connection is gone. Each request on it has got its answer.
    Down,
    /// An attempt to connect failed.
    Failed(&'a Error),
    /// A message on a channel that was subscribed.
    Message(&'a Live, &'a [u8]),
    /// The server has answered a heartbeat that was sent at this moment.
    Alive(Instant),
}

/// The receiver of a link's reports.
pub(crate) type Reports = Box<dyn Fn(Report<'_>) + Send + Sync>;

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
