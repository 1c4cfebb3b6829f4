//! A link: the one connection to a server, kept up.
//!
//! Commands and messages share one connection (RESP3), so they arrive in the order in which the server sent
//! them, and whoever sees the connection up knows that what was subscribed on it is heard.

mod keeper;
mod redis;
mod sentinel;
mod transport;

pub(crate) use keeper::{Deliver, Link, Pace};
pub(crate) use redis::RedisConnector;
pub(crate) use sentinel::SentinelConnector;
pub(crate) use transport::Connector;
#[cfg(test)]
pub(crate) use transport::{BoxFuture, Connection, Event};
