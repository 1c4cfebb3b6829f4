//! The simulation beside a real server: the same profiles, the same seed.

use std::time::Duration;

use super::driver;
use super::outcome::Figures;
use super::results::{Measured, Scale};
use super::sim::Simulation;
use super::workload::{Gathered, Popularity, Profile, Shared};

const MS: u64 = 1_000_000;

/// How far the simulation may be from the measurement.
const BOUND: f64 = 0.15;

/// For the tail of the waits.
const TAIL_BOUND: f64 = 0.3;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Check {
    /// Uncontended locks, a low and a high load.
    Light,
    Heavy,
    /// One lock, with this number of waiters.
    Hot(u32),
    /// A small fleet.
    Fleet,
}

type Figure = fn(&Figures) -> f64;

const BUSY: (&str, Figure, f64) = ("server's load, %", |one| one.busiest, BOUND);
const RATE: (&str, Figure, f64) = ("acquisitions a second", |one| one.per_second, BOUND);
const HAND_OFFS: (&str, Figure, f64) = ("hand-offs a second", |one| one.hand_offs, BOUND);
const MEAN: (&str, Figure, f64) = ("mean wait, ms", |one| one.mean_ms, BOUND);
const TAIL: (&str, Figure, f64) = ("99th percentile of the waits, ms", |one| one.p99_ms, TAIL_BOUND);

/// One figure, measured and simulated.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) check: String,
    pub(crate) what: &'static str,
    pub(crate) measured: f64,
    pub(crate) simulated: f64,
    bound: f64,
}

impl Comparison {
    /// By how much the simulation is above the measurement, as a share of it.
    pub(crate) fn deviation(&self) -> f64 {
        self.simulated / self.measured - 1.0
    }

    pub(crate) fn is_near(&self) -> bool {
        self.deviation().abs() <= self.bound
    }

    /// The deviation as a share of its bound.
    pub(crate) fn excess(&self) -> f64 {
        self.deviation().abs() / self.bound
    }

    pub(crate) fn bound(&self) -> f64 {
        self.bound
    }
}

impl Check {
    pub(crate) const ALL: [Check; 6] =
        [Check::Light, Check::Heavy, Check::Hot(10), Check::Hot(100), Check::Hot(1_000), Check::Fleet];

    fn label(self) -> String {
        match self {
            Check::Light | Check::Heavy => {
                let profile = self.profile(0);
                let pause_ms = (profile.think_ns + profile.hold_ns) / MS;
                format!("{} clients, own locks, one every {pause_ms} ms", profile.processes)
            }
            Check::Hot(waiters) => format!("one lock, held for 2 ms, {waiters} waiters"),
            Check::Fleet => "1,000 processes, 10,000 locks, one that all want, crashes".into(),
        }
    }

    fn figures(self) -> &'static [(&'static str, Figure, f64)] {
        match self {
            Check::Light | Check::Heavy => &[RATE, BUSY],
            Check::Hot(_) => &[HAND_OFFS, MEAN],
            Check::Fleet => &[RATE, BUSY, HAND_OFFS, MEAN, TAIL],
        }
    }

    fn profile(self, seed: u64) -> Profile {
        let own = |processes, pause| Profile {
            think_ns: pause,
            hold_ns: pause,
            ..Profile::restless(seed, processes)
        };
        match self {
            Check::Light => own(100, 20 * MS),
            Check::Heavy => own(400, 5 * MS),
            Check::Hot(waiters) => Profile {
                popularity: Popularity::Skewed { locks: 1, skew: 0.0 },
                hold_ns: 2 * MS,
                ..Profile::restless(seed, waiters + 1)
            },
            Check::Fleet => Profile {
                popularity: Popularity::Skewed { locks: 10_000, skew: 0.5 },
                shared: Some(Shared { share: 0.01, names: 1 }),
                think_ns: 50 * MS,
                hold_ns: 3 * MS,
                crash: 0.0002,
                lease_ns: 500 * MS,
                gathered: Gathered::default(),
                ..Profile::restless(seed, 1_000)
            },
        }
    }

    /// The time before the measurement, in which as many wait as will, and that of the measurement.
    fn times(self) -> [Duration; 2] {
        match self {
            Check::Hot(1_000) => [3_000, 3_000],
            Check::Fleet => [1_000, 4_000],
            _ => [500, 2_000],
        }
        .map(Duration::from_millis)
    }

    /// On a real server.
    pub(super) fn measure(self, seed: u64) -> Figures {
        let [warm_up, span] = self.times();
        driver::measure(&self.profile(seed), warm_up, span).figures
    }

    /// With the costs that were measured.
    pub(super) fn simulate(self, seed: u64, measured: &Measured) -> Figures {
        let ([warm_up, span], profile) =
            (self.times().map(|time| time.as_nanos() as u64), self.profile(seed));
        let places = vec![0; profile.locks() as usize];
        let fleet = Simulation::new(profile, measured.costs(profile.processes), 1, places);
        fleet.run(warm_up, warm_up + span).figures()
    }
}

/// All figures that are compared.
pub(crate) fn comparisons(scale: &Scale) -> Vec<Comparison> {
    let figures = scale.measured.checks.iter().zip(&scale.checks);
    let of = |(check, (measured, simulated)): (Check, (&Figures, &Figures))| {
        let one = |(what, figure, bound): &(&'static str, Figure, f64)| Comparison {
            check: check.label(),
            what,
            measured: figure(measured),
            simulated: figure(simulated),
            bound: *bound,
        };
        check.figures().iter().map(one).collect::<Vec<_>>()
    };
    Check::ALL.into_iter().zip(figures).flat_map(of).collect()
}
