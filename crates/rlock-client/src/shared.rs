//! What the tasks and the handles of a client share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, Instant};
use crate::config::Config;
use crate::error::Error;
use crate::events::Event;
use crate::gauge::Gauge;
use crate::identity::Identity;
use crate::message::Inbox;
use crate::router::Router;

pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    /// Unique to this client; its owners begin with it.
    pub(crate) identity: Identity,
    /// The channel of grants, where there is one for all locks; each other's name begins with it.
    pub(crate) channel: String,
    pub(crate) router: Router,
    pub(crate) inbox: Arc<Inbox>,
    /// The owners that a server may know of.
    pub(crate) owners: Arc<Gauge>,
    /// Set by a close: nothing new begins.
    pub(crate) closing: CancellationToken,
    /// The end of all tasks.
    pub(crate) stop: CancellationToken,
    numbers: AtomicU64,
    waits_expected: AtomicBool,
}

impl Shared {
    pub(crate) fn new(
        config: Config,
        clock: Clock,
        router: Router,
        (inbox, owners): (Arc<Inbox>, Arc<Gauge>),
        stop: CancellationToken,
    ) -> Shared {
        let identity = Identity::new(config.login.name.as_deref());
        Shared {
            config,
            clock,
            channel: format!("rlock:grants:{}", identity.random),
            identity,
            router,
            inbox,
            owners,
            closing: CancellationToken::new(),
            stop,
            numbers: AtomicU64::new(1),
            waits_expected: AtomicBool::new(false),
        }
    }

    /// A number that this client has not used yet.
    pub(crate) fn next_id(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// An owner that was never used.
    ///
    /// Half of its random part is drawn now: two copies of a machine, restored from one snapshot, share the
    /// rest of their memory, and had the same owners.
    pub(crate) fn new_owner(&self) -> Vec<u8> {
        let (fresh, _) = uuid::Uuid::new_v4().as_u64_pair();
        format!("{}{fresh:016x}:{}", self.identity.text, self.next_id()).into_bytes()
    }

    /// Whether the next acquisition will probably wait, as the last one did. A wrong guess costs a round
    /// trip, or a place in the queue that was not needed.
    pub(crate) fn waits_expected(&self) -> bool {
        self.waits_expected.load(Ordering::Relaxed)
    }

    /// Notes what became of the last request for a lock.
    pub(crate) fn expect_waits(&self, expected: bool) {
        self.waits_expected.store(expected, Ordering::Relaxed);
    }

    /// Until when a call without a limit waits for an answer about `key`. A first connection takes longer.
    pub(crate) fn answer_by(&self, key: &[u8]) -> Instant {
        let is_new = self.router.node(key).main.is_new();
        let time = if is_new { self.config.first_response() } else { self.config.response() };
        self.clock.now().after(time)
    }

    /// Why there was no answer about `key` in time, as far as it is known.
    pub(crate) fn trouble(&self, key: &[u8]) -> Error {
        let node = self.router.node(key);
        match node.main.live() {
            Some(live) => live.silent(),
            None => node.main.trouble(),
        }
    }

    /// Reports an event.
    pub(crate) fn tell(&self, event: Event<'_>) {
        self.config.events.tell(event);
    }

    /// Refuses what is begun after a close, or in a child of the process that made the client.
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        self.check_home()?;
        if self.closing.is_cancelled() { Err(Error::Closed) } else { Ok(()) }
    }

    /// Refuses what is begun in a child of the process that made the client: its timers and connections are not there.
    pub(crate) fn check_home(&self) -> Result<(), Error> {
        if self.identity.is_at_home() {
            return Ok(());
        }
        let message = "this client was made before a fork; create a new one in the child process".into();
        Err(Error::Unsupported { message })
    }
}
