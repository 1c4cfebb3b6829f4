//! Locks that are several, for code that is not async.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::thread::Thread;
use super::{Client, Lock};
use crate::error::{Error, Lost};
use crate::{Held, MultiHeld, RedHeld};

/// The threads of all the clients: each has the connections of some of the locks.
#[derive(Clone, Debug)]
struct Threads {
    first: Arc<Thread>,
    _others: Arc<[Arc<Thread>]>,
}

impl Threads {
    fn all(threads: Vec<Arc<Thread>>) -> Result<Threads, Error> {
        let first = threads.first().cloned().ok_or_else(|| Error::invalid("no client is named"))?;
        Ok(Threads { first, _others: threads.into() })
    }

    /// Runs `work` on the caller's thread, with the timers of the first client.
    fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.first.run(work)
    }
}

/// Several locks, acquired together; see [`crate::MultiLock`].
#[derive(Clone, Debug)]
pub struct MultiLock {
    lock: crate::MultiLock,
    threads: Threads,
}

/// Several locks, held together; see [`crate::MultiGuard`].
#[derive(Debug)]
#[must_use = "a guard that is dropped releases its locks"]
pub struct MultiGuard {
    guard: crate::MultiGuard,
    threads: Threads,
}

/// A lock on several independent servers; see [`crate::RedLock`].
#[derive(Clone, Debug)]
pub struct RedLock {
    lock: crate::RedLock,
    threads: Threads,
}

/// A held red lock; see [`crate::RedGuard`].
#[derive(Debug)]
#[must_use = "a guard that is dropped releases its lock"]
pub struct RedGuard {
    guard: crate::RedGuard,
    threads: Threads,
}

impl MultiLock {
    /// All these locks as one, of one client or several.
    ///
    /// # Errors
    ///
    /// As [`crate::MultiLock::new`].
    pub fn new(locks: impl IntoIterator<Item = Lock>) -> Result<MultiLock, Error> {
        let (locks, threads): (Vec<_>, Vec<_>) =
            locks.into_iter().map(|lock| (lock.lock, lock.thread)).unzip();
        Ok(MultiLock { lock: crate::MultiLock::new(locks)?, threads: Threads::all(threads)? })
    }

    /// Limits how long [`MultiLock::lock`] waits; see [`crate::MultiLock::wait`].
    #[must_use]
    pub fn wait(self, wait: Duration) -> MultiLock {
        MultiLock { lock: self.lock.wait(wait), ..self }
    }

    /// Acquires the locks if all are free now.
    ///
    /// # Errors
    ///
    /// As [`crate::MultiLock::try_lock`].
    pub fn try_lock(&self) -> Result<Option<MultiGuard>, Error> {
        let guard = self.threads.run(self.lock.try_lock())?;
        Ok(guard.map(|guard| self.guard(guard)))
    }

    /// Acquires all the locks, waiting without limit.
    ///
    /// # Errors
    ///
    /// As [`crate::MultiLock::lock`].
    pub fn lock(&self) -> Result<MultiGuard, Error> {
        self.threads.run(self.lock.lock()).map(|guard| self.guard(guard))
    }

    /// Acquires all the locks, waiting for at most `wait`.
    ///
    /// # Errors
    ///
    /// As [`crate::MultiLock::lock_timeout`].
    pub fn lock_timeout(&self, wait: Duration) -> Result<MultiGuard, Error> {
        self.threads.run(self.lock.lock_timeout(wait)).map(|guard| self.guard(guard))
    }

    /// Runs `work` under the locks, on the caller's thread, and releases them.
    ///
    /// Blocking work cannot be stopped from outside. Call `guard.check()?` before each step that needs the locks: it
    /// asks no server and costs next to nothing.
    ///
    /// `Ok` says that all locks were held from the beginning of the work to its end. If the work panics, the locks
    /// are released as well.
    ///
    /// # Errors
    ///
    /// As [`MultiLock::lock`], and [`Error::Lost`] if one of them was lost before the work ended, whatever the work
    /// returned.
    pub fn run<T>(&self, work: impl FnOnce(&MultiGuard) -> T) -> Result<T, Error> {
        let guard = self.lock()?;
        let value = work(&guard);
        let MultiGuard { guard, threads } = guard;
        threads.run(guard.end_work())?;
        Ok(value)
    }

    fn guard(&self, guard: crate::MultiGuard) -> MultiGuard {
        MultiGuard { guard, threads: self.threads.clone() }
    }
}

impl MultiGuard {
    /// A view of the locks, to move into the work.
    pub fn held(&self) -> MultiHeld {
        self.guard.held()
    }

    /// Waits until one of the locks is lost, and returns which and why; never returns if none is lost.
    pub fn lost(&self) -> (Held, Lost) {
        self.threads.run(self.guard.lost())
    }

    /// Releases all the locks, and fails if one was lost before.
    ///
    /// # Errors
    ///
    /// As [`crate::MultiGuard::unlock`].
    pub fn unlock(self) -> Result<(), Error> {
        self.threads.run(self.guard.unlock())
    }
}

impl RedLock {
    /// The lock with this name on the servers of these clients.
    ///
    /// # Errors
    ///
    /// As [`crate::RedLock::new`].
    pub fn new<'a>(
        clients: impl IntoIterator<Item = &'a Client>,
        name: impl AsRef<[u8]>,
    ) -> Result<RedLock, Error> {
        let (clients, threads): (Vec<_>, Vec<_>) =
            clients.into_iter().map(|client| (client.inner(), client.thread.clone())).unzip();
        Ok(RedLock { lock: crate::RedLock::new(clients, name)?, threads: Threads::all(threads)? })
    }

    /// Sets a lease; see [`crate::RedLock::lease`].
    #[must_use]
    pub fn lease(self, lease: Duration) -> RedLock {
        RedLock { lock: self.lock.lease(lease), ..self }
    }

    /// Limits how long [`RedLock::lock`] waits.
    #[must_use]
    pub fn wait(self, wait: Duration) -> RedLock {
        RedLock { lock: self.lock.wait(wait), ..self }
    }

    /// Makes one attempt.
    ///
    /// # Errors
    ///
    /// As [`crate::RedLock::try_lock`].
    pub fn try_lock(&self) -> Result<Option<RedGuard>, Error> {
        let guard = self.threads.run(self.lock.try_lock())?;
        Ok(guard.map(|guard| self.guard(guard)))
    }

    /// Acquires the lock, trying without limit.
    ///
    /// # Errors
    ///
    /// As [`crate::RedLock::lock`].
    pub fn lock(&self) -> Result<RedGuard, Error> {
        self.threads.run(self.lock.lock()).map(|guard| self.guard(guard))
    }

    /// Acquires the lock, trying for at most `wait`.
    ///
    /// # Errors
    ///
    /// As [`crate::RedLock::lock_timeout`].
    pub fn lock_timeout(&self, wait: Duration) -> Result<RedGuard, Error> {
        self.threads.run(self.lock.lock_timeout(wait)).map(|guard| self.guard(guard))
    }

    /// Runs `work` under the lock, on the caller's thread, and releases the lock.
    ///
    /// Blocking work cannot be stopped from outside. Call `guard.check()?` before each step that needs the lock: it
    /// asks no server and costs next to nothing.
    ///
    /// `Ok` says that a quorum held the lock from the beginning of the work to its end. If the work panics, the lock
    /// is released as well.
    ///
    /// # Errors
    ///
    /// As [`RedLock::lock`], and [`Error::Lost`] if the lock was lost before the work ended, whatever the work
    /// returned.
    pub fn run<T>(&self, work: impl FnOnce(&RedGuard) -> T) -> Result<T, Error> {
        let guard = self.lock()?;
        let value = work(&guard);
        let RedGuard { guard, threads } = guard;
        threads.run(guard.end_work())?;
        Ok(value)
    }

    fn guard(&self, guard: crate::RedGuard) -> RedGuard {
        RedGuard { guard, threads: self.threads.clone() }
    }
}

impl RedGuard {
    /// A view of this hold, to move into the work.
    pub fn held(&self) -> RedHeld {
        self.guard.held()
    }

    /// Waits until the lock is lost, and returns the reason; never returns if it is not lost.
    pub fn lost(&self) -> Lost {
        self.threads.run(self.guard.lost())
    }

    /// Releases the lock, and fails if a quorum did not have it until now.
    ///
    /// # Errors
    ///
    /// As [`crate::RedGuard::unlock`].
    pub fn unlock(self) -> Result<(), Error> {
        self.threads.run(self.guard.unlock())
    }
}

impl Deref for MultiGuard {
    type Target = MultiHeld;

    fn deref(&self) -> &MultiHeld {
        &self.guard
    }
}

impl Deref for RedGuard {
    type Target = RedHeld;

    fn deref(&self) -> &RedHeld {
        &self.guard
    }
}
