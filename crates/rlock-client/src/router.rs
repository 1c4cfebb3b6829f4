//! Which server has a lock, and the links to it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::cluster::{Cluster, Redirection, channel_of};
use crate::command::Refusal;
use crate::error::{Error, name};
use crate::events::Hook;
use crate::link::{Connector, Deliver, Link, Live, Pace, Subscription};
use crate::shared::Gauge;

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
