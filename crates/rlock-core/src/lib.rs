//! The decisions of rlock: given the state of one lock, a request and the time, what shall happen.
//!
//! No FFI, no I/O, no clock. A rule is told what the key holds ([`LockState`]) and what time it is
//! ([`UnixMs`]), and gives a [`Decision`] back: the reply, and the [`Change`] to perform, so that every rule
//! can be tested as a table of cases. The steps around the rules (serve the queue first, hand over what a
//! release frees, look again when a lease ends) ask the server through the traits of [`port`], so that the
//! model checker and the fuzzer run the very code that runs in production.
//!
//! # Layout
//!
//! - [`types`]: the words of the field as types: owner, holds, lease, point in time.
//! - [`request`]: the arguments of each command, parsed.
//! - [`shape`]: which hashes are locks.
//! - [`decision`]: what a rule says is to happen.
//! - [`decide`]: the rules of the plain lock.
//! - [`read_write`]: the rules of the read/write lock.
//! - [`living`]: which of its readers are alive.
//! - [`names`]: the names Redisson gives to what belongs to a lock.
//! - [`queue`]: who waits, in what order.
//! - [`fair`]: one order with those who wait for Redisson's fair lock.
//! - [`token`]: fencing tokens.
//! - [`port`]: what the steps ask of the server they run in.
//! - [`call`]: the steps of each command.
//! - [`foreign`]: turns for those who wait by Redisson's protocol.
//! - `serve`: handing a lock that is free to the one who waits first.
//! - [`timer`]: what is done outside commands, and when.
//! - [`leave`]: leaving the queues without a grant.
//! - [`message`]: what enqueued waiters are told.
//! - [`error`]: every way in which a command is refused.
//! - [`bugs`]: bugs to plant, for the proof that they would be found.

pub mod bugs;
pub mod call;
pub mod decide;
pub mod decision;
pub mod error;
pub mod fair;
pub mod foreign;
pub mod leave;
pub mod living;
pub mod message;
pub mod names;
pub mod port;
pub mod queue;
pub mod read_write;
pub mod request;
mod serve;
pub mod shape;
pub mod timer;
pub mod token;
pub mod types;

pub use decision::{Admission, Change, Decision, HashChange, LockEvent, ReadLeases, Reply};
pub use error::Error;
pub use shape::LockState;
pub use token::Token;
pub use types::{Expiry, Holds, LeaseMs, Mode, MonoMs, Owner, UnixMs, WaitMs};
