//! The connections that a client keeps to a server, to the primary that Sentinels name, or to the nodes of a cluster.
//!
//! The crate `rlock-client` stands on this one. It is published for that crate alone, and its interface may change in any version.
//!
//! An [`Endpoint`] is what a URL names. [`Endpoint::route`] starts the links and returns a [`Router`], which finds the [`Node`] that has
//! a key. A node has links for commands, for messages and for WAIT ([`Line`]): each is one connection, made again when it breaks. A
//! [`Watch`] receives what happens on them. [`Node::order`] sends commands in the order of the calls; [`Router::request`] waits for the
//! answer, and follows a slot that moves. [`Connector`] and [`Connection`] are public for the tests of rlock-client, which replace the
//! server.

// A server's reply or a user's argument reaches these lines: a panic would take the application with it.
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing),
    warn(clippy::arithmetic_side_effects, clippy::panic)
)]

/// The target of log lines: users filter by the crate that they know.
const LOG: &str = "rlock_client";

mod clock;
mod cluster;
mod connection_name;
mod endpoint;
mod error;
mod link;
mod node;
mod refusal;
mod request;
mod router;
mod server_url;

pub use clock::{Clock, Instant};
pub use cluster::{Next, slot_of};
pub use connection_name::connection_name;
pub use endpoint::Endpoint;
pub use error::{Cause, Error};
pub use link::{
    Answered, BoxFuture, Connection, Connector, Dialled, Gathering, Graces, Incoming, Link, Links, Live,
    Login, NoAnswer, Order, Pace, Reply,
};
pub use node::{Line, Node, Watch};
pub use refusal::{Refusal, answer};
pub use request::Failed;
pub use router::Router;
pub use server_url::{ServerKind, ServerUrl};
