//! A client, how it is made and how it ends.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::cmd;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use crate::builder::Builder;
use crate::clock::Clock;
use crate::command::{Refusal, answer};
use crate::config::Config;
use crate::error::{Error, Lost};
use crate::link::{Deliver, Pace};
use crate::lock::{Lock, ReadWriteLock};
use crate::message::Inbox;
use crate::release::{self, Job};
use crate::router::{Links, Router};
use crate::shared::{Shared, deliver};
use crate::watchdog;

/// A client of a server, or of several that belong together. Cheap to clone; all clones share its connections.
///
/// It needs one connection to each server, a second one to a server of a cluster on which it waits, and one more where
/// a lock asks for [`Durability`](crate::Durability). It ends when all
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
    /// locks as well. [`Durability`](crate::Durability) closes the first gap as far as replicas that confirm can: a lock is handed out
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

    /// The read/write lock with this name: many readers together, or one writer alone.
    ///
    /// It is Redisson's of the same name. A plain lock of that name is another kind of lock: who asks for the one while
    /// somebody holds the other is refused ([`Error::NotALock`]).
    pub fn read_write_lock(&self, name: impl AsRef<[u8]>) -> ReadWriteLock {
        ReadWriteLock::new(self.lock(name))
    }

    /// The lock with this name, in one order with those who wait for Redisson's fair lock of that name, which would
    /// come after all who wait by [`Client::lock`]. Where nobody uses Redisson, [`Client::lock`] is fair already.
    pub fn fair_lock(&self, name: impl AsRef<[u8]>) -> Lock {
        self.lock(name).fair()
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

    /// Waits for the first connection and asks whether the server has the module, by a command that says so without
    /// doing anything; in a cluster, whether the first server has it that answers.
    pub(crate) async fn probe(&self) -> Result<(), Error> {
        let shared = &self.handle.shared;
        shared.router.settled().await?;
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

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("uuid", &self.uuid()).finish_non_exhaustive()
    }
}
