//! Which server of a cluster has a key.
//!
//! Each server that has a key in use has its own links, made when they are first needed. The map of slots is the
//! last one that a server sent, and `MOVED` corrects it at once. If a server cannot be reached, the others are asked
//! for the map.

mod lookup;
mod map;
mod slot;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use crate::error::Error;
use crate::link::{Links, Live, Template};
use crate::node::{Line, Node, Watch};
use crate::refusal::Refusal;
use map::{Map, Redirection};
pub use slot::slot_of;

/// How long to wait for a connection before the other servers are asked where the slot is.
const PATIENCE: Duration = Duration::from_millis(250);

/// How often a command follows a slot at once …
const AT_ONCE: u32 = 2;

/// … in this time.
const SETTLES: Duration = Duration::from_millis(250);

/// How long a server without slots is kept after it was last used: it may be receiving slots.
const KEEP: Duration = Duration::from_secs(60);

/// Where to send a command that was refused.
pub enum Next {
    /// Nowhere else: the refusal says nothing about slots.
    Refused,
    /// To the server that has the slot now, as the map says.
    Moved,
    /// To the same server, a little later: the cluster is changing.
    Later,
    /// To this server once, after ASKING.
    Ask(Arc<Node>),
}

/// The servers of a cluster.
pub(crate) struct Cluster {
    inner: Arc<Inner>,
}

struct Inner {
    links: Links,
    watch: Weak<dyn Watch>,
    /// `host:port`, as the user named them; at least one.
    seeds: Vec<String>,
    template: Template,
    known: Mutex<Known>,
    /// How often the map was renewed; or why it was not, before the first time.
    progress: watch::Sender<Option<Result<u64, Error>>>,
    /// The map may be out of date.
    doubts: Notify,
}

#[derive(Default)]
struct Known {
    map: Map,
    nodes: HashMap<String, Entry>,
    /// The last slot that a refusal has moved, when, and how often in a row.
    moved: Option<(usize, Instant, u32)>,
}

struct Entry {
    node: Arc<Node>,
    used: Instant,
}

impl Cluster {
    /// Starts to read the map of slots. `template` accepts each of the `seeds`, of which there is at least one.
    pub(crate) fn start(
        seeds: Vec<String>,
        template: Template,
        links: Links,
        watch: Weak<dyn Watch>,
    ) -> Cluster {
        let (known, progress, doubts) = (Mutex::default(), watch::channel(None).0, Notify::new());
        let inner = Arc::new(Inner { links, watch, seeds, template, known, progress, doubts });
        let (looking, stop) = (inner.clone(), inner.links.stop.clone());
        inner.links.runtime.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => (),
                () = looking.keep_looking() => (),
            }
        });
        Cluster { inner }
    }

    /// The server that has `key`, as far as is known; otherwise another server, which will name it.
    pub(crate) fn node(&self, key: &[u8]) -> Arc<Node> {
        self.inner.node(key)
    }

    /// All servers that have slots, one to which there is a connection first.
    pub(crate) fn servers(&self) -> Vec<Arc<Node>> {
        let mut known = self.inner.known();
        let addresses = known.map.addresses().to_vec();
        let node = |address: &String| self.inner.node_at(&mut known, address).ok();
        let mut nodes: Vec<_> = addresses.iter().filter_map(node).collect();
        nodes.sort_by_key(|node| node.main.live().is_none());
        nodes
    }

    /// Waits for a connection to the server that has `key`. Another server may get the key meanwhile.
    pub(crate) async fn up(&self, key: &[u8], line: Line) -> Result<Arc<Live>, Error> {
        let mut progress = self.inner.progress.subscribe();
        loop {
            progress.mark_unchanged();
            let node = self.node(key);
            let link = node.line(line);
            tokio::select! {
                biased;
                live = link.up() => return live,
                _ = progress.changed() => (),
                () = tokio::time::sleep(PATIENCE) => self.inner.doubts.notify_one(),
            }
        }
    }

    /// Waits until the map was read, or reading it has failed.
    pub(crate) async fn settled(&self) -> Result<(), Error> {
        let mut progress = self.inner.progress.subscribe();
        let outcome = progress.wait_for(Option::is_some).await;
        match outcome.as_deref() {
            Ok(Some(Ok(_))) => Ok(()),
            Ok(Some(Err(error))) => Err(error.clone()),
            _ => Err(Error::Closed),
        }
    }

    /// Notes that the map may be out of date.
    pub(crate) fn doubt(&self) {
        self.inner.doubts.notify_one();
    }

    /// Learns from a refusal where a slot is.
    pub(crate) fn learn(&self, refusal: &Refusal) -> Next {
        let Some(redirection) = Redirection::read(refusal) else {
            if !["CLUSTERDOWN", "TRYAGAIN"].contains(&refusal.code.as_str()) {
                return Next::Refused;
            }
            self.doubt();
            return Next::Later;
        };
        // Other slots are likely to have moved as well.
        self.doubt();
        let mut known = self.inner.known();
        let address = known.complete(redirection.slot, redirection.address);
        let Ok(node) = self.inner.node_at(&mut known, &address) else { return Next::Later };
        if redirection.asks {
            return Next::Ask(node);
        }
        if known.assign(redirection.slot, &address) { Next::Moved } else { Next::Later }
    }
}

impl Known {
    /// A server says that a slot is elsewhere; `false` if the servers disagree, and need a moment to settle it.
    fn assign(&mut self, slot: usize, address: &str) -> bool {
        if self.map.address(slot) == Some(address) {
            return true;
        }
        self.map.assign(slot, address);
        let times = match self.moved {
            Some((last, at, times)) if last == slot && at.elapsed() < SETTLES => times.saturating_add(1),
            _ => 1,
        };
        self.moved = Some((slot, Instant::now(), times));
        times <= AT_ONCE
    }

    /// Closes the links to servers that have no slots any more.
    fn forget_unused(&mut self) {
        let Known { map, nodes, .. } = self;
        nodes.retain(|address, entry| map.has(address) || entry.used.elapsed() < KEEP);
    }

    /// An address that lacks the host is at the host of the server that named it, which had the slot.
    fn complete(&self, slot: usize, address: String) -> String {
        match (address.strip_prefix(':'), self.map.address(slot)) {
            (Some(port), Some(before)) => format!("{}:{port}", map::host_of(before)),
            _ => address,
        }
    }
}

impl Inner {
    fn node(self: &Arc<Self>, key: &[u8]) -> Arc<Node> {
        let mut known = self.known();
        let slot = slot_of(key);
        let at = known.map.address(slot).or_else(|| known.map.addresses().first().map(String::as_str));
        let addresses: Vec<String> = at.map(str::to_string).into_iter().chain(self.seeds.clone()).collect();
        let node = addresses.iter().find_map(|address| self.node_at(&mut known, address).ok());
        #[expect(
            clippy::expect_used,
            reason = "the template takes the seeds: reading the URL has tried that"
        )]
        node.expect("the template takes the seeds")
    }

    /// The server at an address; makes its links if it has none.
    fn node_at(self: &Arc<Self>, known: &mut Known, address: &str) -> Result<Arc<Node>, Error> {
        let used = Instant::now();
        if let Some(entry) = known.nodes.get_mut(address) {
            entry.used = used;
            return Ok(entry.node.clone());
        }
        let connector = Arc::new((self.template)(address)?);
        let (inner, at) = (Arc::downgrade(self), address.to_string());
        let tag = move || {
            let slot = inner.upgrade().and_then(|inner| inner.known().map.slot_at(&at));
            slot::tag_of(slot.unwrap_or_default())
        };
        let node = Node::in_cluster(connector, self.links.clone(), self.watch.clone(), tag);
        known.nodes.insert(address.to_string(), Entry { node: node.clone(), used });
        Ok(node)
    }

    /// Installs a map that a server sent; `true` if it differs from the present one.
    fn install(self: &Arc<Self>, map: Map) -> bool {
        let mut known = self.known();
        let before = std::mem::replace(&mut known.map, map);
        if known.map == before {
            known.forget_unused();
            return false;
        }
        for address in before.addresses() {
            if !known.map.has(address) {
                self.pass_on(&mut known, &before, address);
            }
        }
        known.forget_unused();
        true
    }

    /// A server that took over from another counts as many replicas as that one had.
    fn pass_on(self: &Arc<Self>, known: &mut Known, before: &Map, address: &str) {
        let Some(heir) = before.heir(address, &known.map).map(str::to_string) else { return };
        let Some(seen) = known.nodes.get(address).map(|entry| entry.node.replicas_seen(0)) else { return };
        if let Ok(node) = self.node_at(known, &heir) {
            node.replicas_seen(seen);
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
