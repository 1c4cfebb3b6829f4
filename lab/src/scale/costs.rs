//! What one server carries, and the simulation's costs, which follow from that.

use std::time::Duration;

use rlock_testkit::{Subscriber, TestServer};

use super::driver::{self, Run};
use super::outcome::Figures;
use super::results::{Contended, Measured, Paced, Piped, Single};
use super::sim::{Costs, Wake};
use super::workload::{Popularity, Profile};
use super::{Effort, UUID};
use crate::cpu::CpuMeter;
use crate::placement::Placement;
use crate::resp::append;
use crate::spread::{Spread, rounded};
use crate::wire::Wire;

/// Commands in one write.
const DEPTH: usize = 50;

/// Writes of one measurement.
const WRITES: usize = 40;

const CHANNEL: &str = "285475da-9152-4c83-822a-67ee2f116a79:news";

/// With how many connections the costs are measured.
const CONNECTIONS: [u32; 4] = [1, 50, 1_000, 9_000];

/// Connections and locks of the contended measurements.
const CONTENDED: [(u32, u32); 2] = [(11, 1), (500, 50)];

/// Connections that pause, and for how long: the server sleeps shortly, and for longer.
const PACED: [(u32, u64); 2] = [(50, 1_000_000), (100, 5_000_000)];

/// What is sent 50 at a time.
const WORK: [&str; 3] = ["pair", "renew", "hand-off"];

/// The writes that do one kind of work, and leave the locks as they were.
struct Lane {
    work: &'static str,
    steps: Vec<(Vec<u8>, Vec<u8>)>,
    costs: Vec<f64>,
}

impl Lane {
    /// Acquisitions are in the steps, unless the locks are held by `a` and awaited by `b` before.
    fn new(work: &'static str) -> Lane {
        let acquired = "*3\r\n:1\r\n:3600000\r\n:0\r\n";
        let acquire = |owner| (step(work, "RLOCK.ACQUIRE", owner, &["3600000"]), acquired);
        let release = |owner| (step(work, "RLOCK.RELEASE", owner, &[]), ":1\r\n");
        let renew = |owner| (step(work, "RLOCK.RENEW", owner, &["3600000"]), ":1\r\n");
        let enqueue = |owner| {
            let words = step(work, "RLOCK.ACQUIRE", owner, &["3600000", "ENQUEUE", "0", CHANNEL]);
            (words, "*3\r\n:0\r\n:0\r\n:0\r\n")
        };
        let steps = match work {
            "pair" => vec![acquire("a"), release("a")],
            "renew" => vec![renew("a")],
            // A release hands over to the other owner, which confirms; the first one waits again.
            _ => {
                let turn = |from, to| [release(from), renew(to), enqueue(from)];
                [turn("a", "b"), turn("b", "a")].concat()
            }
        };
        let steps = steps.into_iter().map(|(request, reply)| (request, reply.repeat(DEPTH).into_bytes()));
        Lane { work, steps: steps.collect(), costs: Vec::new() }
    }

    fn prepare(&self, wire: &mut Wire) {
        let mut send = |words: &[&str], reply: &str| {
            wire.exchange(
                &step(self.work, "RLOCK.ACQUIRE", words[0], &words[1..]),
                reply.repeat(DEPTH).as_bytes(),
            );
        };
        if self.work != "pair" {
            send(&["a", "3600000"], "*3\r\n:1\r\n:3600000\r\n:0\r\n");
        }
        if self.work == "hand-off" {
            send(&["b", "3600000", "ENQUEUE", "0", CHANNEL], "*3\r\n:0\r\n:0\r\n:0\r\n");
        }
    }

    fn round(&mut self, wire: &mut Wire, cpu: &CpuMeter) {
        let begin = cpu.used();
        for _ in 0..WRITES {
            for (request, answer) in &self.steps {
                wire.exchange(request, answer);
            }
        }
        let used = cpu.used().saturating_sub(begin);
        let turns = if self.work == "hand-off" { 2 } else { 1 };
        self.costs.push(used.as_secs_f64() * 1e6 / (DEPTH * WRITES * turns) as f64);
    }
}

/// The same command for 50 locks.
fn step(work: &str, command: &str, owner: &str, rest: &[&str]) -> Vec<u8> {
    let mut request = Vec::new();
    for lock in 0..DEPTH {
        let (lock, owner) = (format!("{work}:{lock:05}"), format!("{UUID}:{owner}"));
        append(&mut request, &[&[command, &lock, &owner], rest].concat());
    }
    request
}

/// Work that is sent 50 at a time, all kinds in turns; client and server have a core each.
pub(super) fn piped(effort: Effort) -> Vec<Piped> {
    let server = TestServer::start();
    let mut wire = Wire::connect(server.port()).expect("a connection");
    let mut subscriber = Subscriber::channel(&server, CHANNEL);
    Placement::TwoCores.apply(server.pid(), None);
    let cpu = CpuMeter::of(server.pid());
    let mut lanes = WORK.map(Lane::new);
    lanes.iter().for_each(|lane| lane.prepare(&mut wire));
    for _ in 0..effort.rounds {
        for lane in &mut lanes {
            lane.round(&mut wire, &cpu);
            subscriber.drain();
        }
    }
    let piped = |lane: Lane| Piped {
        work: lane.work.into(),
        rounds: lane.costs.len(),
        cpu_us: Spread::of(lane.costs),
    };
    lanes.map(piped).into()
}

/// Clients that never pause, each with its own lock.
pub(super) fn single(effort: Effort, seed: u64, show: &dyn Fn(&str)) -> Vec<Single> {
    let measure = |connections: u32| {
        show(&format!("{connections} clients, one command under way each"));
        let run = effort.measure(&Profile::restless(seed, connections));
        let Run { figures: Figures { per_second, .. }, cpu_us, sleeps } = run;
        Single { connections, per_second, cpu_us: rounded(cpu_us), sleeps: rounded(sleeps) }
    };
    CONNECTIONS.map(|connections| measure(connections.min(effort.connections))).into()
}

/// Clients that never pause, and want few locks.
pub(super) fn contended(effort: Effort, seed: u64, show: &dyn Fn(&str)) -> Vec<Contended> {
    let measure = |(connections, locks): (u32, u32)| {
        show(&format!("{connections} clients, {locks} locks"));
        let popularity = Popularity::Skewed { locks, skew: 0.0 };
        let Run { figures, cpu_us, sleeps } =
            effort.measure(&Profile { popularity, ..Profile::restless(seed, connections) });
        let (per_second, cpu_us, sleeps) = (figures.per_second, rounded(cpu_us), rounded(sleeps));
        Contended { connections, locks, per_second, cpu_us, sleeps }
    };
    CONTENDED.map(measure).into()
}

/// Clients that pause for a while before each command.
pub(super) fn paced(effort: Effort, seed: u64) -> [Paced; 2] {
    PACED.map(|(connections, pause)| {
        let profile = Profile { think_ns: pause, hold_ns: pause, ..Profile::restless(seed, connections) };
        let Run { figures, cpu_us, sleeps } = effort.measure(&profile);
        Paced {
            connections,
            per_second: figures.per_second,
            cpu_us: rounded(cpu_us),
            sleeps: rounded(sleeps),
            reply_us: rounded(figures.mean_ms * 1e3),
        }
    })
}

impl Paced {
    /// What a wake-up costs at this pace, where `base` never sleeps. Commands that come at random find the server asleep as often
    /// as it is idle, after the mean time between two of them. (It sleeps less often than that: the load generator sends
    /// some together, which the simulation does not.)
    fn wake(&self, base: &Single) -> Wake {
        let commands = 2.0;
        let idle = 1.0 - self.per_second * self.cpu_us / 1e6;
        let cost_us = (self.cpu_us - base.cpu_us) / (commands * idle);
        Wake { slept_ns: ns(1e6 / (commands * self.per_second)), cost_ns: ns(cost_us) }
    }
}

/// The cast saturates, at 0 too.
fn ns(us: f64) -> u64 {
    (us * 1e3).round() as u64
}

impl Effort {
    fn measure(self, profile: &Profile) -> Run {
        driver::measure(profile, Duration::from_millis(500), self.span)
    }
}

impl Measured {
    /// The simulation's costs for primaries with this number of connections each.
    ///
    /// Two commands and their sleeps make up the cost of a pair. From 50 connections that never pause, the server does not
    /// sleep; with pauses the rest is what the sleeps cost.
    pub(crate) fn costs(&self, connections: u32) -> Costs {
        let base = self.single.iter().find(|one| one.connections >= 50).expect("50 connections are measured");
        let wakes = self.paced.map(|paced| paced.wake(base));
        let near = self.single.iter().filter(|one| one.connections >= base.connections);
        let near = near.min_by_key(|one| one.connections.abs_diff(connections)).unwrap_or(base);
        let waits = &self.contended[0];
        let [_, long] = &self.paced;
        let reply_us = base.cpu_us / 2.0 + wakes[1].cost_ns as f64 / 1e3;
        Costs {
            command_ns: ns(near.cpu_us / 2.0),
            wait_ns: ns(waits.cpu_us - base.cpu_us),
            wakes,
            hop_ns: ns((long.reply_us - reply_us) / 2.0),
        }
    }
}
