//! The decisions of rlock: from the state of one lock, a request and the time to a reply and a change.
//!
//! No FFI, no I/O, no clock. A rule takes a view of the lock ([`View`]) and the time ([`UnixMs`]), and returns a
//! [`Decision`]: the reply, and the [`Change`] to perform. Every rule can therefore be tested as a table of cases. The
//! steps around the rules (serve the queue first, hand off a freed lock, check again at lease end) ask the server
//! through the traits of [`port`]. The model checker and the fuzzer therefore run the code that runs in production.
//!
//! # Layout
//!
//! - [`limits`]: the largest values.
//! - [`types`]: the words of the field as types: owner, holds, lease, point in time.
//! - [`request`]: the arguments of each command, parsed.
//! - [`shape`]: which hashes are locks.
//! - [`slots`]: slots of a cluster that move as a whole.
//! - [`decision`]: the result of a rule.
//! - [`effects`]: the effects of a change on the lock's key, in their one order.
//! - [`view`]: the view of a lock, for every kind.
//! - [`rules`]: the rules of all locks.
//! - `look`: the picture that a rule decides on, and the commit of its change.
//! - [`read_leases`]: which readers of a read/write lock are alive.
//! - [`read_repair`]: native read leases that Redisson's renewals would shorten.
//! - [`names`]: Redisson's names for the keys and channels of a lock.
//! - [`locks`]: what memory knows of each lock: first of all its waiters, in their order.
//! - [`fair`]: one order for native waiters and Redisson's fair waiters.
//! - [`token`]: fencing tokens.
//! - [`node`]: a server, together with what memory knows of its locks.
//! - [`at`]: a lock, together with the node that it is on.
//! - [`port`]: the server as the steps see it.
//! - [`facts`]: facts about a lock that a server reports.
//! - [`settings`]: the configuration.
//! - [`note`]: what the statistics count.
//! - [`rare_warning`]: warnings that are not repeated with each command.
//! - [`commands`]: the steps of each command.
//! - [`yielding`]: yield windows for waiting Redisson clients.
//! - `after`: a view once a change is made.
//! - `turn`: what one command does to a lock, from the look to what others learn.
//! - `settling`: the begin of a turn.
//! - `access`: whether an owner could have a lock now.
//! - `first`: the first waiter, and whether it can have the lock.
//! - `serve`: the hand-off of a free lock to the first waiter.
//! - `closing`: the end of a turn.
//! - `tying`: what a call does to the tie of its owner.
//! - [`sessions`]: holds and waits that end with a connection.
//! - `permits_repair`: keys of locks with permits that outlast their permits.
//! - `revoking`: revoking a grant whose client disconnected before its reply.
//! - [`observed`]: what other clients and the server did to locks.
//! - [`hot_locks`]: the locks that cost most waiting.
//! - [`timer`]: the work outside commands.
//! - [`timing`]: when the timer is set, and how much one event-loop cycle does.
//! - [`weight`]: what work on long names counts.
//! - [`departures`]: leaving the queues without a grant.
//! - [`message`]: the messages to enqueued waiters.
//! - [`valkey`]: versions of Valkey, and what differs between them.
//! - [`error`]: every refusal of a command.

// Input reaches these lines: a panic in a module takes a database away.
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing),
    warn(clippy::arithmetic_side_effects, clippy::panic)
)]

mod access;
mod after;
pub mod at;
mod closing;
pub mod commands;
pub mod decision;
pub mod departures;
pub mod effects;
pub mod error;
pub mod facts;
pub mod fair;
mod first;
pub mod hot_locks;
pub mod limits;
pub mod locks;
mod look;
pub mod message;
pub mod names;
pub mod node;
pub mod note;
pub mod observed;
mod permits_repair;
pub mod port;
pub mod rare_warning;
pub mod read_leases;
pub mod read_repair;
pub mod request;
mod revoking;
pub mod rules;
mod serve;
pub mod sessions;
pub mod settings;
mod settling;
pub mod shape;
pub mod slots;
pub mod timer;
pub mod timing;
pub mod token;
mod turn;
mod tying;
pub mod types;
pub mod valkey;
pub mod view;
pub mod weight;
pub mod yielding;

pub use decision::{Admission, Change, Decision, KeyChange, LockEvent, ReadLeases, Reply, SharedChange};
pub use error::Error;
pub use shape::Fields;
pub use token::Token;
pub use types::{Expiry, Holds, LeaseMs, Mode, MonoMs, Owner, PermitLimit, UnixMs, WaitMs, Wanted};
pub use view::{Kind, View};
