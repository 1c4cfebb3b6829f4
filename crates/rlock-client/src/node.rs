//! A server, and the links to it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::Error;
use crate::link::{Connector, Link, Links, Live, Pace, Subscription};

/// A server and the links to it.
pub(crate) struct Node {
    /// For all but what blocks.
    pub(crate) main: Link,
    ears: Option<OnceLock<Link>>,
    durable: OnceLock<Link>,
    links: Links,
    connector: Arc<dyn Connector>,
    replicas: AtomicUsize,
}

/// One of the links to a server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Line {
    /// For all but what blocks.
    Main,
    /// For WAIT.
    Durable,
}

/// Where an owner waits, and how it learns the outcome.
#[derive(Clone)]
pub(crate) struct Place {
    node: Arc<Node>,
    epoch: u64,
    subscription: Arc<Subscription>,
}

impl Node {
    /// A server whose messages come on the main link.
    pub(crate) fn new(connector: Arc<dyn Connector>, links: Links) -> Node {
        let main = links.start(connector.clone());
        let (durable, replicas) = (OnceLock::new(), AtomicUsize::new(0));
        Node { main, ears: None, durable, links, connector, replicas }
    }

    /// A server whose messages come on a link of their own.
    pub(crate) fn with_ears(connector: Arc<dyn Connector>, links: Links) -> Node {
        Node { ears: Some(OnceLock::new()), ..Node::new(connector, links) }
    }

    /// The most replicas that were ever connected, with those that are now.
    pub(crate) fn replicas_seen(&self, now: usize) -> usize {
        self.replicas.fetch_max(now, Ordering::Relaxed).max(now)
    }

    /// A link; connects when it is first used.
    pub(crate) fn line(&self, line: Line) -> &Link {
        match line {
            Line::Main => &self.main,
            // WAIT keeps whatever comes after it on the connection waiting.
            Line::Durable => self.durable.get_or_init(|| {
                let pace = Pace { blocking: self.links.durability_wait, ..self.links.pace };
                Links { pace, ..self.links.clone() }.start(self.connector.clone())
            }),
        }
    }

    /// The link on which messages come; connects when it is first used.
    fn ears(&self) -> &Link {
        match &self.ears {
            Some(ears) => ears.get_or_init(|| self.links.start(self.connector.clone())),
            None => &self.main,
        }
    }

    /// The subscription by which messages on this channel are heard already, and its connection's epoch.
    pub(crate) fn heard(&self, channel: &[u8]) -> Option<(u64, Arc<Subscription>)> {
        let ears = self.ears.as_ref().map_or(Some(&self.main), OnceLock::get);
        let live = ears.and_then(Link::live)?;
        Some((live.epoch, live.subscribed(channel)?))
    }

    /// The server's address; of one behind Sentinels, that of the last connection.
    pub(crate) fn server(&self) -> String {
        self.main.live().map_or_else(|| self.connector.server(), |live| live.server.clone())
    }

    /// Why there is no connection on which messages come.
    pub(crate) fn ears_trouble(&self) -> Error {
        self.ears().trouble()
    }

    /// Waits until there is a connection on which messages come.
    pub(crate) async fn listening(&self) -> Result<Arc<Live>, Error> {
        self.ears().up().await
    }
}

impl Links {
    fn start(&self, connector: Arc<dyn Connector>) -> Link {
        Link::start(connector, self)
    }
}

impl Place {
    /// A place with this server, heard on the connection of this epoch by this subscription.
    pub(crate) fn new(node: Arc<Node>, epoch: u64, subscription: Arc<Subscription>) -> Place {
        Place { node, epoch, subscription }
    }

    /// Waits until messages may have been lost.
    pub(crate) async fn unheard(&self) {
        tokio::select! {
            () = self.node.ears().left(self.epoch) => (),
            () = self.subscription.gone() => (),
        }
    }
}

/// What a refusal says about where to go.
pub(crate) enum Elsewhere {
    /// Nothing.
    No,
    /// The same again: the router knows better now.
    Again,
    /// The same again, but not at once: the cluster is changing.
    Later,
    /// This one time there, after ASKING.
    Ask(Arc<Node>),
}
