//! Which server has a lock.

use std::sync::Arc;

use crate::cluster::{Cluster, Next};
use crate::command::Refusal;
use crate::error::{Error, name};
use crate::link::{DEMOTED, Live};
use crate::node::{Line, Node};

/// Finds the server that has a key.
pub(crate) enum Router {
    /// One server has them all.
    One(Arc<Node>),
    /// Each has some.
    Cluster(Cluster),
}

impl Router {
    /// The server that has `key`, as far as it is known.
    pub(crate) fn node(&self, key: &[u8]) -> Arc<Node> {
        match self {
            Self::One(node) => node.clone(),
            Self::Cluster(cluster) => cluster.node(key),
        }
    }

    /// Waits for a connection to the server that has `key`, which may become another one meanwhile.
    pub(crate) async fn up(&self, key: &[u8], line: Line) -> Result<Arc<Live>, Error> {
        match self {
            Self::One(node) => node.line(line).up().await,
            Self::Cluster(cluster) => cluster.up(key, line).await,
        }
    }

    /// All servers that may have a lock.
    pub(crate) fn servers(&self) -> Vec<Arc<Node>> {
        match self {
            Self::One(node) => vec![node.clone()],
            Self::Cluster(cluster) => cluster.servers(),
        }
    }

    /// Waits until the first attempt to connect has succeeded or failed.
    pub(crate) async fn settled(&self) -> Result<(), Error> {
        match self {
            Self::One(node) => node.main.settled().await.map(|_| ()),
            Self::Cluster(cluster) => cluster.settled().await,
        }
    }

    /// A server does not answer: others may have its slots.
    pub(crate) fn doubt(&self) {
        if let Self::Cluster(cluster) = self {
            cluster.doubt();
        }
    }

    /// Learns from a refusal on a link which server has a key.
    pub(crate) fn learn(&self, key: &[u8], live: Option<&Live>, refusal: &Refusal) -> Next {
        match (self, live) {
            (Self::One(_), Some(live)) if refusal.is_read_only() => {
                tracing::info!(lock = name(key), "the server was demoted; looking for the new primary");
                live.suspect(DEMOTED);
                Next::Later
            }
            (Self::One(_), _) => Next::Refused,
            (Self::Cluster(cluster), _) => cluster.learn(refusal),
        }
    }
}
