//! The stored results: one JSON file in docs/bench for each server.

use serde::{Deserialize, Serialize};

use crate::clients::Clients;
use crate::redisson::Redissons;
use crate::spread::Spread;

/// The version of this layout. Results of version 1 are shown as well: they have other contenders in place of the releases of
/// Redisson.
pub(crate) const SCHEMA: u32 = 2;

/// One run of all benchmarks on one server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Results {
    pub(crate) schema: u32,
    pub(crate) environment: Environment,
    pub(crate) uncontended: Vec<Uncontended>,
    pub(crate) contention: Vec<Contention>,
    pub(crate) memory: Vec<Memory>,
    /// Nothing where they were not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) readers: Vec<Readers>,
    /// Nothing where the client was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client: Option<Client>,
    /// Nothing where they were not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) clients: Option<Clients>,
    /// Nothing where it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) redisson: Option<Redissons>,
    /// Nothing where they were not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stalls: Option<Stalls>,
}

/// Where, when and how it was measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Environment {
    /// Name and version, such as `Redis 7.0.15`.
    pub(crate) server: String,
    /// The processor's model.
    pub(crate) cpu: String,
    /// How many cores there are.
    pub(crate) cores: usize,
    /// The kernel's name and release.
    pub(crate) kernel: String,
    /// The commit that was measured, and whether the work tree differed.
    pub(crate) commit: String,
    /// When it was begun, UTC.
    pub(crate) date: String,
    /// What the random order came from.
    pub(crate) seed: u64,
    /// The one-minute load average before and after.
    pub(crate) load: [f64; 2],
    /// How long it took.
    pub(crate) seconds: u64,
}

/// One setting and depth: what an acquire and release cost each contender.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Uncontended {
    pub(crate) setting: String,
    pub(crate) placement: String,
    pub(crate) depth: usize,
    pub(crate) rounds: usize,
    pub(crate) costs: Vec<Cost>,
}

/// Of one contender.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cost {
    pub(crate) contender: String,
    /// Server CPU for an acquire and a release.
    pub(crate) cpu_us: Spread,
    /// The same as ratios, each of two neighbours in one round.
    pub(crate) ratios: Vec<Ratio>,
}

/// A ratio of two costs.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ratio {
    pub(crate) to: String,
    pub(crate) ratio: Spread,
}

impl Results {
    /// The costs in a setting.
    pub(crate) fn uncontended(&self, setting: &str, placement: &str, depth: usize) -> Option<&Uncontended> {
        let is_it =
            |one: &&Uncontended| one.setting == setting && one.placement == placement && one.depth == depth;
        self.uncontended.iter().find(is_it)
    }

    /// All sizes of a protocol, in ascending order.
    pub(crate) fn protocol(&self, protocol: &str) -> Vec<&Contention> {
        self.contention.iter().filter(|one| one.protocol == protocol).collect()
    }
}

impl Uncontended {
    /// The cost of a contender.
    pub(crate) fn cost(&self, contender: &str) -> Option<&Cost> {
        self.costs.iter().find(|cost| cost.contender == contender)
    }
}

impl Cost {
    /// Its ratio to another contender.
    pub(crate) fn to(&self, base: &str) -> Option<Spread> {
        self.ratios.iter().find(|ratio| ratio.to == base).map(|ratio| ratio.ratio)
    }
}

/// One protocol with one number of waiters on one lock.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contention {
    pub(crate) protocol: String,
    pub(crate) waiters: usize,
    pub(crate) rounds: usize,
    /// Hand-offs in all rounds.
    pub(crate) hand_offs: usize,
    /// Hand-offs per second, client and server on two cores.
    pub(crate) per_second: Spread,
    /// Commands that the clients sent, per hand-off.
    pub(crate) commands: Spread,
    /// Commands that the server executed, those inside scripts too, per hand-off.
    pub(crate) executed: Spread,
    /// Server CPU per hand-off, client and server on one core.
    pub(crate) cpu_us: Spread,
    pub(crate) latency: Latency,
    /// The median latency of a round to that of PUBLISH in the same round.
    pub(crate) latency_to_publish: Spread,
    /// Server CPU per hand-off on one core, without a hold time: nothing sleeps.
    pub(crate) busy_cpu_us: Option<Spread>,
    /// The median latency to that of PUBLISH, under the same conditions.
    pub(crate) busy_latency_to_publish: Option<Spread>,
    /// Of one waiter in one round: the fewest, the mean and the most, medians of all rounds.
    pub(crate) grants: [f64; 3],
}

/// From the sending of the release to the next holder's knowledge, in µs, of all rounds
/// together, client and server on two cores.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
}

/// The memory that one of many takes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Memory {
    pub(crate) what: String,
    pub(crate) count: usize,
    pub(crate) rounds: usize,
    pub(crate) bytes: Spread,
}

/// The cost for a reader to join and leave a lock that has many readers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Readers {
    pub(crate) way: String,
    pub(crate) readers: usize,
    pub(crate) rounds: usize,
    /// Server CPU for an acquire and a release.
    pub(crate) cpu_us: Spread,
    /// To the same with the fewest readers.
    pub(crate) to_fewest: Spread,
}

/// The cost to other clients when many waiters end at one moment.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stalls {
    /// They may be measured without the other benchmarks, and later.
    pub(crate) environment: Environment,
    pub(crate) rows: Vec<Stall>,
}

/// One scenario with one number of waiters.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stall {
    pub(crate) scenario: String,
    /// Whether names are as long as they may be.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) long_names: bool,
    pub(crate) waiters: usize,
    pub(crate) rounds: usize,
    /// Until the last of them has ended.
    pub(crate) total_ms: Spread,
    /// The longest that a PING of another client took, in all rounds.
    pub(crate) longest_ping_ms: f64,
}

/// The cost of the Rust client, beside the raw commands by the same driver and other crates.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Client {
    /// It may be measured without the other benchmarks, and later.
    pub(crate) environment: Environment,
    pub(crate) pairs: Vec<Pairs>,
    pub(crate) hand_offs: Vec<HandOff>,
    pub(crate) contended: Vec<Contended>,
    /// Nothing where no other commit was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<Before>,
    pub(crate) renewal: Renewal,
}

/// The client beside that of another commit, each with its own module.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Before {
    pub(crate) commit: String,
    pub(crate) rows: Vec<Compared>,
}

/// The time of [`Contended`] in both.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Compared {
    /// Besides the holder.
    pub(crate) waiters: usize,
    /// How long each holds the lock at least.
    pub(crate) hold_ms: u64,
    pub(crate) rounds: usize,
    /// The median of a round of the other commit.
    pub(crate) before_us: Spread,
    /// The median of a round.
    pub(crate) us: Spread,
    /// Relative to the other commit in the same round.
    pub(crate) ratio: Spread,
}

/// The cost of an acquire and a release to a contender, one after the other and without contention.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pairs {
    pub(crate) contender: String,
    pub(crate) placement: String,
    pub(crate) rounds: usize,
    pub(crate) wall_us: Spread,
    /// Relative to the raw commands in the same round.
    pub(crate) wall_to_raw: Spread,
    /// The contender's own CPU.
    pub(crate) cpu_us: Spread,
    pub(crate) cpu_to_raw: Spread,
    /// Commands that the server received, for a pair.
    pub(crate) commands: f64,
}

/// From the moment before the release is sent to that at which the next holder, another process, has its guard.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HandOff {
    pub(crate) contender: String,
    pub(crate) rounds: usize,
    pub(crate) us: Spread,
    /// Relative to the raw commands in the same round.
    pub(crate) to_raw: Spread,
}

/// The same time where many processes want one lock, and each holder asks for it again at once.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contended {
    pub(crate) contender: String,
    /// Besides the holder.
    pub(crate) waiters: usize,
    /// How long each holds the lock at least.
    pub(crate) hold_ms: u64,
    pub(crate) rounds: usize,
    /// The median of a round.
    pub(crate) us: Spread,
    /// Relative to the raw commands in the same round.
    pub(crate) to_raw: Spread,
    /// Of all rounds together.
    pub(crate) p99_us: f64,
    /// Acquisitions.
    pub(crate) per_second: Spread,
}

/// The cost to a client of keeping many locks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Renewal {
    pub(crate) locks: u64,
    pub(crate) rounds: usize,
    /// The share of a core that the whole process takes.
    pub(crate) percent: Spread,
    /// The same share for a client that holds nothing.
    pub(crate) idle_percent: f64,
}

impl Client {
    /// What a contender's pairs cost.
    pub(crate) fn pairs(&self, contender: &str, placement: &str) -> Option<&Pairs> {
        self.pairs.iter().find(|one| one.contender == contender && one.placement == placement)
    }

    /// What a contender's hand-offs take.
    pub(crate) fn hand_off(&self, contender: &str) -> Option<&HandOff> {
        self.hand_offs.iter().find(|one| one.contender == contender)
    }
}
