//! The servers: finding them, asking them, and asking for one lock by the client crate.

mod certificates;
mod diagnosis;
pub(crate) mod facts;
mod hindrance;
mod hot;
mod info;
mod link;
mod locks;
mod nodes;
pub(crate) mod primaries;
mod probe;
mod protocol;
mod reply;
mod sentinel;
pub(crate) mod servers;
mod target;
mod validity;
pub(crate) mod walk;

use std::time::Duration;

pub(crate) use certificates::{Certificates, content};
pub(crate) use diagnosis::explain;
pub(crate) use hindrance::{Hindrance, hindrance};
pub(crate) use hot::{HotLock, hot};
pub(crate) use info::{Holder, LockInfo, Waiter};
pub(crate) use link::{Link, Probe};
pub(crate) use locks::{Locks, Look, connect, runtime};
pub(crate) use reply::{fields, integer, text};
pub(crate) use target::{Place, Target};
pub(crate) use validity::certificate_left;

/// How long a command that looks or changes once may take, connecting included.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
