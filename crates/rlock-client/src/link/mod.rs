//! A link: the one connection to a server, kept up.
//!
//! Commands and messages share one connection (RESP3). In a cluster, where servers end subscriptions unasked,
//! messages have a link of their own: see `live::is_unasked`.

mod graces;
mod keeper;
mod links;
mod live;
mod redis;
mod role;
mod sentinel;
mod transport;

pub(crate) use graces::Graces;
pub(crate) use keeper::{DEMOTED, Link, Report};
pub(crate) use links::{Links, Pace};
pub(crate) use live::{Live, NoAnswer, Order};
pub(crate) use redis::{Login, RedisConnector};
pub(crate) use sentinel::{SentinelConnector, Service, Template, in_url};
#[cfg(test)]
pub(crate) use transport::{BoxFuture, Dialled, Incoming, Reply};
pub(crate) use transport::{Connection, Connector};
