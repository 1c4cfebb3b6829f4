//! Locks that are several, for code that is not async.

use std::time::Duration;

use super::lock::settings;
use super::thread::Thread;
use super::{Client, Guard, Lock};
use crate::error::Error;
use crate::kind::Kind;

/// Several locks, acquired together; see [`crate::MultiLock`].
pub type MultiLock = Lock<crate::MultiLock>;

/// Several locks, held together; see [`crate::MultiGuard`].
pub type MultiGuard = Guard<crate::MultiGuard>;

/// A lock on several independent servers; see [`crate::RedLock`].
pub type RedLock = Lock<crate::RedLock>;

/// A held red lock; see [`crate::RedGuard`].
pub type RedGuard = Guard<crate::RedGuard>;

impl MultiLock {
    /// All these locks as one.
    ///
    /// # Errors
    ///
    /// As [`crate::MultiLock::new`].
    pub fn new<K: Kind>(locks: impl IntoIterator<Item = Lock<crate::Lock<K>>>) -> Result<MultiLock, Error> {
        let (locks, threads): (Vec<_>, Vec<_>) = locks.into_iter().map(Lock::into_parts).unzip();
        Ok(Lock::on(Thread::all(threads)?, crate::MultiLock::new(locks)?))
    }

    settings!(wait(wait: Duration));

    /// The names of the locks, each lock once, in the order of waiting.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.inner().names()
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
            clients.into_iter().map(|client| (&client.client, client.thread.clone())).unzip();
        let lock = crate::RedLock::new(clients, name)?;
        Ok(Lock::on(Thread::all(threads)?, lock))
    }

    settings!(lease(lease: Duration) renew(renew: bool) wait(wait: Duration));

    /// The lock's name.
    pub fn name(&self) -> &[u8] {
        self.inner().name()
    }

    /// The number of servers that must have the lock.
    pub fn quorum(&self) -> usize {
        self.inner().quorum()
    }
}
