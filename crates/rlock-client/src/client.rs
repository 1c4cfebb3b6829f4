//! A client, how it is made and how it ends.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::cmd;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::command::{Refusal, answer};
use crate::config::{Config, Durability, Waiting};
use crate::endpoint::{Endpoint, destination};
use crate::error::{Error, Lost};
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
/// It needs one connection to each server, a second one to a server of a cluster on which it waits, and one more where
/// a lock asks for [`Durability`]. It ends when all
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
    /// Connects to the server that a URL names, or to the servers, with the default settings.
    ///
    /// | URL | whom the client uses |
    /// |---|---|
    /// | `redis://[user:password@]host[:port][/database]` | this server |
    /// | `redis+sentinel://[user:password@]host[:port],…/service[/database]` | the primary that the sentinels name |
    /// | `redis+cluster://[user:password@]host[:port],…` | of a cluster, the primary that has a lock's slot |
    /// | `rediss://`, `rediss+sentinel://`, `rediss+cluster://` | the same over TLS, with the feature `tls` |
    ///
    /// User and password are those of the servers' access control, percent-encoded where they have other characters
    /// than letters and digits. Sentinels are asked without them: a user and a password of their own stand at the
    /// end, `?sentinel_username=…&sentinel_password=…`. Ports are 6379, of sentinels 26379. Of a cluster
    /// one server that is there is enough, several are better. Over TLS, servers must prove to be who they say by
    /// the platform's authorities or `Builder::root_certificates`; the names that sentinels and clusters give must
    /// be in the certificates (`cluster-preferred-endpoint-type hostname`, `sentinel announce-hostnames yes`).
    ///
    /// # What a fail-over does
    ///
    /// A server that is alone has nobody to take over: while it is away waits go on, locks are renewed as soon as
    /// it is back, and those whose lease has ended by then are lost, and told so.
    ///
    /// With sentinels and in a cluster a replica takes over. The client finds it by itself and uses none that says
    /// that it is no primary. Locks that the replica has go on being renewed there; waits, whose queue was in the
    /// memory of the old primary, are entered there anew, in the order in which they arrive. The same goes for
    /// slots that are moved to another server, except that nothing can be lost then.
    ///
    /// **A fail-over can lose a lock**, since servers replicate after they have answered: one that was acquired
    /// just before may not be known to the replica, and somebody else gets it, though its holder has it until the
    /// next renewal. Until a primary that is cut off from the others learns that it was replaced, it may hand out
    /// locks as well. [`Durability`] closes the first gap as far as replicas that confirm can: a lock is handed out
    /// when so many have it. `min-replicas-to-write` in the configuration of the servers narrows the second, as
    /// does a short lease. What may never happen twice needs a check where it happens.
    ///
    /// # Errors
    ///
    /// [`Error::Transport`], [`Error::Tls`] and [`Error::Permission`] when the first attempt to connect fails,
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

    /// The lock with this name, each of whose guards has a fencing token ([`Held::token`](crate::Held::token)):
    /// larger than those of all holders before. Send it along with whatever is done under the lock, and let the
    /// resource refuse what comes with a smaller one than it has seen: docs/FENCING.md shows how, and tells what
    /// that guarantees.
    ///
    /// Otherwise it is the lock that [`Client::lock`] makes; holders without a token and with one exclude each other.
    pub fn fenced_lock(&self, name: impl AsRef<[u8]>) -> Lock {
        self.lock(name).fenced()
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

    /// Asks whether the server has the module, by a command that says so without doing anything; in a cluster,
    /// whether the first server has it that answers.
    async fn probe(&self) -> Result<(), Error> {
        let shared = &self.handle.shared;
        let mut trouble = Error::transport("no server is known");
        for node in shared.router.servers() {
            let by = shared.clock.now().after(shared.config.response());
            let up = shared.clock.until(Some(by), node.main.up()).await;
            // Without its arguments: the answer is an error of one kind or another.
            let answers = match up.unwrap_or_else(|| Err(node.main.trouble())) {
                Ok(live) => live.request(&[cmd("RLOCK.RENEW")]).await.map_err(Error::transport),
                Err(error) => Err(error),
            };
            let refusal = answers.map(|values| values.into_iter().find_map(|value| answer(b"", value).err()));
            match refusal {
                Ok(Some(Refusal { error: error @ Error::ModuleNotLoaded { .. }, .. })) => return Err(error),
                Ok(_) => return Ok(()),
                Err(error) => trouble = error,
            }
        }
        Err(trouble)
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
            let _ = jobs.send(Job::unknown(&shared, Arc::new(party)));
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

    /// Sets the authorities to trust, as certificates in PEM, in place of those of the platform.
    ///
    /// The platform's are those that the variables `SSL_CERT_FILE` or `SSL_CERT_DIR` name, else the system's.
    #[cfg(feature = "tls")]
    pub fn root_certificates(mut self, pem: impl AsRef<[u8]>) -> Builder {
        self.config.tls.roots = Some(pem.as_ref().to_vec());
        self
    }

    /// Sets what the client shows of itself to servers that ask for it (`tls-auth-clients`, which is their
    /// default): a certificate, with those that lead to its authority, and its key, in PEM.
    #[cfg(feature = "tls")]
    pub fn client_certificate(mut self, chain: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Builder {
        let (client_cert, client_key) = (chain.as_ref().to_vec(), key.as_ref().to_vec());
        self.config.tls.client = Some(redis::ClientTlsConfig { client_cert, client_key });
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
        let endpoint = Endpoint::parse(url, &self.config.tls)?;
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
