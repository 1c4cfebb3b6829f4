//! What is stored, in docs/bench/systems.json.

use serde::{Deserialize, Serialize};

use crate::results::Environment;
use crate::spread::Spread;

/// The version of this layout; a reader of another one refuses the file.
pub(crate) const SCHEMA: u32 = 1;

/// One run. `to_rlock` is the ratio to rlock without persistence, in the same round.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Systems {
    pub(crate) schema: u32,
    pub(crate) environment: Environment,
    /// The time to write a block to the disk that all use, and to wait until it is there.
    pub(crate) fsync_us: Spread,
    pub(crate) versions: Vec<Version>,
    pub(crate) pairs: Vec<Pair>,
    /// Of those that renew by a command. Nothing where they were not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) renewals: Vec<Pair>,
    pub(crate) hand_offs: Vec<HandOff>,
    /// Nothing where they were not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) loads: Vec<Load>,
    pub(crate) recoveries: Vec<Recovery>,
    pub(crate) restarts: Vec<Restart>,
}

/// Of a system's server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Version {
    pub(crate) system: String,
    pub(crate) server: String,
}

/// An acquire and a release without contention, or a renewal, one after the other.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pair {
    pub(crate) system: String,
    pub(crate) rounds: usize,
    pub(crate) us: Spread,
    pub(crate) to_rlock: Spread,
    /// Of all processes of the system.
    pub(crate) server_us: Spread,
}

/// From just before a release until the next holder knows, the median of a round.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HandOff {
    pub(crate) system: String,
    pub(crate) waiters: usize,
    pub(crate) rounds: usize,
    pub(crate) us: Spread,
    pub(crate) to_rlock: Spread,
    /// Of all processes of the system, with what a releaser costs that waits again.
    pub(crate) server_us: Spread,
}

/// Many connections that acquire and release, each its own lock.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Load {
    pub(crate) system: String,
    pub(crate) connections: usize,
    pub(crate) rounds: usize,
    /// An acquire with its release counts once.
    pub(crate) per_second: Spread,
    pub(crate) to_rlock: Spread,
}

/// From the kill -9 of a holder until the waiter knows that it holds the lock.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recovery {
    pub(crate) system: String,
    pub(crate) rounds: usize,
    pub(crate) ms: Spread,
}

/// From the start of a server on what another one left that was killed, until it answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Restart {
    pub(crate) what: String,
    pub(crate) locks: usize,
    pub(crate) rounds: usize,
    pub(crate) ms: Spread,
    pub(crate) to_without_module: Spread,
}
