//! What is stored of it: docs/bench/scale/SERVER.json.

use serde::{Deserialize, Serialize};

use super::outcome::Figures;
use crate::results::Environment;
use crate::spread::Spread;

/// The version of this layout; a reader of another one refuses the file.
pub(crate) const SCHEMA: u32 = 2;

/// One run, and the simulation that it was the basis of.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scale {
    pub(crate) schema: u32,
    pub(crate) environment: Environment,
    pub(crate) measured: Measured,
    /// The simulation of the measured checks, in the same order.
    pub(crate) checks: Vec<Figures>,
    /// Nothing where these were too far from the measurements.
    pub(crate) fleet: Option<Simulated>,
    /// The locks on the primary of 16 that has most of them, to an equal share.
    pub(crate) fullest: f64,
}

/// What was measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Measured {
    pub(crate) memory: Vec<Filled>,
    pub(crate) traffic: Vec<Traffic>,
    pub(crate) piped: Vec<Piped>,
    pub(crate) single: Vec<Single>,
    pub(crate) contended: Vec<Contended>,
    /// With short pauses, and with long ones.
    pub(crate) paced: [Paced; 2],
    pub(crate) tied: Vec<Tied>,
    pub(crate) stops: Vec<Stop>,
    pub(crate) checks: Vec<Figures>,
}

/// The simulated fleet, with the measured costs.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Simulated {
    pub(crate) points: Vec<Point>,
    pub(crate) crashes: Vec<Crashes>,
    pub(crate) outages: Vec<OutageSeries>,
}

/// A server with many locks, or many waiters.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filled {
    pub(crate) what: String,
    pub(crate) count: usize,
    /// By how much `used_memory` and the process have grown.
    pub(crate) used_mb: f64,
    pub(crate) resident_mb: f64,
    pub(crate) bytes_each: f64,
    /// The longest PING of another client while they came, and in the seconds after.
    pub(crate) coming_ms: f64,
    pub(crate) after_ms: f64,
    /// The share of a core that the server takes in these seconds, in percent.
    pub(crate) idle_percent: f64,
}

/// What other commands cost on a server in this state.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Traffic {
    pub(crate) state: String,
    pub(crate) command: String,
    pub(crate) rounds: usize,
    /// Server CPU for a command, client and server on one core.
    pub(crate) cpu_us: Spread,
    /// To the same on the server without the module, in the same round.
    pub(crate) to_without: Spread,
}

/// Work that is sent 50 at a time on one connection.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Piped {
    pub(crate) work: String,
    pub(crate) rounds: usize,
    /// Server CPU for one of them.
    pub(crate) cpu_us: Spread,
}

/// Clients with one command under way each, and a lock of their own.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Single {
    pub(crate) connections: u32,
    /// Acquisitions and releases in a second; the load generator may be the limit.
    pub(crate) per_second: f64,
    /// Server CPU for an acquisition and its release.
    pub(crate) cpu_us: f64,
    /// How often the server sleeps, for each of them.
    pub(crate) sleeps: f64,
}

/// Clients that want few locks and hold them for no time: each acquisition is a hand-off.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contended {
    pub(crate) connections: u32,
    pub(crate) locks: u32,
    pub(crate) per_second: f64,
    pub(crate) cpu_us: f64,
    pub(crate) sleeps: f64,
}

/// Clients with pauses: the server often sleeps.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Paced {
    pub(crate) connections: u32,
    pub(crate) per_second: f64,
    pub(crate) cpu_us: f64,
    pub(crate) sleeps: f64,
    /// From an ACQUIRE to its reply.
    pub(crate) reply_us: f64,
}

/// Connections that do nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tied {
    pub(crate) what: String,
    pub(crate) connections: usize,
    /// Of `used_memory`.
    pub(crate) bytes_each: f64,
    /// The share of a core that the server takes, in percent.
    pub(crate) idle_percent: f64,
}

/// The time from a primary's kill -9 until its replica serves its locks.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stop {
    /// `cluster-node-timeout` or `down-after-milliseconds`.
    pub(crate) option: String,
    pub(crate) option_ms: u32,
    pub(crate) seconds: Vec<f64>,
}

/// A fleet at one load.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Point {
    pub(crate) line: String,
    pub(crate) asked_per_second: f64,
    pub(crate) figures: Figures,
}

/// A fleet whose processes crash.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Crashes {
    /// How long a dead holder's lock stays.
    pub(crate) stays_ms: u64,
    pub(crate) figures: Figures,
}

/// A fleet during a fail-over.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OutageSeries {
    pub(crate) primaries: u16,
    pub(crate) think_ms: u64,
    pub(crate) stop_ms: u64,
    /// Acquisitions in a second, for each tenth of a second, from one second before the end of the primary.
    pub(crate) per_second: Vec<f64>,
}
