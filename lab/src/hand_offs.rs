//! The instructions of hand-offs that `make cost STORE=1` has counted, of each server.

use serde::{Deserialize, Serialize};

/// Of one server.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HandOffs {
    pub(crate) server: String,
    pub(crate) commit: String,
    pub(crate) date: String,
    /// The number of waiters besides the holder.
    pub(crate) waiters: usize,
    /// RPUSH to a client in BLPOP, and the next BLPOP of the former holder.
    pub(crate) blpop: f64,
    ways: Vec<Way>,
}

/// A release that grants the lock to the first waiter, and the next acquire of the former holder.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Way {
    way: String,
    /// To RPUSH and BLPOP.
    pub(crate) ratio: f64,
    pub(crate) instructions: f64,
    /// The number of times that the module opens the lock's key.
    pub(crate) key_opens: u64,
}

impl HandOffs {
    /// How the waiters wait.
    pub(crate) fn way(&self, name: &str) -> Option<&Way> {
        self.ways.iter().find(|way| way.way == name)
    }
}
