//! What is stored.

use serde::{Deserialize, Serialize};

use crate::results::Environment;
use crate::spread::Spread;

/// The cost of the clients for other languages, beside the libraries that are used there without the module.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Clients {
    /// They may be measured without the other benchmarks, and later.
    pub(crate) environment: Environment,
    pub(crate) rows: Vec<LibraryCosts>,
}

/// One library. `to_own`: the ratio to this project's client for the same language, in the same round.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LibraryCosts {
    pub(crate) library: String,
    pub(crate) rounds: usize,
    pub(crate) pair_rounds: usize,
    /// An acquire and a release, one after the other and without contention.
    pub(crate) pair_us: Spread,
    pub(crate) pair_to_own: Spread,
    /// The CPU of the library's process, and of the server.
    pub(crate) pair_cpu_us: Spread,
    pub(crate) pair_server_us: Spread,
    /// Commands that the server executed, those inside scripts too.
    pub(crate) pair_commands: Spread,
    /// From one process to another, the median of a round.
    pub(crate) hand_off_us: Spread,
    pub(crate) hand_off_to_own: Spread,
    /// The 99th percentile of all rounds together. Nothing where it was not measured, as for all that is optional here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hand_off_p99_us: Option<f64>,
    /// From the `kill -9` of a holder to the acquisition by a waiter in another process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) freed_ms: Option<Spread>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) footprint: Option<Footprint>,
    pub(crate) crowd: Crowd,
}

/// Many waiters of one lock in one process; each holds it once, for 1 to 2 ms.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Crowd {
    pub(crate) waiters: u64,
    /// For each of them, until the last has the lock.
    pub(crate) us: Spread,
    pub(crate) to_own: Spread,
    /// The longest that one waited after the first release, in all rounds.
    pub(crate) longest_ms: f64,
    /// The most later waiters that were served before one, in all rounds.
    pub(crate) overtaken: u64,
    /// The server's CPU, and its commands, for each of them.
    pub(crate) server_us: Spread,
    pub(crate) commands: Spread,
    /// From a release to the next acquisition: the median of a round, and the 99th percentile of all rounds together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hand_off_us: Option<Spread>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hand_off_p99_us: Option<f64>,
}

/// A new process of the library, after one acquire and release and with all waiters, and its files on the disk.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Footprint {
    pub(crate) idle: Resident,
    pub(crate) crowd: Resident,
    /// With its driver; of a Go program what it adds to the stripped binary.
    pub(crate) installed_bytes: u64,
}

/// The resident memory and the threads of a process.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resident {
    pub(crate) kib: u64,
    pub(crate) threads: u64,
}

impl Resident {
    pub(super) fn of(pid: u32) -> Resident {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process that lives");
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
            number.unwrap_or_else(|| panic!("no {name} in the status of a process"))
        };
        Resident { kib: number("VmRSS:"), threads: number("Threads:") }
    }
}
