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

pub use graces::Graces;
pub use keeper::Link;
pub(crate) use keeper::{DEMOTED, Report};
pub use links::{Links, Pace};
pub use live::{Answered, Gathering, Live, NoAnswer, Order};
pub use redis::Login;
pub(crate) use redis::RedisConnector;
pub(crate) use sentinel::{SentinelConnector, Service, Template, in_url};
pub use transport::{BoxFuture, Connection, Connector, Dialled, Incoming, Reply};
