//! Distributed locks on Redis and Valkey servers with the rlock module.
//!
//! A lock has a name, and at most one owner holds it at a time, on any process or machine. Waiters stand in a queue
//! in the server and get a message at their turn, without polling. Held locks are renewed in the background until you
//! release them. If a process crashes, its locks are free at lease end, or sooner with a [session](Lock::session_grace).
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), rlock_client::Error> {
//! # let server = rlock_testkit::TestServer::start();
//! # let url = &format!("redis://127.0.0.1:{}", server.port());
//! use rlock_client::Client;
//!
//! let client = Client::connect(url).await?; // one for the whole process
//! let guard = client.lock("invoice:7").await?;
//! // … work that no other owner may do now …
//! guard.check()?; // before a step that must not happen twice: do you still hold the lock?
//! // … and the rest of it …
//! guard.release().await?; // or drop the guard
//! # client.close(std::time::Duration::from_secs(5)).await
//! # }
//! ```
//!
//! For `#[tokio::main]`, your project needs tokio with two features: `cargo add tokio --features macros,rt-multi-thread`. A `main` that
//! returns an [`Error`] prints its cause and advice.
//!
//! # Acquiring
//!
//! [`Lock::acquire`] waits (`client.lock("a").await` is the same), [`Lock::try_acquire`] asks once,
//! [`Lock::acquire_timeout`] waits for a limited time. Each acquisition has its own owner, so two tasks with clones of one [`Lock`] exclude each other. To re-enter a held
//! lock, use its guard ([`Guard::reenter`]) or name an owner ([`Lock::owner`]).
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), rlock_client::Error> {
//! # let server = rlock_testkit::TestServer::start();
//! # let client = rlock_client::Client::connect(&format!("redis://127.0.0.1:{}", server.port())).await?;
//! use std::time::Duration;
//! use rlock_client::Error;
//!
//! let lock = client.lock("invoice:7");
//! let guard = lock.try_acquire().await?;
//! assert!(matches!(lock.try_acquire().await, Err(Error::Denied { .. })));
//! match lock.acquire_timeout(Duration::from_millis(100)).await {
//!     Err(Error::Timeout { waited, .. }) => println!("gave up after {waited:?}"),
//!     other => panic!("{other:?}"),
//! }
//! let inner = guard.reenter().await?;
//! guard.release().await?;
//! assert!(lock.locked().await?); // as long as one guard is left
//! drop(inner);
//! # client.close(Duration::from_secs(5)).await
//! # }
//! ```
//!
//! # Leases and lost locks
//!
//! On the server, a lock is held until lease end, and it is renewed every third of its lease. The lease is 30 seconds
//! unless you set it, for a lock ([`Lock::lease`]) or for the client ([`Builder::lease`]). A failed renewal is retried
//! until lease end: it alone loses nothing. With [`Lock::renew`]`(false)`, the lock ends with its lease.
//!
//! A lock can still be lost: the server is out of reach for longer than two thirds of the lease, an operator takes the lock away, a
//! fail-over forgets it, or this process is paused. Its [`State`] is [`State::Lost`] from that time on, with the
//! reason ([`Lost`]). There are four ways to notice it:
//!
//! * [`Lock::run`] drops the work at its next `.await`;
//! * [`Held::check`] compares the clock, without asking the server: use it before each step that must not happen twice;
//! * [`Held::lost`] waits for the loss, and [`Held::cancellation_token`] is a [`CancellationToken`] for work that
//!   takes one;
//! * [`Guard::release`] fails if the lock was lost before.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), rlock_client::Error> {
//! # let server = rlock_testkit::TestServer::start();
//! # let client = rlock_client::Client::connect(&format!("redis://127.0.0.1:{}", server.port())).await?;
//! use std::time::Duration;
//! use rlock_client::{Error, Lost};
//!
//! let report = client.lock("report").run(|held| async move {
//!     held.check()?;
//!     Ok::<_, Error>("all is well")
//! });
//! assert_eq!(report.await??, "all is well");
//!
//! let hasty = client.lock("report").lease(Duration::from_millis(200)).renew(false);
//! let work = hasty.run(|_| tokio::time::sleep(Duration::from_secs(60)));
//! assert!(matches!(work.await, Err(Error::LockLost { why: Lost::Expired, .. })));
//! # client.close(Duration::from_secs(5)).await
//! # }
//! ```
//!
//! After a wait, the server's message grants the lock for up to five seconds at first. The renewal that follows gives it the
//! whole lease ([`Lock::whole_lease`] waits for that renewal).
//!
//! In the client, a lease always ends earlier than in the server. It counts from the time when the request was sent,
//! less 1 % and 2 ms for clocks of different speed, and on Linux by a clock that also counts suspended time. Yet no
//! clock helps between `check()` and the next instruction: a process can be stopped right there, and a paused virtual
//! machine may not notice. If two holders would do harm, let the protected resource refuse the late one, for instance
//! by a [fencing token](Lock::fenced) or a version number that each write raises.
//!
//! # Releasing
//!
//! Dropping a guard does no I/O and needs no runtime; the release follows in the background, even if the server is
//! out of reach for a while. [`Guard::release`] waits for the reply, and [`Client::close`] for those of all dropped
//! guards. If a process ends without `close`, the locks of guards dropped just before can stay held until lease
//! end.
//!
//! Requests with a lost reply are repeated, without holding or releasing twice. If a release cannot know whether the
//! lock was still held, it returns [`Error::OutcomeUnknown`].
//!
//! # If you know `tokio::sync::Mutex`
//!
//! | | `tokio::sync::Mutex` | here |
//! |---|---|---|
//! | what it protects | the data inside it | nothing by itself: a name that all clients agree on |
//! | the end of a hold | the guard's | the guard's, or **the lease's**: a lock can be [lost](Lost) under a living guard. Call [`check`](Held::check) before a step that must not happen twice, or let [`run`](Lock::run) drop the work |
//! | `lock().await` | never fails | `acquire().await` returns a `Result`, because it asks a server. It waits while the server is out of reach; set a limit ([`Lock::wait`]) if you do not want that |
//! | `try_lock()` | does not wait | [`try_acquire`](Lock::try_acquire) asks the server, so it is async and takes a moment. [`Error::Denied`] means that another owner holds the lock; other errors say more |
//! | fairness | first come, first served | the same, between all clients of the server. Not with polling ([`Waiting::Polling`]), and after a restart or fail-over of the server all waiters queue anew |
//! | a panic while it is held | no poisoning | no poisoning: the guard is dropped and the lock released. Your code must detect half-done work |
//! | a crash while it is held | ends the mutex too | the lock is free at lease end, 30 s by default; with a [session](Lock::session_grace) sooner |
//! | dropping the guard | unlocks at once | unlocks **soon**: the release is sent in the background. To be sure, await [`release`](Guard::release) |
//! | a guard across `.await` | fine, it is `Send` | fine, it is `Send` and `'static`, and may move to another thread or be dropped outside the runtime |
//! | a task that blocks its thread | the guard is held for longer | if no other thread runs the tasks, renewal stops, and the lock may be lost after two thirds of a lease: use `spawn_blocking` for long computations |
//! | cancelling the wait | loses the place in the queue | the same; a grant that was on its way is released |
//! | locking twice in one task | a deadlock | the same, except with [`reenter`](Guard::reenter) or a named [`owner`](Lock::owner): every acquisition is another owner, whatever task or thread asks |
//! | the guard gives access | `*guard` is the data | the guard derefs to [`Held`], a view for the work that does not keep the lock held |
//! | `blocking_lock()` | for code that is not async | the module [`blocking`] |
//! | the end of the program | nothing to do | [`Client::close`], to free the locks now and not at lease end |
//!
//! # Kinds of locks
//!
#![doc = include_str!("kinds.md")]
//!
//! # Servers
//!
//! [`Client::connect`] lists the forms of URLs. Every server that can become primary must have the module; the client
//! detects a server without it at once ([`Error::ModuleMissing`]). A user needs the RLOCK commands, the locks' keys
//! and, to wait for locks, `+subscribe` and the channels `rlock:grants:*`; without these, set [`Waiting::Polling`].
//! The end of the URL holds the password for
//! Sentinels that ask for one. By default a lock is held when the primary says so, and a fail-over can lose it;
//! [`Durability`] makes that less likely, not impossible.
//!
//! # Metrics and traces
//!
//! [`Builder::on_event`] receives every [`Event`]: acquisitions with their waits, denials, time-outs, releases,
//! renewals, losses, and lost and restored connections. With `tracing` there are spans `acquire`, `renew` and `release`
//! (debug), and warnings about lost locks and about connections that are lost and restored.

// A server's reply or a user's argument reaches these lines: a panic would take the application with it.
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing),
    warn(clippy::arithmetic_side_effects, clippy::panic)
)]

mod acquisition;
pub mod blocking;
mod builder;
mod client;
mod combined;
mod command;
mod config;
mod durability;
mod error;
#[cfg(test)]
mod error_tests;
mod events;
mod guard;
mod handle;
mod identity;
mod info;
mod kind;
mod lock;
pub mod lockable;
mod message;
mod shared;
#[cfg(test)]
mod virtual_tests;

/// The README's examples, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// A lock that is made and not acquired is a mistake, which the compiler names.
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// fn forgets_to_acquire(client: rlock_client::Client) {
///     client.lock("a").wait(std::time::Duration::from_secs(1));
/// }
/// ```
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// fn forgets_to_acquire(client: rlock_client::blocking::Client) {
///     client.lock("a");
/// }
/// ```
#[cfg(doctest)]
struct Unused;

/// The example of the project's README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ProjectReadme;

pub use acquisition::State;
pub use builder::Builder;
pub use client::Client;
pub use config::{Durability, Waiting};
pub use error::{Error, Lost};
pub use events::Event;
pub use guard::{Detached, Guard, Held};
pub use info::{Holder, Info, Waiter};
pub use kind::{Any, Exclusive, Kind, Permit, Plain, Read, Write};
pub use lock::{Lock, ReadWriteLock};
#[doc(inline)]
pub use rlock_links::Cause;
pub use tokio_util::sync::CancellationToken;
