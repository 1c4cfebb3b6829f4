//! A client, how it is made and how it ends.

use std::fmt;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::cmd;
use rlock_links::{Clock, Graces, Links, Pace, Router, Watch, answer};
use tokio_util::sync::CancellationToken;

use crate::acquisition::Acquisitions;
use crate::command::refused;
use crate::config::Config;
use crate::error::Error;
use crate::handle::Handle;
use crate::kind::Permit;
use crate::lock::{Lock, ReadWriteLock, Spec};
use crate::shared::Shared;

/// A client of one server, of a cluster, or of a primary behind Sentinels. Cheap to clone; all clones share its
/// connections.
///
/// A client needs one connection to each server, a second one to each cluster server on which it waits, and one
/// more for locks with [`Durability`](crate::Durability). It ends with [`Client::close`], or when all its clones
/// and guards are dropped and their pending work is done.
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
}

impl Client {
    pub(crate) fn spec(&self, name: impl AsRef<[u8]>) -> Spec {
        Spec::new(self.handle.clone(), name.as_ref().to_vec())
    }

    /// The lock with this name. The name is the key in the server, and may be any bytes.
    pub fn lock(&self, name: impl AsRef<[u8]>) -> Lock {
        Lock::new(self.spec(name))
    }

    /// The read/write lock with this name: many readers together, or one writer alone.
    ///
    /// It is the same lock as Redisson's read/write lock of that name, and of another kind than a plain lock. While a
    /// plain lock of that name is held, acquiring either side is refused, and the reverse ([`Error::NotALock`]).
    pub fn read_write_lock(&self, name: impl AsRef<[u8]>) -> ReadWriteLock {
        ReadWriteLock::new(self.spec(name))
    }

    /// The semaphore with this name: at most `permits` owners hold it at once, each with a lease of its own.
    ///
    /// The server does not store the number. Use the same number everywhere: a call with a smaller one waits until fewer
    /// permits are held, and takes none away. A semaphore is of another kind than other locks ([`Error::NotALock`]).
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), rlock_client::Error> {
    /// # let server = rlock_testkit::TestServer::start();
    /// # let url = &format!("redis://127.0.0.1:{}", server.port());
    /// # let client = rlock_client::Client::connect(url).await?;
    /// let printers = client.semaphore("printers", 2);
    /// let (one, two) = (printers.acquire().await?, printers.acquire().await?);
    /// assert!(printers.try_acquire().await.is_err());
    /// one.release().await?;
    /// two.release().await
    /// # }
    /// ```
    pub fn semaphore(&self, name: impl AsRef<[u8]>, permits: u32) -> Lock<Permit> {
        Lock::new(Spec::semaphore(self.handle.clone(), name.as_ref().to_vec(), permits))
    }

    /// The beginning of each owner of this client's locks: `<name>@<host>:<pid>:` and 16 random characters. An owner continues
    /// with 16 more, new for each acquisition, and `:<number>`. [`Builder::name`](crate::Builder::name) sets the name.
    pub fn identity(&self) -> &str {
        &self.handle.all.shared.identity.text
    }

    /// Ends the client: refuses new calls, ends all waits, and marks all guards as lost ([`Lost::Closed`](crate::Lost::Closed)) so that
    /// the work ends and drops them. Sends their releases for at most `within`, and closes all connections.
    ///
    /// A lock whose guard is not dropped by that time is not released, because its work may still run. It stays held
    /// until lease end.
    ///
    /// # Errors
    ///
    /// [`Error::Unflushed`] if the server did not answer for every lock that this client held; [`Error::Unsupported`] in
    /// the child of a fork, which has nothing to close.
    pub async fn close(self, within: Duration) -> Result<(), Error> {
        let (all, shared) = (&self.handle.all, &self.handle.all.shared);
        shared.check_home()?;
        shared.closing.cancel();
        all.close();
        let flushed = tokio::time::timeout(within, all.emptied()).await;
        let locks = all.in_use();
        shared.stop.cancel();
        // The caller of a wait that failed has no lock. The server forgets its owner at the lease end.
        if flushed.is_err() && locks > 0 { Err(Error::Unflushed { locks }) } else { Ok(()) }
    }

    /// Starts the tasks of a client. Needs a tokio runtime.
    pub(crate) fn start(
        config: Config,
        clock: Clock,
        server: String,
        route: impl FnOnce(Links, Weak<dyn Watch>) -> Router,
    ) -> Client {
        let runtime = tokio::runtime::Handle::current();
        let (busy, graces) = (Arc::<AtomicUsize>::default(), Arc::<Graces>::default());
        let stop = CancellationToken::new();
        let links = Links {
            pace: Pace {
                response: config.response(),
                first: config.first_response(),
                blocking: Duration::ZERO,
                clock,
                process: std::process::id(),
            },
            channels: "rlock:grants:",
            durability_wait: config.durability_wait,
            busy: busy.clone(),
            graces: graces.clone(),
            runtime: runtime.clone(),
            stop: stop.clone(),
        };
        let all =
            Acquisitions::start(busy, graces, |watch| Shared::new(config, clock, route(links, watch), stop));
        Client { handle: Arc::new(Handle { all, runtime, server }) }
    }

    /// Waits for the first connection and checks that the server has the module, by a command that changes nothing.
    /// In a cluster it checks the first server that answers.
    pub(crate) async fn probe(&self) -> Result<(), Error> {
        let shared = &self.handle.all.shared;
        shared.router.settled().await?;
        let mut fault = Error::transport(self.handle.server.as_str(), "no server is known");
        for node in shared.router.servers() {
            let by = shared.clock.now().after(shared.config.response());
            let up = shared.clock.until(Some(by), node.main.up()).await;
            // Without its arguments: the answer is an error of one kind or another.
            let answers = match up.unwrap_or_else(|| Err(node.fault())) {
                Ok(live) => live.request(vec![cmd("RLOCK.RENEW")]).await,
                Err(error) => Err(error),
            };
            let refusal = answers.map(|values| values.into_iter().find_map(|value| answer(value).err()));
            match refusal.map(|refusal| refusal.map(|refusal| refused(b"", &refusal))) {
                Ok(Some(error @ Error::ModuleMissing { .. })) => return Err(error),
                Ok(_) => return Ok(()),
                Err(error) => fault = error.into(),
            }
        }
        Err(fault)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("identity", &self.identity()).finish_non_exhaustive()
    }
}

#[cfg(test)]
impl Client {
    /// What the tasks of the client share, for a test that waits for their end.
    pub(crate) fn shared_by_tasks(&self) -> Weak<Acquisitions> {
        Arc::downgrade(&self.handle.all)
    }
}
