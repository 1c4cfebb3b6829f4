//! The limits that `make cost STORE=1` has counted, of each server.

use serde::Deserialize;

/// Of one server.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limits {
    pub(crate) server: String,
    pub(crate) commit: String,
    pub(crate) date: String,
    /// Commands in flight, for all but hand-offs.
    pub(crate) in_flight: usize,
    /// The number of waiters besides the holder, for hand-offs.
    pub(crate) waiters: usize,
    ways: Vec<Way>,
}

/// Instructions of the server for one of these.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Way {
    way: String,
    /// Those that no module can avoid.
    pub(crate) limit: f64,
    pub(crate) rlock: f64,
    /// Those of rlock's own code.
    pub(crate) own: f64,
}

impl Limits {
    pub(crate) fn way(&self, name: &str) -> Option<&Way> {
        self.ways.iter().find(|way| way.way == name)
    }
}
