//! The server: where it is, asking it, and reading what it says.

mod info;
mod link;
mod reply;
pub(crate) mod servers;
mod target;

use std::time::Duration;

pub(crate) use info::{Holder, LockInfo, Waiter};
pub(crate) use link::{Link, refusal};
pub(crate) use reply::{fields, integer, text};
pub(crate) use target::Target;

/// How long a command that looks or changes once may take, connecting included.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
