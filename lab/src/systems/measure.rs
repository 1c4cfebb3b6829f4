//! Pairs without contention, and hand-offs: all systems take turns in each round, in random order.

use super::Rounds;
use super::cpu::Used;
use super::host::Host;
use super::results::{HandOff, Load, Pair};
use super::system::System;
use crate::client::Worker;
use crate::progress::Progress;
use crate::rng::Rng;
use crate::spread::{Spread, quantile};

/// With how many waiters a hand-off is measured.
pub(crate) const SIZES: [usize; 4] = [2, 10, 100, 1_000];

/// With how many connections a system is loaded, and for how long.
pub(crate) const CONNECTIONS: [usize; 3] = [50, 100, 200];
const LOAD_MS: u64 = 500;

/// The lease, or the time that a session lasts, in seconds: it never ends here. It is etcd's default.
const LEASE: u64 = 60;

/// Pairs in one round, and of systems that wait for a disk.
const PAIRS: usize = 300;
const PAIRS_ON_DISK: usize = 60;

/// Before the first round, so that all are warm; the Java programs take longest.
const WARM_UP_ROUNDS: usize = 10;

/// Hand-offs in one round, and of pollers, which are slow.
const HAND_OFFS: usize = 40;
const HAND_OFFS_POLLED: usize = 15;

/// A system with its servers and a process of clients.
pub(super) struct Lane {
    pub(super) system: System,
    pub(super) host: Host,
    worker: Worker,
}

/// What a round gave: the time, and the CPU time of all servers, both in µs.
type Figures = Vec<(f64, f64)>;

impl Lane {
    pub(super) fn start(system: System) -> Lane {
        let host = Host::start(system);
        Lane { system, worker: host.worker(LEASE), host }
    }

    fn repeat(&mut self, work: &str) -> (f64, f64) {
        let count = if self.system.waits_for_disks() { PAIRS_ON_DISK } else { PAIRS };
        let (processes, per) = (self.host.pids(), 1e6 / count as f64);
        let before = Used::by(&processes);
        let (nanoseconds, _) = self.worker.ask(&format!("{work} {count} bench-{work}"));
        let used = Used::by(&processes).since(&before);
        (nanoseconds as f64 / 1e9 * per, used.as_secs_f64() * per)
    }

    fn hand_offs(&mut self, waiters: usize, key: &str) -> (f64, f64) {
        let count = if self.system.polls() { HAND_OFFS_POLLED } else { HAND_OFFS };
        let processes = self.host.pids();
        self.worker.ask(&format!("wait {waiters} {key}"));
        let before = Used::by(&processes);
        self.worker.tell(&format!("hand-off {count}"));
        let times: Vec<(u64, u64)> = (0..count).map(|_| self.worker.answer()).collect();
        let used = Used::by(&processes).since(&before);
        self.worker.ask("leave");
        (median_us(&times), used.as_secs_f64() * 1e6 / count as f64)
    }
}

/// The median of the times from a release to the acquisition after it.
fn median_us(times: &[(u64, u64)]) -> f64 {
    let us = |(released, acquired): &(u64, u64)| {
        assert!(released <= acquired, "the next holder had the lock before it was released");
        (acquired - released) as f64 / 1e3
    };
    let mut times: Vec<f64> = times.iter().map(us).collect();
    times.sort_by(f64::total_cmp);
    quantile(&times, 0.5)
}

/// Pairs or renewals, one after the other, of the systems that have them.
pub(super) fn repeat(
    (work, has): (&str, fn(System) -> bool),
    lanes: &mut [Lane],
    rounds: usize,
    rng: &mut Rng,
    progress: &Progress,
) -> Vec<Pair> {
    let mut figures = vec![Figures::new(); lanes.len()];
    for round in 0..=rounds {
        progress.show(&format!("systems: {work}, round {round} of {rounds}"));
        for index in rng.order(lanes.len()) {
            if !has(lanes[index].system) {
                continue;
            }
            for _ in 0..if round == 0 { WARM_UP_ROUNDS } else { 0 } {
                lanes[index].repeat(work);
            }
            if round > 0 {
                figures[index].push(lanes[index].repeat(work));
            }
        }
    }
    let of = |(lane, own): (&Lane, &Figures)| Pair {
        system: lane.system.name().into(),
        rounds,
        us: Spread::by(own, |one| one.0),
        to_rlock: Spread::ratio(own, &figures[0], |one| one.0),
        server_us: Spread::by(own, |one| one.1),
    };
    lanes.iter().zip(&figures).filter(|(_, own)| !own.is_empty()).map(of).collect()
}

pub(super) fn hand_offs(
    lanes: &mut [Lane],
    rounds: &Rounds,
    rng: &mut Rng,
    progress: &Progress,
) -> Vec<HandOff> {
    let cases = lanes.len() * SIZES.len();
    let mut figures = vec![Figures::new(); cases];
    for round in 0..=rounds.hand_offs {
        for (step, case) in rng.order(cases).into_iter().enumerate() {
            let (lane, waiters) = (&mut lanes[case / SIZES.len()], SIZES[case % SIZES.len()]);
            let most = match round {
                // It warms up.
                0 => 10,
                _ if round <= rounds.crowds => usize::MAX,
                _ => 100,
            };
            if lane.system.only_recovers() || waiters > most {
                continue;
            }
            let name = lane.system.name();
            progress.show(&format!(
                "systems: hand-offs, round {round} of {}, {step} of {cases}: {name}, {waiters} waiters",
                rounds.hand_offs
            ));
            let figure = lane.hand_offs(waiters, &format!("bench-{round}-{waiters}"));
            if round > 0 {
                figures[case].push(figure);
            }
        }
    }
    let of = |(case, own): (usize, &Figures)| HandOff {
        system: lanes[case / SIZES.len()].system.name().into(),
        waiters: SIZES[case % SIZES.len()],
        rounds: own.len(),
        us: Spread::by(own, |one| one.0),
        to_rlock: Spread::ratio(own, &figures[case % SIZES.len()], |one| one.0),
        server_us: Spread::by(own, |one| one.1),
    };
    figures.iter().enumerate().filter(|(_, own)| !own.is_empty()).map(of).collect()
}

pub(super) fn loads(lanes: &mut [Lane], rounds: usize, rng: &mut Rng, progress: &Progress) -> Vec<Load> {
    let cases = lanes.len() * CONNECTIONS.len();
    let mut figures = vec![Vec::new(); cases];
    for round in 1..=rounds {
        progress.show(&format!("systems: many connections, round {round} of {rounds}"));
        for case in rng.order(cases) {
            let (lane, connections) =
                (&mut lanes[case / CONNECTIONS.len()], CONNECTIONS[case % CONNECTIONS.len()]);
            if lane.system.is_loaded() {
                let (pairs, nanoseconds) = lane.worker.ask(&format!("load {connections} {LOAD_MS}"));
                figures[case].push(pairs as f64 * 1e9 / nanoseconds as f64);
            }
        }
    }
    let of = |(case, own): (usize, &Vec<f64>)| Load {
        system: lanes[case / CONNECTIONS.len()].system.name().into(),
        connections: CONNECTIONS[case % CONNECTIONS.len()],
        rounds,
        per_second: Spread::of(own.clone()),
        to_rlock: Spread::ratio(own, &figures[case % CONNECTIONS.len()], |one| *one),
    };
    figures.iter().enumerate().filter(|(_, own)| !own.is_empty()).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_that_of_times_of_one_round() {
        let (own, base) = (vec![(4.0, 1.0), (9.0, 1.0)], vec![(2.0, 7.0), (3.0, 7.0)]);
        assert_eq!(Spread::ratio(&own, &base, |one| one.0), Spread::of(vec![2.0, 3.0]));
        assert_eq!(Spread::by(&own, |one| one.1), Spread::of(vec![1.0, 1.0]));
        assert!((median_us(&[(1_000, 3_000), (5_000, 6_000), (0, 9_000)]) - 2.0).abs() < 1e-9);
    }
}
