//! Which server has a key.

use std::sync::{Arc, Weak};

use crate::LOG;
use crate::clock::{Clock, Instant};
use crate::cluster::{Cluster, Next};
use crate::error::Error;
use crate::link::{Connector, DEMOTED, Links, Live, Template};
use crate::node::{Line, Node, Watch};
use crate::refusal::Refusal;

/// Finds the server that has a key.
pub struct Router {
    servers: Servers,
    pub(crate) clock: Clock,
}

enum Servers {
    /// One server has all keys.
    One(Arc<Node>),
    /// Each server has some keys.
    Cluster(Cluster),
}

impl Router {
    /// A router to the one server of a connector, which has all keys.
    pub fn to_one(connector: Arc<dyn Connector>, links: Links, watch: Weak<dyn Watch>) -> Router {
        let clock = links.pace.clock;
        Router { servers: Servers::One(Node::new(connector, links, watch)), clock }
    }

    /// A router to the servers of a cluster; see [`Cluster::start`].
    pub(crate) fn to_cluster(
        seeds: Vec<String>,
        template: Template,
        links: Links,
        watch: Weak<dyn Watch>,
    ) -> Router {
        let clock = links.pace.clock;
        Router { servers: Servers::Cluster(Cluster::start(seeds, template, links, watch)), clock }
    }

    /// The server that has `key`, as far as it is known.
    pub fn node(&self, key: &[u8]) -> Arc<Node> {
        match &self.servers {
            Servers::One(node) => node.clone(),
            Servers::Cluster(cluster) => cluster.node(key),
        }
    }

    /// Waits for a connection to the server that has `key`. Another server may get the key meanwhile.
    pub(crate) async fn up(&self, key: &[u8], line: Line) -> Result<Arc<Live>, Error> {
        match &self.servers {
            Servers::One(node) => node.line(line).up().await,
            Servers::Cluster(cluster) => cluster.up(key, line).await,
        }
    }

    /// All servers that may have a key.
    pub fn servers(&self) -> Vec<Arc<Node>> {
        match &self.servers {
            Servers::One(node) => vec![node.clone()],
            Servers::Cluster(cluster) => cluster.servers(),
        }
    }

    /// Waits until the first attempt to connect has succeeded or failed.
    ///
    /// # Errors
    ///
    /// The error of that attempt.
    pub async fn settled(&self) -> Result<(), Error> {
        match &self.servers {
            Servers::One(node) => node.main.settled().await.map(|_| ()),
            Servers::Cluster(cluster) => cluster.settled().await,
        }
    }

    /// Until when a call without a limit waits for an answer about `key`. A first connection takes longer.
    pub fn answer_by(&self, key: &[u8]) -> Instant {
        self.clock.now().after(self.node(key).response())
    }

    /// A server does not answer: others may have its slots.
    pub fn doubt(&self) {
        if let Servers::Cluster(cluster) = &self.servers {
            cluster.doubt();
        }
    }

    /// Learns from a refusal on a link which server has a key. `live` is `None` if that connection has ended since.
    pub fn learn(&self, live: Option<&Live>, refusal: &Refusal) -> Next {
        match &self.servers {
            Servers::One(_) if refusal.is_read_only() => {
                if let Some(live) = live {
                    tracing::info!(target: LOG, server = live.server, "the server was demoted; looking for the new primary");
                    live.suspect(DEMOTED);
                }
                Next::Later
            }
            Servers::One(_) => Next::Refused,
            Servers::Cluster(cluster) => cluster.learn(refusal),
        }
    }
}
