//! The cost of a hand-off by ENQUEUE with few waiters and with many, as `make cost STORE=1` has counted it, of each server.

use serde::Deserialize;

/// Of one server.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Growth {
    pub(crate) server: String,
    pub(crate) commit: String,
    pub(crate) date: String,
    /// The fewest waiters first.
    pub(crate) counts: [Count; 2],
}

/// Of one hand-off.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Count {
    pub(crate) waiters: usize,
    pub(crate) instructions: f64,
    /// Reads and writes that missed the first cache of data.
    pub(crate) misses: f64,
}
