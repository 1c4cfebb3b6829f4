//! Distributed locks on Redis and Valkey servers with the rlock module.

mod acquire;
pub mod blocking;
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

pub use client::{Builder, Client};
pub use config::{Durability, Waiting};
pub use error::{Error, Lost};
pub use guard::{Guard, Held};
pub use hold::State;
pub use info::{Holder, Info, Waiter};
pub use lock::Lock;
pub use metrics::Metrics;
pub use multi::{MultiGuard, MultiHeld, MultiLock};
pub use red::{RedGuard, RedHeld, RedLock};
pub use tokio_util::sync::CancellationToken;
