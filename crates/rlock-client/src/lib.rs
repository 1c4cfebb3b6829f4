//! Distributed locks on Redis and Valkey servers with the rlock module.
//!
//! A lock has a name, and is held by at most one owner at a time, whichever process or machine that is in. Who
//! waits stands in a queue in the server and is told when it is its turn; nobody polls. Locks that are held are
//! renewed in the background until they are given back, and a process that crashes loses its locks at the end of
//! their leases.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), rlock_client::Error> {
//! # let server = rlock_testkit::TestServer::start();
//! # let url = &format!("redis://127.0.0.1:{}", server.port());
//! use rlock_client::Client;
//!
//! let client = Client::connect(url).await?; // one for the whole process
//! let guard = client.lock("invoice:7").lock().await?;
//! // … the work that nobody else does now …
//! guard.check()?; // before what cannot be undone: is the lock still ours?
//! // … and the end of it …
//! guard.unlock().await?; // or drop the guard
//! # client.shutdown(std::time::Duration::from_secs(5)).await
//! # }
//! ```
//!
//! # Acquiring
//!
//! [`Lock::try_lock`] asks once, [`Lock::lock`] waits, [`Lock::lock_timeout`] waits for so long at most. Each
//! acquisition has an owner of its own, so two tasks with clones of one [`Lock`] exclude each other. To enter a lock
//! that is held once more, use its guard ([`Guard::reenter`]) or name an owner ([`Lock::owner`]).
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
//! let guard = lock.try_lock().await?.expect("nobody else is here");
//! assert!(lock.try_lock().await?.is_none());
//! match lock.lock_timeout(Duration::from_millis(100)).await {
//!     Err(Error::Timeout { waited, .. }) => println!("gave up after {waited:?}"),
//!     other => panic!("{other:?}"),
//! }
//! let inner = guard.reenter().await?;
//! guard.unlock().await?;
//! assert!(lock.is_locked().await?); // as long as one guard is left
//! drop(inner);
//! # client.shutdown(Duration::from_secs(5)).await
//! # }
//! ```
//!
//! # Leases, and losing a lock
//!
//! On the server a lock is held until its lease ends. Without a lease of its own ([`Lock::lease`]) a lock has
//! that of the watchdog, 30 seconds unless [`Builder::watchdog_timeout`] says otherwise, and is renewed every third of
//! it. A renewal that fails is tried again until the lease has ended: that alone is no loss.
//!
//! A lock can be lost all the same: the server is out of reach for longer than the lease, somebody takes it away,
//! a fail-over forgets it, this process stands still. Then its [`State`] is [`State::Lost`], for good, and says why
//! ([`Lost`]). There are four ways to learn it:
//!
//! * [`Lock::run`] drops the work at its next `.await`;
//! * [`Held::check`] looks at the clock, without asking the server: use it before each step that cannot be undone;
//! * [`Held::lost`] waits for it, and [`Held::cancellation_token`] is a [`CancellationToken`] for work that takes one;
//! * [`Guard::unlock`] tells whether the lock was held until then.
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
//! let hasty = client.lock("report").lease(Duration::from_millis(200));
//! let work = hasty.run(|_| tokio::time::sleep(Duration::from_secs(60)));
//! assert!(matches!(work.await, Err(Error::Lost { why: Lost::Expired, .. })));
//! # client.shutdown(Duration::from_secs(5)).await
//! # }
//! ```
//!
//! The client's end of a lease is always before the server's: it counts from the moment at which the request was
//! sent, less 1 % and 2 ms for clocks that run at different speeds, and on Linux by a clock that goes on while the
//! machine is suspended. Yet no clock helps between `check()` and the next instruction: a process may be stopped right
//! there, and a virtual machine that is paused may not notice. Where two holders would do harm, let what the lock
//! protects refuse the late one, for instance by a version number that each write raises.
//!
//! # Giving back
//!
//! Dropping a guard does no I/O and needs no runtime; the release follows in the background, also when the server is out
//! of reach for a while. [`Guard::unlock`] waits for the answer, and [`Client::shutdown`] for those of all guards that
//! were dropped. A process that ends without it leaves the locks of the guards it has just dropped to their leases.
//!
//! Requests whose answers were lost are repeated so that nothing is held or released twice. Where it cannot be known
//! whether a lock was still held at its release the error is [`Error::OutcomeUnknown`].
//!
//! # If you know `tokio::sync::Mutex`
//!
//! | | `tokio::sync::Mutex` | here |
//! |---|---|---|
//! | what it protects | the data inside it | nothing by itself: a name on which all agree |
//! | the end of a hold | the guard's | the guard's, or **the lease's**: a lock can be [lost](Lost) under a living guard. [`check`](Held::check) before what cannot be undone, or let [`run`](Lock::run) drop the work |
//! | `lock().await` | never fails | is a `Result`: there is a server behind it. It waits while the server is out of reach; give it a limit ([`Lock::wait`]) if you do not want that |
//! | `try_lock()` | does not wait | asks the server, so it is async and may take a moment. `None` is "somebody else has it", an error is something else |
//! | fairness | first come, first served | the same, between all clients of the server; not for those who poll ([`Waiting::Polling`]), and after a restart or a fail-over of the server all queue anew |
//! | a panic while it is held | no poisoning | no poisoning: the guard is dropped and the lock released. What the work left half-done is yours to notice |
//! | a crash while it is held | is the end of the mutex too | the lock is free at the end of its lease, 30 s by default |
//! | dropping the guard | unlocks at once | unlocks **soon**: the release is sent in the background. Who needs it done awaits [`unlock`](Guard::unlock) |
//! | a guard across `.await` | fine, it is `Send` | fine, it is `Send` and `'static`, and may move to another thread or be dropped outside the runtime |
//! | a task that blocks its thread | the guard is held for longer | where no other thread runs the tasks, nothing is renewed meanwhile, and after two thirds of a lease the lock may be lost: use `spawn_blocking` for long computations |
//! | cancelling `lock()` | loses the place in the queue | the same; and a grant that was on its way is given back |
//! | locking twice in one task | a deadlock | the same, unless by [`reenter`](Guard::reenter) or a named [`owner`](Lock::owner): every acquisition is another owner, whatever task or thread asks |
//! | the guard gives access | `*guard` is the data | the guard derefs to [`Held`], a view to give to the work, which does not keep the lock |
//! | `blocking_lock()` | for code that is not async | the module [`blocking`] |
//! | the end of the program | nothing to do | [`Client::shutdown`], so that the locks are free now and not at the end of their leases |
//!
//! # Several locks, several servers
//!
#![doc = include_str!("kinds.md")]
//!
//! # Servers
//!
//! [`Client::connect`] lists the forms of URLs. The module must be loaded on every server that may become the primary;
//! one without it is told apart at once ([`Error::ModuleNotLoaded`]). A user needs the RLOCK commands, the locks' keys
//! and, where locks are waited for, `+subscribe` and the channels `rlock:grants:*`; without these, set
//! [`Waiting::Polling`]. By `+info` a [`RedLock`] notices that two addresses are one server. Sentinels that ask for
//! a password get it from the end of the URL. By default a lock is held when the primary says so, and a fail-over can lose it;
//! [`Durability`] makes that less likely, not impossible.
//!
//! # Seeing what it does
//!
//! [`Metrics`] is told of every acquisition with its wait, every release with its time, every loss. With `tracing` there
//! are spans `acquire`, `renew` and `release` (debug), and warnings about lost locks and connections.

mod acquire;
pub mod blocking;
mod builder;
mod client;
mod clock;
mod cluster;
mod command;
mod config;
mod durability;
mod endpoint;
mod error;
mod exchange;
mod guard;
mod hold;
mod info;
mod link;
mod lock;
mod message;
mod metrics;
mod multi;
mod red;
mod release;
mod router;
mod shared;
mod turns;
#[cfg(test)]
mod virtual_tests;
mod wait;
mod watchdog;

/// The README's examples, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use builder::Builder;
pub use client::Client;
pub use config::{Durability, Waiting};
pub use error::{Error, Lost};
pub use guard::{Guard, Held};
pub use hold::State;
pub use info::{Holder, Info, Waiter};
pub use lock::{Lock, ReadWriteLock};
pub use metrics::Metrics;
pub use multi::{MultiGuard, MultiHeld, MultiLock};
pub use red::{RedGuard, RedHeld, RedLock};
pub use tokio_util::sync::CancellationToken;
