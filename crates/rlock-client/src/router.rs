//! Which server has a lock.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

use crate::command::Refusal;
use crate::error::Error;
use crate::link::{Connector, Deliver, Link, Pace};

/// A server and the links to it.
pub(crate) struct Node {
    /// For all but what blocks.
    pub(crate) main: Link,
    durable: OnceLock<Link>,
    links: Links,
    connector: Arc<dyn Connector>,
    replicas: AtomicUsize,
}

/// What every new link needs.
#[derive(Clone)]
pub(crate) struct Links {
    pub(crate) pace: Pace,
    pub(crate) deliver: Deliver,
    pub(crate) stop: CancellationToken,
}

impl Node {
    pub(crate) fn new(connector: Arc<dyn Connector>, links: Links) -> Node {
        let main = links.start(connector.clone());
        Node { main, durable: OnceLock::new(), links, connector, replicas: AtomicUsize::new(0) }
    }

    /// The most replicas that were ever connected, with those that are now.
    pub(crate) fn replicas_seen(&self, now: usize) -> usize {
        self.replicas.fetch_max(now, Ordering::Relaxed).max(now)
    }

    /// For WAIT, which keeps whatever comes after it on the connection waiting; connects when first used.
    pub(crate) fn durable(&self) -> &Link {
        self.durable.get_or_init(|| self.links.start(self.connector.clone()))
    }
}

impl Links {
    fn start(&self, connector: Arc<dyn Connector>) -> Link {
        Link::start(connector, self.pace, self.deliver.clone(), self.stop.clone())
    }
}

/// Finds the server that has a key.
pub(crate) enum Router {
    /// One server has them all.
    One {
        /// That server.
        node: Arc<Node>,
        /// Whether another connection may lead to another server: the new primary.
        follows: bool,
    },
}

impl Router {
    /// The server that has `key`.
    pub(crate) fn node(&self, _key: &[u8]) -> Arc<Node> {
        match self {
            Self::One { node, .. } => node.clone(),
        }
    }

    /// Waits until the first attempt to connect has succeeded or failed.
    pub(crate) async fn settled(&self) -> Result<(), Error> {
        match self {
            Self::One { node, .. } => node.main.settled().await.map(|_| ()),
        }
    }

    /// Whether another try may find another server: the new primary.
    pub(crate) fn follows(&self) -> bool {
        match self {
            Self::One { follows, .. } => *follows,
        }
    }

    /// Parts `items` by the server that has their key.
    pub(crate) fn by_node<T>(&self, items: Vec<T>, _key: impl Fn(&T) -> &[u8]) -> Vec<Vec<T>> {
        match self {
            Self::One { .. } if items.is_empty() => Vec::new(),
            Self::One { .. } => vec![items],
        }
    }

    /// How to subscribe to the channel of grants for `key`, and its name.
    pub(crate) fn channel(&self, uuid: &str, _key: &[u8]) -> (&'static str, Vec<u8>) {
        match self {
            Self::One { .. } => ("SUBSCRIBE", format!("rlock:grants:{uuid}").into_bytes()),
        }
    }

    /// Learns from a refusal where a key is; `true` where the command should be tried again there.
    pub(crate) fn learn(&self, key: &[u8], refusal: &Refusal) -> bool {
        match self {
            Self::One { node, follows } => {
                let demoted = *follows && refusal.is_read_only();
                if demoted && let Some(live) = node.main.live() {
                    tracing::info!(
                        lock = crate::error::name(key),
                        "the server was demoted; looking for the new primary"
                    );
                    node.main.suspect(live.epoch);
                }
                demoted
            }
        }
    }
}
