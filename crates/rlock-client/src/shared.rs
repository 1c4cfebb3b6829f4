//! What the tasks and the handles of a client share.

use std::sync::atomic::{AtomicU64, Ordering};

use rlock_links::{Clock, Router};
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::error::Error;
use crate::events::Event;
use crate::identity::Identity;

pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    /// Unique to this client; its owners begin with it.
    pub(crate) identity: Identity,
    pub(crate) router: Router,
    /// Cancelled by a close: nothing new begins.
    pub(crate) closing: CancellationToken,
    /// Cancelled to end all tasks.
    pub(crate) stop: CancellationToken,
    numbers: AtomicU64,
}

impl Shared {
    pub(crate) fn new(config: Config, clock: Clock, router: Router, stop: CancellationToken) -> Shared {
        let identity = Identity::new(config.login.name.as_deref());
        let (closing, numbers) = (CancellationToken::new(), AtomicU64::new(1));
        Shared { config, clock, identity, router, closing, stop, numbers }
    }

    /// A number that this client has not used yet.
    pub(crate) fn next_id(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// An owner that was never used.
    ///
    /// Half of the random part is drawn now. Two copies of a machine, restored from one snapshot, share the
    /// rest of their memory, and had the same owners.
    pub(crate) fn new_owner(&self) -> Vec<u8> {
        let (fresh, _) = uuid::Uuid::new_v4().as_u64_pair();
        format!("{}{fresh:016x}:{}", self.identity.text, self.next_id()).into_bytes()
    }

    /// Reports an event.
    pub(crate) fn tell(&self, event: Event<'_>) {
        self.config.events.tell(event);
    }

    /// Refuses a call after a close, or in a child of the process that made the client.
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        self.check_home()?;
        if self.closing.is_cancelled() { Err(Error::Closed) } else { Ok(()) }
    }

    /// Refuses a call in a child of the process that made the client, which has neither its timers nor its connections.
    pub(crate) fn check_home(&self) -> Result<(), Error> {
        if self.identity.is_at_home() {
            return Ok(());
        }
        let message = "this client was made before a fork; create a new one in the child process".into();
        Err(Error::Unsupported { message })
    }
}
