//! Several locks of [`rlock_client`] as one.
//!
//! * [`lock_all`] acquires several locks together, on one server or several, without deadlocks;
//! * [`RedLock`] is one lock on most of several independent servers.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), rlock_client::Error> {
//! # let server = rlock_testkit::TestServer::start();
//! # let client = rlock_client::Client::connect(&format!("redis://127.0.0.1:{}", server.port())).await?;
//! use rlock_multi::lock_all;
//!
//! let guard = lock_all([client.lock("account:7"), client.lock("account:3")]).await?;
//! // … the transfer …
//! guard.check()?; // do you still hold both?
//! guard.release().await
//! # }
//! ```
//!
//! Both have the methods of a [`Lock`](rlock_client::Lock): `try_acquire`, `acquire`, `acquire_timeout`, `run`, `.await`; their guards
//! have those of a [`Guard`](rlock_client::Guard): `check`, `lost`, `held`, `release`.
//!
//! # What each one guarantees
//!
#![doc = include_str!("kinds.md")]
//!
//! # Events
//!
//! Each client reports what happens to its own locks ([`Builder::on_event`](rlock_client::Builder::on_event)), also during an
//! acquisition: a lock that is asked for and held by another owner is `Denied` before it is waited for, and locks that are released
//! again are `Acquired` and `Released`.
//!
//! # Code that is not async
//!
//! ```
//! # fn main() -> Result<(), rlock_client::Error> {
//! # let server = rlock_testkit::TestServer::start();
//! # let url = &format!("redis://127.0.0.1:{}", server.port());
//! use rlock_client::blocking::Client;
//! use rlock_multi::LockAll;
//!
//! let client = Client::connect(url)?;
//! let names = ["account:7", "account:3"];
//! let both = Client::combine([&client], |clients| {
//!     LockAll::new(clients.iter().flat_map(|client| names.map(|name| client.lock(name))))
//! })?;
//! let guard = both.acquire()?;
//! guard.check()?;
//! guard.release()
//! # }
//! ```

// As in rlock-client: a panic would take the application with it.
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing),
    warn(clippy::arithmetic_side_effects, clippy::panic)
)]

mod all;
mod red;

/// The README's examples, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use all::{AllGuard, AllHeld, LockAll, lock_all};
pub use red::{RedGuard, RedHeld, RedLock};

/// A lock's name, for people, as in the errors of rlock-client.
fn name(name: &[u8]) -> String {
    String::from_utf8_lossy(name).escape_debug().to_string()
}
