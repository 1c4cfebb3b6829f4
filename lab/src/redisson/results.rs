//! What is stored.

use serde::{Deserialize, Serialize};

use crate::results::Environment;
use crate::spread::Spread;

/// What releases of Redisson cost, beside this project's client for Java.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Redissons {
    /// They may be measured without the other benchmarks, and later.
    pub(crate) environment: Environment,
    pub(crate) pairs: Vec<Pairs>,
    pub(crate) fields: Vec<Field>,
}

/// An acquire and a release, one after the other and without contention. `to_own`: the ratio to this project's client, in
/// the same round.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pairs {
    pub(crate) library: String,
    pub(crate) rounds: usize,
    pub(crate) us: Spread,
    pub(crate) to_own: Spread,
    pub(crate) server_us: Spread,
    pub(crate) server_to_own: Spread,
    pub(crate) client_us: Spread,
    pub(crate) client_to_own: Spread,
    /// Commands that the server executed, those inside scripts too.
    pub(crate) commands: Spread,
}

/// Hand-offs of one lock among waiters.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Field {
    pub(crate) library: String,
    /// How many have connections of their own.
    pub(crate) processes: usize,
    /// Of each of them.
    pub(crate) threads: usize,
    pub(crate) hold_ms: u64,
    pub(crate) rounds: usize,
    /// From the moment before a release to the next holder, the median of a round.
    pub(crate) us: Spread,
    pub(crate) to_own: Spread,
    pub(crate) server_us: Spread,
    pub(crate) server_to_own: Spread,
    pub(crate) client_us: Spread,
    pub(crate) client_to_own: Spread,
    pub(crate) commands: Spread,
    /// How many of a hundred hand-offs went to the last holder again.
    pub(crate) again_percent: Spread,
    pub(crate) per_second: Spread,
}
