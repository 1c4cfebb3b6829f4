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

/// A lock by its name, with its settings. Cheap to make and to clone; made by [`Client::lock`](crate::Client::lock).
///
/// Each acquisition has its own owner, so two tasks with one `Lock` exclude each other. The futures of acquisitions
/// borrow nothing: you can spawn them, and use them in a `select!`.
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

    /// The same lock, with fencing tokens for its guards; see [`Client::fenced_lock`](crate::Client::fenced_lock).
    /// Not for readers: the server gives them no tokens.
    #[must_use]
    pub fn fenced(self) -> Lock {
        Lock { extras: Extras { fenced: true, ..self.extras }, ..self }
    }

    /// The same lock, in one order with the waiters of Redisson's fair lock; see
    /// [`Client::fair_lock`](crate::Client::fair_lock). Not for read/write locks: Redisson has no fair ones.
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

    /// Sets a fixed lease: the lock ends after this time and is not renewed. From 1 ms to 2^43 ms.
    ///
    /// Without a fixed lease, the lock is renewed until you release it.
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

    /// Sets how many replicas must have the lock before `lock` returns it.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Lock {
        self.durability = durability;
        self
    }

    /// Names the owner, 1 to 512 bytes, instead of a new one for each acquisition.
    ///
    /// Within this client, acquiring a lock that the owner holds re-enters it. A restarted process takes over the
    /// holds of its predecessor. Two clients must never use one owner at the same time: the server cannot distinguish
    /// them.
    ///
    /// Nor can the server distinguish one hold of this owner from the next. If a connection breaks after a release
    /// was written to it, the server may run that release later, when it reads the rest of the old connection. The
    /// release ends whatever hold the owner has by that time. The hold's next renewal notices it
    /// ([`Lost::Taken`](crate::Lost::Taken)); until that renewal, two owners may be at work. The client's generated
    /// owners are used once, so a late release finds nothing. Name an owner only if a restarted process must find its
    /// lock again, and use fencing tokens if two owners at work do harm.
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

    /// Acquires the lock if it is free now; `None` if another owner holds it.
    ///
    /// Dropping the future releases what it may have been granted.
    ///
    /// # Errors
    ///
    /// All except [`Error::Timeout`]; [`Error::Transport`] after two response timeouts without a reply.
    pub fn try_lock(&self) -> impl Future<Output = Result<Option<Guard>, Error>> + Send + use<> {
        let lock = self.clone();
        async move { lock.acquire(Patience::None).await }
    }

    /// Acquires the lock, waiting without limit, or as long as [`Lock::wait`] says.
    ///
    /// It also waits while the server is out of reach. Dropping the future loses the place in the queue and never
    /// leaves a lock behind.
    ///
    /// # Errors
    ///
    /// Every error that waiting cannot fix; [`Error::Timeout`] if you set a limit.
    pub fn lock(&self) -> impl Future<Output = Result<Guard, Error>> + Send + use<> {
        let lock = self.clone();
        async move { lock.acquire_within(lock.wait).await }
    }

    /// Acquires the lock, waiting for at most `wait`.
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
    /// As [`Lock::lock`], and [`Error::Lost`] if the work was dropped, or ended only after the loss.
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
