//! A lock by its name.

mod acquiring;
mod asking;
mod others;
mod read_write;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::client::Handle;
use crate::command::Extras;
use crate::config::Durability;
use crate::error::{Error, name};
use crate::guard::{Guard, Held};
use crate::message::{Mode, Party};
use acquiring::Patience;
pub use read_write::ReadWriteLock;

/// A lock by its name, and how it is to be acquired. Cheap to make and to clone; made by
/// [`Client::lock`](crate::Client::lock).
///
/// Every acquisition has an owner of its own, so two tasks with one `Lock` exclude each other. The futures of
/// acquisitions borrow nothing: they can be spawned, and stand in a `select!`.
#[derive(Clone)]
pub struct Lock {
    pub(crate) handle: Arc<Handle>,
    key: Vec<u8>,
    owner: Option<Vec<u8>>,
    pub(crate) lease: Option<Duration>,
    pub(crate) wait: Option<Duration>,
    durability: Durability,
    mode: Mode,
    extras: Extras,
}

impl Lock {
    pub(crate) fn new(handle: Arc<Handle>, key: Vec<u8>) -> Lock {
        let config = &handle.shared.config;
        let (lease, wait, durability) = (config.lease, config.wait, config.durability);
        Lock {
            handle,
            key,
            owner: None,
            lease,
            wait,
            durability,
            mode: Mode::Plain,
            extras: Extras::default(),
        }
    }

    /// The same lock, whose guards have fencing tokens; see [`Client::fenced_lock`](crate::Client::fenced_lock). Not for
    /// readers, whom the server refuses one.
    #[must_use]
    pub fn fenced(self) -> Lock {
        Lock { extras: Extras { fenced: true, ..self.extras }, ..self }
    }

    /// The same lock, in the order of those who wait for Redisson's fair lock; see
    /// [`Client::fair_lock`](crate::Client::fair_lock). Not for read/write locks, of which Redisson has no fair ones.
    #[must_use]
    pub fn fair(self) -> Lock {
        Lock { extras: Extras { fair: true, ..self.extras }, ..self }
    }

    /// One side of a read/write lock.
    pub(crate) fn in_mode(self, mode: Mode) -> Lock {
        Lock { mode, ..self }
    }

    /// An owner of this lock.
    fn party(&self, owner: &[u8]) -> Party {
        Party { key: self.key.clone(), owner: owner.to_vec(), mode: self.mode }
    }

    /// Sets a lease: the lock ends so long after it was acquired, and is not renewed. From 1 ms to 2^43 ms.
    ///
    /// Without a lease the lock is renewed until it is given back.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Lock {
        self.lease = Some(lease);
        self
    }

    /// Limits how long [`Lock::lock`] and [`Lock::run`] wait. Without a limit they wait for ever.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Lock {
        self.wait = Some(wait);
        self
    }

    /// Sets how many replicas must have the lock before it is handed out.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Lock {
        self.durability = durability;
        self
    }

    /// Names the owner, 1 to 512 bytes, instead of a new one for each acquisition.
    ///
    /// Within this client, acquiring the lock while the owner holds it enters it again. A process that was
    /// restarted takes up the holds of its predecessor. No two clients may use one owner at a time: the server
    /// cannot tell them apart.
    ///
    /// Nor can it tell one hold of this owner from the next. Where a connection breaks after a release was written to
    /// it, the server may carry that release out later, as late as it reads what is left of the old connection, and
    /// then it ends whatever hold the owner has by that time. The hold's next renewal finds out
    /// ([`Lost::Taken`](crate::Lost::Taken)); until then two may be at work. Owners that the client makes are
    /// used once, so what comes late for them finds nothing: name an owner only where a restarted process has to
    /// find its lock again, and use fencing tokens where two at work do harm.
    #[must_use]
    pub fn owner(mut self, owner: impl AsRef<[u8]>) -> Lock {
        self.owner = Some(owner.as_ref().to_vec());
        self
    }

    /// The lock's name.
    pub fn name(&self) -> &[u8] {
        &self.key
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    pub(crate) fn extras(&self) -> Extras {
        self.extras
    }

    /// Acquires the lock if it is free now; `None` where somebody else holds it.
    ///
    /// Dropping the future gives back whatever it may have been granted.
    ///
    /// # Errors
    ///
    /// All but [`Error::Timeout`]; [`Error::Transport`] after two response timeouts without an answer.
    pub fn try_lock(&self) -> impl Future<Output = Result<Option<Guard>, Error>> + Send + use<> {
        let lock = self.clone();
        async move { lock.acquire(Patience::None).await }
    }

    /// Acquires the lock, waiting as long as it takes, or as [`Lock::wait`] says.
    ///
    /// Waits also while the server is out of reach. Dropping the future loses the place in the queue and never
    /// leaves a lock behind.
    ///
    /// # Errors
    ///
    /// Anything that waiting does not mend; [`Error::Timeout`] where a limit was set.
    pub fn lock(&self) -> impl Future<Output = Result<Guard, Error>> + Send + use<> {
        let lock = self.clone();
        async move { lock.acquire_within(lock.wait).await }
    }

    /// Acquires the lock, waiting for so long at most.
    ///
    /// # Errors
    ///
    /// As [`Lock::lock`]; [`Error::Timeout`] after that time.
    pub fn lock_timeout(&self, wait: Duration) -> impl Future<Output = Result<Guard, Error>> + Send + use<> {
        let lock = self.clone();
        async move { lock.acquire_within(Some(wait)).await }
    }

    /// Runs `work` under the lock, and drops it when the lock is lost.
    ///
    /// `Ok` says that the lock was held from the beginning of the work to its end.
    ///
    /// # Errors
    ///
    /// As [`Lock::lock`], and [`Error::Lost`] when the work was dropped, or had ended only after the loss.
    pub fn run<T, F, W>(&self, work: W) -> impl Future<Output = Result<T, Error>> + use<T, F, W>
    where
        F: Future<Output = T>,
        W: FnOnce(Held) -> F,
    {
        let lock = self.clone();
        async move { lock.run_under(work).await }
    }

    async fn run_under<T, F: Future<Output = T>>(self, work: impl FnOnce(Held) -> F) -> Result<T, Error> {
        let guard = self.lock().await?;
        let value = tokio::select! {
            biased;
            why = guard.lost() => return Err(Error::lost(&self.key, why)),
            value = work(guard.held()) => value,
        };
        guard.end_work().await?;
        Ok(value)
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("name", &name(&self.key)).finish_non_exhaustive()
    }
}
