//! The decisions of rlock: given the state of one lock, a request and the time, what shall happen.
//!
//! No FFI, no I/O, no clock: the caller says what the key holds ([`LockState`]) and what time it is
//! ([`UnixMs`]), and gets a [`Decision`] back: the reply, and the [`Change`] to perform. Nothing here
//! writes, so every rule can be tested as a table of cases, and the same code decides in production.
//!
//! # Layout
//!
//! - [`types`]: the words of the field as types: owner, holds, lease, point in time.
//! - [`request`]: the arguments of each command, parsed.
//! - [`shape`]: which hashes are locks.
//! - [`decide`]: the rules.
//! - [`names`]: the names Redisson gives to what belongs to a lock.
//! - [`queue`]: who waits, in what order.
//! - [`message`]: what enqueued waiters are told.
//! - [`error`]: every way in which a command is refused.

pub mod decide;
pub mod error;
pub mod message;
pub mod names;
pub mod queue;
pub mod request;
pub mod shape;
pub mod types;

pub use decide::{Admission, Change, Decision, HashChange, LockEvent, Reply};
pub use error::Error;
pub use shape::LockState;
pub use types::{Expiry, Holds, LeaseMs, MonoMs, Owner, UnixMs, WaitMs};
