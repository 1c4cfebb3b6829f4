//! The fleet of the page: 100,000 processes, 1,000,000 locks, and the primaries of a cluster.

use super::Effort;
use super::results::{Crashes, Measured, OutageSeries, Point, Simulated};
use super::sim::{Costs, Outage, Simulation};
use super::workload::{Gathered, Popularity, Profile, Shared};
use crate::spread::rounded;

const MS: u64 = 1_000_000;

/// From a process to a primary, on a network of one data centre.
pub(crate) const HOP_NS: u64 = 100_000;

/// How long a lock is held, in the mean.
pub(crate) const HOLD_NS: u64 = 2 * MS;

/// How popular the locks are: the lock of rank n in proportion to n to the power of minus this.
pub(crate) const SKEW: f64 = 0.5;
pub(crate) const STEEP: f64 = 1.0;

/// The lock that all want: its share of all acquisitions.
pub(crate) const SHARE: f64 = 0.02;
/// The names into which it is divided.
pub(crate) const NAMES: u32 = 16;

/// For each process: acquisitions in a second.
const RATES: [f64; 5] = [0.1, 0.3, 1.0, 3.0, 10.0];

/// In the simulation of crashes, one of this number of holders crashes.
pub(crate) const HOLDS_PER_CRASH: f64 = 10_000.0;
/// The rate of each process in the simulations of crashes and fail-overs.
pub(crate) const RATE: f64 = 1.0;
/// The lease, and the grace period of a session.
const STAYS_MS: [u64; 2] = [30_000, 1_000];

/// The pauses of the processes during a fail-over, in ms.
const OUTAGE_THINK_MS: [u64; 2] = [1_000, 10_000];
/// Clients that lost their primary try again within this time.
pub(crate) const RETRY_MS: u64 = 500;
/// What is shown after the fail-over.
const AFTERWARDS_MS: u64 = 4_000;

/// When a fleet has settled, and how long it is watched.
const SETTLED_NS: u64 = 3_000 * MS;
const SPAN_NS: u64 = 2_000 * MS;

/// A line of the plot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    primaries: u16,
    skew: f64,
    shared: Option<Shared>,
}

const SHARED: Shared = Shared { share: SHARE, names: 1 };

/// All of them; the shares and names of their labels are the constants above.
pub(crate) const LINES: [Line; 6] = [
    Line { name: "one", label: "1 primary", primaries: 1, skew: SKEW, shared: None },
    Line { name: "four", label: "4 primaries", primaries: 4, skew: SKEW, shared: None },
    Line { name: "sixteen", label: "16 primaries", primaries: 16, skew: SKEW, shared: None },
    Line { name: "steep", label: "16, steep popularity", primaries: 16, skew: STEEP, shared: None },
    Line { name: "shared", label: "16, one lock all want", primaries: 16, skew: SKEW, shared: Some(SHARED) },
    Line {
        name: "divided",
        label: "16, that lock divided",
        primaries: 16,
        skew: SKEW,
        shared: Some(Shared { names: NAMES, ..SHARED }),
    },
];

/// Everything that is simulated.
pub(super) fn simulate(measured: &Measured, effort: Effort, seed: u64, show: &dyn Fn(&str)) -> Simulated {
    // As many connections to each primary as there are processes: the most that were measured are nearest.
    let costs = Costs { hop_ns: HOP_NS, ..measured.costs(u32::MAX) };
    let ground = Ground { effort, seed, costs, slots: slots(effort.locks) };
    let mut points = Vec::new();
    for line in LINES {
        for rate in RATES {
            let asked_per_second = rate * f64::from(effort.processes);
            show(&format!("a simulated fleet, {}: {asked_per_second} locks a second", line.label));
            let figures = ground.fleet(line, rate, 0.0, 0).run(SETTLED_NS, SETTLED_NS + SPAN_NS).figures();
            points.push(Point { line: line.name.into(), asked_per_second, figures });
        }
    }
    show("a simulated fleet with crashes");
    let crashes = STAYS_MS.map(|stays_ms| ground.crashes(stays_ms)).into();
    let stop_ms = measured.stops.first().map_or(0.0, |stop| stop.median() * 1e3) as u64;
    let outages = OUTAGE_THINK_MS.map(|think_ms| ground.outage(think_ms, stop_ms)).into();
    Simulated { points, crashes, outages }
}

/// The share of the primary of 16 with the most locks, to an equal one.
pub(super) fn fullest_of(locks: u32) -> f64 {
    rounded(fullest(&places(&slots(locks), 0, 16), 16))
}

/// The time from one holder to the next, of a lock that always has waiters.
pub(super) fn interval_ns(measured: &Measured, trips: u64) -> u64 {
    interval(&measured.costs(u32::MAX), trips)
}

/// In each round trip the server executes a command, and is woken for it.
fn interval(costs: &Costs, trips: u64) -> u64 {
    HOLD_NS + trips * (2 * HOP_NS + costs.command_ns + costs.wakes[1].cost_ns)
}

struct Ground {
    effort: Effort,
    seed: u64,
    costs: Costs,
    slots: Vec<u16>,
}

impl Ground {
    fn fleet(&self, line: Line, rate: f64, crash: f64, lease_ns: u64) -> Simulation {
        let Effort { processes, locks, .. } = self.effort;
        let round_ns = 1e9 / rate;
        let mut profile = Profile {
            popularity: Popularity::Skewed { locks, skew: line.skew },
            shared: line.shared,
            think_ns: (round_ns - HOLD_NS as f64).max(0.0) as u64,
            hold_ns: HOLD_NS,
            crash,
            lease_ns,
            ..Profile::restless(self.seed, processes)
        };
        profile.gathered = self.gathered(&profile, round_ns);
        let places = places(&self.slots, profile.locks() - locks, line.primaries);
        Simulation::new(profile, self.costs, line.primaries, places)
    }

    /// The processes that wait for the most popular lock, once all is steady: it is handed over once in an interval, and
    /// gets its share of all acquisitions. All others of its users think.
    fn gathered(&self, profile: &Profile, round_ns: f64) -> Gathered {
        let interval_ns = interval(&self.costs, 1);
        let per_ns = 1.0 / (profile.hottest().1 * interval_ns as f64);
        let waiting = f64::from(profile.processes) - per_ns * round_ns;
        Gathered { processes: waiting.max(0.0) as u32, interval_ns }
    }

    fn crashes(&self, stays_ms: u64) -> Crashes {
        let fleet = self.fleet(LINES[2], RATE, 1.0 / HOLDS_PER_CRASH, stays_ms * MS);
        let figures = fleet.run(SETTLED_NS, STAYS_MS[0] * MS + 2 * SETTLED_NS).figures();
        Crashes { stays_ms, figures }
    }

    fn outage(&self, think_ms: u64, stop_ms: u64) -> OutageSeries {
        let mut fleet = self.fleet(LINES[2], 1e3 / think_ms as f64, 0.0, 0);
        let at_ns = SETTLED_NS + 1_000 * MS;
        fleet.fails(Outage { at_ns, stop_ns: stop_ms * MS, retry_ns: RETRY_MS * MS });
        let outcome = fleet.run(SETTLED_NS, at_ns + (stop_ms + AFTERWARDS_MS) * MS);
        let per_second = outcome.series().iter().map(|count| (count * 10) as f64).collect();
        OutageSeries { primaries: 16, think_ms, stop_ms, per_second }
    }
}

/// The slot of each lock's name.
fn slots(locks: u32) -> Vec<u16> {
    (0..locks).map(|lock| crc16(format!("lock:{lock}").as_bytes()) % SLOTS).collect()
}

/// The primary of each lock, and of each of the shared lock's names: all primaries have equal shares of the slots.
fn places(slots: &[u16], names: u32, primaries: u16) -> Vec<u16> {
    let primary = |slot: u16| (u32::from(slot) * u32::from(primaries) / u32::from(SLOTS)) as u16;
    let names = (0..names).map(|name| crc16(format!("shared:{name}").as_bytes()) % SLOTS);
    slots.iter().copied().chain(names).map(primary).collect()
}

const SLOTS: u16 = 16_384;

/// The share of the primary with the most locks, to an equal one.
fn fullest(places: &[u16], primaries: u16) -> f64 {
    let count = |primary| places.iter().filter(|place| **place == primary).count();
    let most = (0..primaries).map(count).max().unwrap_or(0);
    most as f64 * f64::from(primaries) / places.len() as f64
}

/// CRC-16/XMODEM, of which a key's slot is made.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc: u16, _| {
            crc << 1 ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_server() {
        // The check value of this CRC, and CLUSTER KEYSLOT of a Redis server.
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(crc16(b"foo") % SLOTS, 12_182);
    }

    #[test]
    fn plain_names_spread_evenly() {
        let places = places(&slots(100_000), 16, 16);
        assert_eq!(places.len(), 100_016);
        assert!((1.0..1.05).contains(&fullest(&places, 16)));
    }
}
