//! The same for code that is not async.
//!
//! A client has a thread of its own, on which its locks are renewed and released; it ends when the last handle and
//! guard are gone and the releases are done. Its methods block; call none of them from async code, which has
//! [`crate::Client`]. Guards may be dropped anywhere.
//!
//! ```
//! # fn main() -> Result<(), rlock_client::Error> {
//! # let server = rlock_testkit::TestServer::start();
//! # let url = &format!("redis://127.0.0.1:{}", server.port());
//! use std::time::Duration;
//! use rlock_client::blocking::Client;
//!
//! let client = Client::connect(url)?;
//! let guard = client.lock("invoice:7").lock()?;
//! guard.check()?;
//! guard.unlock()?;
//! client.shutdown(Duration::from_secs(5))
//! # }
//! ```

mod several;
mod thread;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Lost};
use crate::{Builder, Held};
pub use several::{MultiGuard, MultiLock, RedGuard, RedLock};
use thread::Thread;

/// A client; see [`crate::Client`].
#[derive(Clone, Debug)]
pub struct Client {
    // In each of these types before the thread: the thread ends after the last of what runs on it.
    client: crate::Client,
    thread: Arc<Thread>,
}

/// A lock by its name; see [`crate::Lock`].
#[derive(Clone, Debug)]
pub struct Lock {
    lock: crate::Lock,
    thread: Arc<Thread>,
}

/// A lock that is held; see [`crate::Guard`].
#[derive(Debug)]
#[must_use = "a guard that is dropped releases its lock"]
pub struct Guard {
    guard: crate::Guard,
    thread: Arc<Thread>,
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

    /// Connects with your own settings.
    ///
    /// # Errors
    ///
    /// As [`Builder::connect`]; [`Error::Invalid`] if no thread can be started.
    pub fn connect_with(builder: Builder, url: &str) -> Result<Client, Error> {
        Client::start(builder.connect(url))
    }

    /// Starts to connect, without waiting for the outcome; see [`Builder::connect_lazy`].
    ///
    /// # Errors
    ///
    /// As [`Builder::connect_lazy`]; [`Error::Invalid`] if no thread can be started.
    pub fn connect_lazy_with(builder: Builder, url: &str) -> Result<Client, Error> {
        Client::start(async { builder.connect_lazy(url) })
    }

    fn start(client: impl Future<Output = Result<crate::Client, Error>>) -> Result<Client, Error> {
        let thread = Thread::start().map_err(|error| {
            Error::invalid(format!(
                "cannot start the client's thread: {error}; raise the limits on threads or open files"
            ))
        })?;
        let client = thread.run(client)?;
        Ok(Client { client, thread: Arc::new(thread) })
    }

    /// The lock with this name, with the settings of [`crate::Client::lock`].
    pub fn lock(&self, name: impl AsRef<[u8]>) -> Lock {
        self.with(self.client.lock(name))
    }

    /// The lock with this name, whose guards have fencing tokens; see [`crate::Client::fenced_lock`].
    pub fn fenced_lock(&self, name: impl AsRef<[u8]>) -> Lock {
        self.with(self.client.fenced_lock(name))
    }

    /// The lock with this name, in the order of Redisson's fair lock; see [`crate::Client::fair_lock`].
    pub fn fair_lock(&self, name: impl AsRef<[u8]>) -> Lock {
        self.with(self.client.fair_lock(name))
    }

    /// The read side and the write side of the read/write lock with this name; see
    /// [`crate::Client::read_write_lock`].
    pub fn read_write_lock(&self, name: impl AsRef<[u8]>) -> (Lock, Lock) {
        let lock = self.client.read_write_lock(name);
        (self.with(lock.read()), self.with(lock.write()))
    }

    /// A lock that you set up with [`Client::inner`].
    pub fn with(&self, lock: crate::Lock) -> Lock {
        Lock { lock, thread: self.thread.clone() }
    }

    /// The async client behind this one, to set up locks: `client.with(client.inner().lock("a").lease(…))`.
    pub fn inner(&self) -> &crate::Client {
        &self.client
    }

    /// Ends the client; sends releases for at most `within`.
    ///
    /// # Errors
    ///
    /// As [`crate::Client::shutdown`].
    pub fn shutdown(self, within: Duration) -> Result<(), Error> {
        self.thread.run(self.client.shutdown(within))
    }
}

impl Lock {
    /// Acquires the lock if it is free now.
    ///
    /// # Errors
    ///
    /// As [`crate::Lock::try_lock`].
    pub fn try_lock(&self) -> Result<Option<Guard>, Error> {
        let guard = self.thread.run(self.lock.try_lock())?;
        Ok(guard.map(|guard| self.guard(guard)))
    }

    /// Acquires the lock, waiting without limit.
    ///
    /// # Errors
    ///
    /// As [`crate::Lock::lock`].
    pub fn lock(&self) -> Result<Guard, Error> {
        self.thread.run(self.lock.lock()).map(|guard| self.guard(guard))
    }

    /// Acquires the lock, waiting for at most `wait`.
    ///
    /// # Errors
    ///
    /// As [`crate::Lock::lock_timeout`].
    pub fn lock_timeout(&self, wait: Duration) -> Result<Guard, Error> {
        self.thread.run(self.lock.lock_timeout(wait)).map(|guard| self.guard(guard))
    }

    /// Runs `work` under the lock, on the caller's thread, and releases the lock.
    ///
    /// Blocking work cannot be stopped from outside. Call `guard.check()?` before each step that needs the lock: it
    /// asks no server and costs next to nothing. To stop other tasks, give them [`Held::cancellation_token`], or
    /// [`Guard::held`] in another thread.
    ///
    /// ```
    /// # fn main() -> Result<(), rlock_client::Error> {
    /// # let server = rlock_testkit::TestServer::start();
    /// # let url = &format!("redis://127.0.0.1:{}", server.port());
    /// # let client = rlock_client::blocking::Client::connect(url)?;
    /// let written = client.lock("report").run(|guard| {
    ///     let mut written = 0;
    ///     for _page in 0..3 {
    ///         guard.check()?;
    ///         // … write a page …
    ///         written += 1;
    ///     }
    ///     Ok::<_, rlock_client::Error>(written)
    /// })??;
    /// assert_eq!(written, 3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// `Ok` says that the lock was held from the beginning of the work to its end. If the work panics, the lock is
    /// released as well.
    ///
    /// # Errors
    ///
    /// As [`Lock::lock`], and [`Error::Lost`] if the lock was lost before the work ended, whatever the work returned.
    pub fn run<T>(&self, work: impl FnOnce(&Guard) -> T) -> Result<T, Error> {
        let guard = self.lock()?;
        let value = work(&guard);
        let Guard { guard, thread } = guard;
        thread.run(guard.end_work())?;
        Ok(value)
    }

    /// Whether the lock is held.
    ///
    /// # Errors
    ///
    /// As [`crate::Lock::is_locked`], like those of the next questions.
    pub fn is_locked(&self) -> Result<bool, Error> {
        self.thread.run(self.lock.is_locked())
    }

    /// Whether this owner holds the lock.
    ///
    /// # Errors
    ///
    /// As [`crate::Lock::is_locked`].
    pub fn is_held_by(&self, owner: impl AsRef<[u8]>) -> Result<bool, Error> {
        self.thread.run(self.lock.is_held_by(owner))
    }

    /// How many holds this owner has.
    ///
    /// # Errors
    ///
    /// As [`crate::Lock::is_locked`].
    pub fn hold_count(&self, owner: impl AsRef<[u8]>) -> Result<u64, Error> {
        self.thread.run(self.lock.hold_count(owner))
    }

    /// The remaining lease; see [`crate::Lock::remaining`].
    ///
    /// # Errors
    ///
    /// As [`crate::Lock::is_locked`].
    pub fn remaining(&self) -> Result<Option<Duration>, Error> {
        self.thread.run(self.lock.remaining())
    }

    /// Takes the lock away from its holder; `false` if it had none.
    ///
    /// # Errors
    ///
    /// As [`crate::Lock::force_release`].
    pub fn force_release(&self) -> Result<bool, Error> {
        self.thread.run(self.lock.force_release())
    }

    fn guard(&self, guard: crate::Guard) -> Guard {
        Guard { guard, thread: self.thread.clone() }
    }
}

impl Guard {
    /// A view of this hold, to move into the work.
    pub fn held(&self) -> Held {
        self.guard.held()
    }

    /// Re-enters the lock; see [`crate::Guard::reenter`].
    ///
    /// # Errors
    ///
    /// As [`crate::Guard::reenter`].
    pub fn reenter(&self) -> Result<Guard, Error> {
        let guard = self.thread.run(self.guard.reenter())?;
        Ok(Guard { guard, thread: self.thread.clone() })
    }

    /// Turns a writer's guard into a reader's; see [`crate::Guard::downgrade`].
    ///
    /// # Errors
    ///
    /// As [`crate::Guard::downgrade`].
    pub fn downgrade(self) -> Result<Guard, Error> {
        let Guard { guard, thread } = self;
        let guard = thread.run(guard.downgrade())?;
        Ok(Guard { guard, thread })
    }

    /// Waits until the lock is lost, and returns the reason; never returns if it is not lost.
    pub fn lost(&self) -> Lost {
        self.thread.run(self.guard.lost())
    }

    /// Releases the lock, and fails if it was lost before.
    ///
    /// # Errors
    ///
    /// As [`crate::Guard::unlock`].
    pub fn unlock(self) -> Result<(), Error> {
        self.thread.run(self.guard.unlock())
    }
}

impl Deref for Guard {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.guard
    }
}
