//! The blocking interface, for code that is not async: each type and method of the crate, without `.await`.
//!
//! A client renews and releases its locks on its own thread. The thread ends when the last handle and guard are
//! gone and the releases are done. The methods block: call none of them from async code, which has
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
//! let guard = client.lock("invoice:7").lease(Duration::from_secs(60)).acquire()?;
//! guard.check()?;
//! guard.release()?;
//! client.close(Duration::from_secs(5))
//! # }
//! ```

mod lock;
mod thread;

use std::time::Duration;

use crate::Builder;
use crate::error::Error;
use crate::lockable::Lockable;
pub use lock::{Guard, Lock, ReadWriteLock};
use thread::Thread;

/// A client; see [`crate::Client`].
#[derive(Clone, Debug)]
pub struct Client {
    // In each of these types before the thread: the thread ends after the last of what runs on it.
    client: crate::Client,
    thread: Thread,
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

    /// Connects to the server of a client of the driver, with its settings; see [`Builder::connect_like`].
    ///
    /// # Errors
    ///
    /// As [`Builder::connect_like`]; [`Error::Invalid`] if no thread can be started.
    pub fn connect_like_with(builder: Builder, driver: &redis::Client) -> Result<Client, Error> {
        Client::start(builder.connect_like(driver))
    }

    fn start(client: impl Future<Output = Result<crate::Client, Error>>) -> Result<Client, Error> {
        let thread = Thread::start().map_err(|error| {
            Error::invalid(format!(
                "cannot start the client's thread: {error}; raise the limits on threads or open files"
            ))
        })?;
        let client = thread.run(client)?;
        Ok(Client { client, thread })
    }

    /// The lock with this name; see [`crate::Client::lock`].
    pub fn lock(&self, name: impl AsRef<[u8]>) -> Lock {
        Lock::on(self.thread.clone(), self.client.lock(name))
    }

    /// The read/write lock with this name; see [`crate::Client::read_write_lock`].
    pub fn read_write_lock(&self, name: impl AsRef<[u8]>) -> ReadWriteLock {
        ReadWriteLock::new(self.client.read_write_lock(name), self.thread.clone())
    }

    /// The semaphore with this name; see [`crate::Client::semaphore`].
    pub fn semaphore(&self, name: impl AsRef<[u8]>, permits: u32) -> Lock<crate::Lock<crate::Permit>> {
        Lock::on(self.thread.clone(), self.client.semaphore(name, permits))
    }

    /// Makes one lock out of locks of several clients, with all settings of the async lock that `make` returns.
    ///
    /// `client.lock("a")` is `Client::combine([&client], |clients| Ok(clients[0].lock("a")))`; the crate `rlock-multi` has locks that
    /// need several clients.
    ///
    /// # Errors
    ///
    /// Those of `make`; [`Error::Invalid`] if there is no client.
    pub fn combine<'a, L: Lockable>(
        clients: impl IntoIterator<Item = &'a Client>,
        make: impl FnOnce(&[&'a crate::Client]) -> Result<L, Error>,
    ) -> Result<Lock<L>, Error> {
        let (clients, threads): (Vec<_>, Vec<_>) =
            clients.into_iter().map(|client| (&client.client, client.thread.clone())).unzip();
        Ok(Lock::on(Thread::all(threads)?, make(&clients)?))
    }

    /// The beginning of each owner of this client's locks; see [`crate::Client::identity`].
    pub fn identity(&self) -> &str {
        self.client.identity()
    }

    /// Ends the client; sends releases for at most `within`.
    ///
    /// # Errors
    ///
    /// As [`crate::Client::close`].
    pub fn close(self, within: Duration) -> Result<(), Error> {
        self.thread.run(self.client.close(within))
    }
}
