//! A client, how it is made and how it ends.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::cmd;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::config::{Config, Durability, Waiting};
use crate::endpoint::{Endpoint, destination};
use crate::error::{Error, Lost};
use crate::exchange::{Manner, Trouble, exchange_one};
use crate::link::{Deliver, Pace};
use crate::lock::Lock;
use crate::message::Inbox;
use crate::metrics::Metrics;
use crate::release::{self, Job};
use crate::router::{Links, Router};
use crate::shared::{Shared, deliver};
use crate::watchdog;

/// A client of a server, or of several that belong together. Cheap to clone; all clones share its connections.
///
/// It needs one connection to each server, and a second one where a lock asks for [`Durability`]. It ends when all
/// its clones and guards are gone and what they left to do is done, or with [`Client::shutdown`].
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
}

/// What clients, attempts and guards have in common; the jobs' channel closes with the last of them.
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) runtime: tokio::runtime::Handle,
    /// Which server it is, as [`destination`] has it.
    pub(crate) server: String,
    jobs: UnboundedSender<Job>,
}

impl Handle {
    /// Leaves a release to the background. Does no I/O and needs no runtime.
    pub(crate) fn send(&self, job: Job) {
        // Without a receiver the runtime is gone, and the lease will end.
        let _ = self.jobs.send(job);
    }
}

/// How a client is to be; see [`Client::builder`].
#[derive(Clone, Default)]
#[must_use]
pub struct Builder {
    config: Config,
}

impl Client {
    /// Connects to the server that a URL names, with the default settings.
    ///
    /// `redis://[user:password@]host[:port][/database]`; `rediss://` with the feature `tls`;
    /// `redis+sentinel://[user:password@]host:port,host:port/service[/database]`.
    ///
    /// # Errors
    ///
    /// [`Error::Transport`] and [`Error::Permission`] when the first attempt to connect fails,
    /// [`Error::ModuleNotLoaded`] where the server does not know the commands, [`Error::Invalid`] for a bad URL.
    pub async fn connect(url: &str) -> Result<Client, Error> {
        Client::builder().connect(url).await
    }

    /// A client to be set up first.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The lock with this name: the key in the server, any bytes.
    pub fn lock(&self, name: impl AsRef<[u8]>) -> Lock {
        Lock::new(self.handle.clone(), name.as_ref().to_vec())
    }

    /// What the owners of this client's locks begin with, followed by a colon and a number.
    pub fn uuid(&self) -> &str {
        &self.handle.shared.uuid
    }

    /// Ends the client: refuses what is new, ends all waits, and tells all guards that their locks are lost
    /// ([`Lost::ShutDown`]) so that the work ends and drops them. Their releases are sent for as long as `within`
    /// says; then all connections close.
    ///
    /// A lock whose guard is not dropped by then is not released, since its work may go on: its lease ends.
    ///
    /// # Errors
    ///
    /// [`Error::Unflushed`] where the server has not answered for every lock.
    pub async fn shutdown(self, within: Duration) -> Result<(), Error> {
        let shared = &self.handle.shared;
        shared.closing.cancel();
        for hold in shared.watchdog.all() {
            hold.lose(Lost::ShutDown);
        }
        let flushed = tokio::time::timeout(within, shared.owners.emptied()).await;
        shared.stop.cancel();
        flushed.map_err(|_| Error::Unflushed { locks: shared.owners.count() })
    }

    /// Starts the tasks of a client. Needs a tokio runtime.
    pub(crate) fn start(
        config: Config,
        clock: Clock,
        server: String,
        route: impl FnOnce(Links) -> Router,
    ) -> Client {
        let uuid = uuid::Uuid::new_v4().to_string();
        let (jobs, inbox_of_jobs) = unbounded_channel();
        let weak_jobs = jobs.downgrade();
        let shared = Arc::new_cyclic(|shared: &Weak<Shared>| {
            let (inbox, stop) = (Arc::new(Inbox::default()), CancellationToken::new());
            let deliver = deliver_to(shared.clone(), inbox.clone());
            let pace = Pace { response: config.response() };
            let runtime = tokio::runtime::Handle::current();
            let router = route(Links { pace, deliver, runtime, stop: stop.clone() });
            Shared::new(config, clock, uuid, router, inbox, stop, weak_jobs)
        });
        let runtime = tokio::runtime::Handle::current();
        start_tasks(&shared, inbox_of_jobs);
        Client { handle: Arc::new(Handle { shared, runtime, server, jobs }) }
    }

    /// Asks whether the server has the module, by a command that says so without doing anything.
    async fn probe(&self) -> Result<(), Error> {
        let shared = &self.handle.shared;
        let by = shared.clock.now().after(shared.config.response());
        // Without its arguments: the answer is an error of one kind or another.
        match exchange_one(shared, b"", cmd("RLOCK.RENEW"), Manner::by(Some(by))).await {
            Ok(Err(refusal)) if matches!(refusal.error, Error::ModuleNotLoaded { .. }) => Err(refusal.error),
            Ok(_) => Ok(()),
            Err(Trouble::Unsent(error)) => Err(error),
            Err(Trouble::Unanswered(why)) => Err(Error::transport(why)),
        }
    }
}

fn start_tasks(shared: &Arc<Shared>, jobs: UnboundedReceiver<Job>) {
    tokio::spawn(watchdog::run(shared.clone()));
    tokio::spawn(release::run(shared.clone(), jobs));
}

/// Takes messages to the mailboxes, and gives back what nobody waits for any more.
fn deliver_to(shared: Weak<Shared>, inbox: Arc<Inbox>) -> Deliver {
    Arc::new(move |message| {
        let Some(party) = deliver(&inbox, message) else { return };
        let Some(shared) = shared.upgrade() else { return };
        // An owner that the user named may be in use again by the time the release arrives.
        if party.owner.starts_with(format!("{}:", shared.uuid).as_bytes())
            && let Some(jobs) = shared.jobs.upgrade()
        {
            let _ = jobs.send(Job::unknown(&shared, party));
        }
    })
}

impl Builder {
    /// Sets a lease for all locks that name none of their own; they are not renewed then.
    pub fn lease(mut self, lease: Duration) -> Builder {
        self.config.lease = Some(lease);
        self
    }

    /// Sets the lease of locks that are renewed, 30 seconds by default; they are renewed every third of it.
    ///
    /// So long after a crash the lock is free, and so long an outage may last before locks are lost.
    pub fn watchdog_timeout(mut self, lease: Duration) -> Builder {
        self.config.watchdog = lease;
        self
    }

    /// Limits how long [`Lock::lock`] waits, for all locks that set no limit of their own.
    pub fn wait(mut self, wait: Duration) -> Builder {
        self.config.wait = Some(wait);
        self
    }

    /// Sets how locks are waited for.
    pub fn waiting(mut self, waiting: Waiting) -> Builder {
        self.config.waiting = waiting;
        self
    }

    /// Sets how many replicas must have a lock before it is handed out, for all locks that do not say.
    pub fn durability(mut self, durability: Durability) -> Builder {
        self.config.durability = durability;
        self
    }

    /// Sets how long replicas may take to have a lock, 1 second by default.
    pub fn durability_wait(mut self, wait: Duration) -> Builder {
        self.config.durability_wait = wait;
        self
    }

    /// Sets how long a server may take to answer before the connection is given up for another; by default a sixth
    /// of the watchdog's time, at least 50 ms and at most 5 seconds.
    pub fn response_timeout(mut self, time: Duration) -> Builder {
        self.config.response = Some(time);
        self
    }

    /// Sets whom to tell what happens to locks.
    pub fn metrics(mut self, metrics: Arc<dyn Metrics>) -> Builder {
        self.config.metrics = Some(metrics);
        self
    }

    /// Connects to the server that a URL names; see [`Client::connect`]. Needs a tokio runtime, which the client uses
    /// until its end.
    ///
    /// # Errors
    ///
    /// As [`Client::connect`], and [`Error::Invalid`] for bad settings.
    pub async fn connect(self, url: &str) -> Result<Client, Error> {
        let client = self.connect_lazy(url)?;
        client.handle.shared.router.settled().await?;
        client.probe().await?;
        Ok(client)
    }

    /// Starts to connect, and does not wait for the outcome: for one of the servers of a [`RedLock`](crate::RedLock),
    /// which may be down when the program starts. Needs a tokio runtime, as [`Builder::connect`] does.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a bad URL or bad settings; all else shows when locks are acquired.
    pub fn connect_lazy(self, url: &str) -> Result<Client, Error> {
        self.config.check()?;
        let endpoint = Endpoint::parse(url)?;
        Ok(Client::start(self.config, Clock::System, destination(url), |links| endpoint.route(links)))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("uuid", &self.uuid()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").finish_non_exhaustive()
    }
}
