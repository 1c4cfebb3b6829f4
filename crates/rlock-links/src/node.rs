//! A server, and the links to it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use crate::clock::Instant;
use crate::error::Error;
use crate::link::{Connector, Gathering, Link, Links, Live, Order, Pace, Report};

/// The receiver of what happens at servers.
pub trait Watch: Send + Sync {
    /// A link to the server is up, or the server has answered a subscription.
    fn ready(&self, node: &Arc<Node>);

    /// A link to the server is down, for this reason.
    fn lost(&self, node: &Arc<Node>, line: Line, server: &str, error: &Error);

    /// A link to this server is up again, this long after it was lost.
    fn restored(&self, server: &str, after: Duration);

    /// An attempt to connect to the server failed.
    fn failed(&self, node: &Arc<Node>, error: &Error);

    /// Slots have moved to other servers.
    fn moved(&self);

    /// A message arrived from the server. `current`: by the present subscription, while the link for commands is up.
    fn message(&self, node: &Arc<Node>, current: bool, message: &[u8]);

    /// The server has answered a heartbeat that was sent at this moment on the link for commands.
    fn alive(&self, node: &Arc<Node>, sent: Instant);
}

/// A server and the links to it.
pub struct Node {
    /// The link for all commands but WAIT.
    pub main: Link,
    /// The link for messages, in a cluster.
    messages: Option<Messages>,
    durable: OnceLock<Link>,
    links: Links,
    connector: Arc<dyn Connector>,
    replicas: AtomicUsize,
    watch: Weak<dyn Watch>,
    this: Weak<Node>,
}

/// The link for messages of a server in a cluster.
struct Messages {
    link: OnceLock<Link>,
    /// The hash tag of a slot that the server has, as far as it is known.
    tag: Box<dyn Fn() -> u32 + Send + Sync>,
}

/// One of the links to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// The link for all commands but WAIT, and for messages if there is no cluster.
    Main,
    /// The link for WAIT.
    Durable,
    /// The link for messages, in a cluster.
    Messages,
}

impl Node {
    /// A server whose messages arrive on the link for commands.
    pub(crate) fn new(connector: Arc<dyn Connector>, links: Links, watch: Weak<dyn Watch>) -> Arc<Node> {
        Node::start(connector, links, watch, None)
    }

    /// A server of a cluster. `tag` names a slot that it has.
    pub(crate) fn in_cluster(
        connector: Arc<dyn Connector>,
        links: Links,
        watch: Weak<dyn Watch>,
        tag: impl Fn() -> u32 + Send + Sync + 'static,
    ) -> Arc<Node> {
        let messages = Messages { link: OnceLock::new(), tag: Box::new(tag) };
        Node::start(connector, links, watch, Some(messages))
    }

    fn start(
        connector: Arc<dyn Connector>,
        links: Links,
        watch: Weak<dyn Watch>,
        messages: Option<Messages>,
    ) -> Arc<Node> {
        Arc::new_cyclic(|this: &Weak<Node>| {
            let main = start_link(this, Line::Main, connector.clone(), &links);
            let (durable, replicas) = (OnceLock::new(), AtomicUsize::new(0));
            Node { main, messages, durable, links, connector, replicas, watch, this: this.clone() }
        })
    }

    /// How long the server may take to answer. A first connection takes longer.
    pub fn response(&self) -> Duration {
        if self.main.is_new() { self.links.pace.first } else { self.links.pace.response }
    }

    /// Why the server does not answer, as far as it is known.
    pub fn fault(&self) -> Error {
        match self.main.live() {
            Some(live) => live.silent(),
            None => self.main.fault(),
        }
    }

    /// The most replicas that were ever connected; `now` are connected at present.
    pub fn replicas_seen(&self, now: usize) -> usize {
        self.replicas.fetch_max(now, Ordering::Relaxed).max(now)
    }

    /// A link; connects when it is first used.
    pub(crate) fn line(&self, line: Line) -> &Link {
        match (line, &self.messages) {
            (Line::Main, _) | (Line::Messages, None) => &self.main,
            (Line::Messages, Some(messages)) => messages
                .link
                .get_or_init(|| start_link(&self.this, line, self.connector.clone(), &self.links)),
            // WAIT keeps whatever comes after it on the connection waiting.
            (Line::Durable, _) => self.durable.get_or_init(|| {
                let pace = Pace { blocking: self.links.durability_wait, ..self.links.pace };
                let links = Links { pace, ..self.links.clone() };
                start_link(&self.this, line, self.connector.clone(), &links)
            }),
        }
    }

    /// Whether commands can be sent, and if `waits`, messages are received.
    pub fn is_ready(&self, waits: bool) -> bool {
        self.main.live().is_some() && (!waits || self.messages.is_none() || self.subscription().is_some())
    }

    /// Sends an order by the link for commands; `false` if there is no connection.
    pub fn order(&self, order: Order) -> bool {
        self.main.live().is_some_and(|live| live.order(order))
    }

    /// Keeps orders to this server back, and sends them in one piece when the result is dropped.
    pub fn gather(&self) -> Option<Gathering> {
        self.main.live().map(|live| live.gather())
    }

    /// Subscribes if need be, and returns the channel for messages.
    pub fn listen(&self) -> Vec<u8> {
        let live = self.line(Line::Messages).live();
        if let (Some(live), None) = (&live, &self.messages) {
            live.listen("SUBSCRIBE", |name| name, |_| ());
        }
        live.map(|live| live.channel().to_vec()).unwrap_or_default()
    }

    /// The channel's slot has left the server: asks for another connection, which gets a channel in one of the server's slots.
    pub fn listen_anew(&self) {
        if let Some(live) = self.line(Line::Messages).live() {
            live.suspect("the slot of its channel has moved");
        }
    }

    /// The refusal of the present subscription.
    pub fn unheard(&self) -> Option<Error> {
        self.subscription()?.err()
    }

    fn subscription(&self) -> Option<Result<(), Error>> {
        self.line(Line::Messages).live()?.subscription().cloned()
    }

    fn report(self: &Arc<Self>, line: Line, report: &Report<'_>) {
        let Some(watch) = self.watch.upgrade() else { return };
        match report {
            Report::Up(live) if line == Line::Messages => self.subscribe(live),
            Report::Up(_) if line == Line::Main => watch.ready(self),
            Report::Down(live, error) => watch.lost(self, line, &live.server, error),
            Report::Restored(live, after) => watch.restored(&live.server, *after),
            Report::Failed(error) if line != Line::Durable => watch.failed(self, error),
            Report::Message(live, message) => watch.message(self, self.is_current(live), message),
            Report::Alive(sent) if line == Line::Main => watch.alive(self, *sent),
            Report::Up(_) | Report::Failed(_) | Report::Alive(_) => (),
        }
    }

    fn is_current(&self, from: &Live) -> bool {
        let current = self.line(Line::Messages).live().is_some_and(|live| live.epoch == from.epoch);
        current && self.main.live().is_some()
    }

    /// Subscribes in a cluster.
    fn subscribe(self: &Arc<Self>, live: &Arc<Live>) {
        let Some(messages) = &self.messages else { return };
        let (node, heard) = (self.this.clone(), Arc::downgrade(live));
        let done = move |outcome: &Result<(), Error>| {
            let Some(node) = node.upgrade() else { return };
            let Some(watch) = node.watch.upgrade() else { return };
            match (outcome, heard.upgrade()) {
                (Err(Error::Permission { .. }) | Ok(()), _) => watch.ready(&node),
                // The slot is elsewhere by now. The next connection finds another one.
                (Err(_), Some(live)) => drop(live.suspect("its subscription was refused")),
                (Err(_), None) => (),
            }
        };
        live.listen("SSUBSCRIBE", |name| format!("{name}:{{{}}}", (messages.tag)()), done);
    }
}

fn start_link(this: &Weak<Node>, line: Line, connector: Arc<dyn Connector>, links: &Links) -> Link {
    let node = this.clone();
    let reports = move |report: Report<'_>| {
        if let Some(node) = node.upgrade() {
            node.report(line, &report);
        }
    };
    Link::start(connector, links, Box::new(reports))
}
