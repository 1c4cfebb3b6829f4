//! Which server has a lock.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use crate::cluster::{Cluster, Redirection, channel_of};
use crate::command::Refusal;
use crate::error::{Error, name};
use crate::link::Live;
use crate::node::{Elsewhere, Line, Node};

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
    pub(crate) async fn up(&self, key: &[u8], line: Line) -> Result<(Arc<Node>, Arc<Live>), Error> {
        match self {
            Self::One(node) => node.line(line).up().await.map(|live| (node.clone(), live)),
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

    /// Whether the same request may well succeed a little later.
    pub(crate) fn passes(&self, refusal: &Refusal) -> bool {
        refusal.passes()
            || match self {
                // The next connection may lead to the new primary.
                Self::One(_) => refusal.is_read_only(),
                Self::Cluster(_) => Redirection::read(refusal).is_some(),
            }
    }

    /// Parts `items` by the server that has their key.
    pub(crate) fn by_node<T>(&self, items: Vec<T>, key: impl Fn(&T) -> &[u8]) -> Vec<Vec<T>> {
        match self {
            Self::One(_) if items.is_empty() => Vec::new(),
            Self::One(_) => vec![items],
            Self::Cluster(cluster) => {
                let mut parts: HashMap<*const Node, Vec<T>> = HashMap::new();
                for item in items {
                    let node = Arc::as_ptr(&cluster.node(key(&item)));
                    parts.entry(node).or_default().push(item);
                }
                parts.into_values().collect()
            }
        }
    }

    /// How to subscribe to the channel of grants for `key`, and its name; `all` is that of a client with one for all
    /// its locks.
    pub(crate) fn channel<'a>(&self, all: &'a str, key: &[u8]) -> (&'static str, Cow<'a, [u8]>) {
        match self {
            Self::One(_) => ("SUBSCRIBE", Cow::Borrowed(all.as_bytes())),
            Self::Cluster(_) => ("SSUBSCRIBE", Cow::Owned(channel_of(all, key))),
        }
    }

    /// Whether hearing of grants for `key` costs nothing more: there is one channel for all locks, or it is
    /// subscribed to already.
    pub(crate) fn hears(&self, channel: &[u8], key: &[u8]) -> bool {
        match self {
            Self::One(_) => true,
            Self::Cluster(cluster) => cluster.node(key).heard(channel).is_some(),
        }
    }

    /// Learns from a refusal on `line` which server has a key.
    pub(crate) fn learn(&self, key: &[u8], line: Line, refusal: &Refusal) -> Elsewhere {
        match self {
            Self::One(node) if refusal.is_read_only() => {
                let link = node.line(line);
                if let Some(live) = link.live() {
                    tracing::info!(lock = name(key), "the server was demoted; looking for the new primary");
                    link.demoted(live.epoch);
                }
                Elsewhere::Again
            }
            Self::One(_) => Elsewhere::No,
            Self::Cluster(cluster) => cluster.learn(refusal),
        }
    }
}
