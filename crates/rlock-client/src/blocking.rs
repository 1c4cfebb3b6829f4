//! The same for code that is not async.
//!
//! A client has a thread of its own, on which its locks are renewed. Its methods block; call none of them from
//! async code, which has [`crate::Client`].

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder as RuntimeBuilder, Runtime};

use crate::error::{Error, Lost};
use crate::{Builder, Held};

/// A client; see [`crate::Client`].
#[derive(Clone, Debug)]
pub struct Client {
    client: crate::Client,
    runtime: Arc<Runtime>,
}

/// A lock by its name; see [`crate::Lock`].
#[derive(Clone, Debug)]
pub struct Lock {
    lock: crate::Lock,
    runtime: Arc<Runtime>,
}

/// A lock that is held; see [`crate::Guard`].
#[derive(Debug)]
#[must_use = "a guard that is dropped releases its lock"]
pub struct Guard {
    // First, so that it is dropped before the runtime that carries its release out.
    guard: crate::Guard,
    runtime: Arc<Runtime>,
}

impl Client {
    /// Connects to the server that a URL names, with the default settings.
    ///
    /// # Errors
    ///
    /// As [`crate::Client::connect`].
    pub fn connect(url: &str) -> Result<Client, Error> {
        Client::connect_with(crate::Client::builder(), url)
    }

    /// Connects with settings of one's own.
    ///
    /// # Errors
    ///
    /// As [`Builder::connect`]; [`Error::Invalid`] where no thread can be started.
    pub fn connect_with(builder: Builder, url: &str) -> Result<Client, Error> {
        let runtime = RuntimeBuilder::new_multi_thread()
            .worker_threads(1)
            .thread_name("rlock-client")
            .enable_all()
            .build()
            .map_err(|error| Error::invalid(format!("cannot start the client's thread: {error}")))?;
        let client = runtime.block_on(builder.connect(url))?;
        Ok(Client { client, runtime: Arc::new(runtime) })
    }

    /// The lock with this name, with settings as [`crate::Client::lock`] has them.
    pub fn lock(&self, name: impl AsRef<[u8]>) -> Lock {
        self.with(self.client.lock(name))
    }

    /// A lock that was set up on [`Client::inner`].
    pub fn with(&self, lock: crate::Lock) -> Lock {
        Lock { lock, runtime: self.runtime.clone() }
    }

    /// The async client behind this one, to set up locks: `client.with(client.inner().lock("a").lease(…))`.
    pub fn inner(&self) -> &crate::Client {
        &self.client
    }

    /// Ends the client; releases are sent for as long as `within` says.
    ///
    /// # Errors
    ///
    /// As [`crate::Client::shutdown`].
    pub fn shutdown(self, within: Duration) -> Result<(), Error> {
        self.runtime.block_on(self.client.shutdown(within))
    }
}

impl Lock {
    /// Acquires the lock if it is free now.
    ///
    /// # Errors
    ///
    /// As [`crate::Lock::try_lock`].
    pub fn try_lock(&self) -> Result<Option<Guard>, Error> {
        let guard = self.runtime.block_on(self.lock.try_lock())?;
        Ok(guard.map(|guard| self.guard(guard)))
    }

    /// Acquires the lock, waiting as long as it takes.
    ///
    /// # Errors
    ///
    /// As [`crate::Lock::lock`].
    pub fn lock(&self) -> Result<Guard, Error> {
        self.runtime.block_on(self.lock.lock()).map(|guard| self.guard(guard))
    }

    /// Acquires the lock, waiting for so long at most.
    ///
    /// # Errors
    ///
    /// As [`crate::Lock::lock_timeout`].
    pub fn lock_timeout(&self, wait: Duration) -> Result<Guard, Error> {
        self.runtime.block_on(self.lock.lock_timeout(wait)).map(|guard| self.guard(guard))
    }

    fn guard(&self, guard: crate::Guard) -> Guard {
        Guard { guard, runtime: self.runtime.clone() }
    }
}

impl Guard {
    /// Whether the lock is still ours, without asking the server; see [`Held::check`].
    ///
    /// # Errors
    ///
    /// As [`Held::check`].
    pub fn check(&self) -> Result<Duration, Error> {
        self.guard.check()
    }

    /// A view of this hold, to be moved into the work.
    pub fn held(&self) -> Held {
        self.guard.held()
    }

    /// Waits until the lock is lost, and says why; for ever if it never is.
    pub fn lost(&self) -> Lost {
        self.runtime.block_on(self.guard.lost())
    }

    /// Gives the lock back, and tells whether it was held until then.
    ///
    /// # Errors
    ///
    /// As [`crate::Guard::unlock`].
    pub fn unlock(self) -> Result<(), Error> {
        self.runtime.block_on(self.guard.unlock())
    }
}
