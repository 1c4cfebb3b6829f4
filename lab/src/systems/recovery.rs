//! A holder is killed: how long the next waiter waits.

use super::measure::Lane;
use super::results::Recovery;
use crate::kill::{Rivals, freed_after};
use crate::progress::Progress;
use crate::rng::Rng;
use crate::spread::Spread;

/// The lease, or the time that a session lasts, in seconds.
pub(super) const LEASE: u64 = 10;

pub(super) fn run(lanes: &[Lane], rounds: usize, rng: &mut Rng, progress: &Progress) -> Vec<Recovery> {
    let mut figures = vec![Vec::new(); lanes.len()];
    for round in 1..=rounds {
        progress.show(&format!("systems: kill -9 of a holder, round {round} of {rounds}"));
        let rivals = lanes.iter().map(|lane| ready(lane, round)).collect();
        for (ms, figures) in freed_after(rivals, LEASE * 1_000, rng).into_iter().zip(&mut figures) {
            figures.push(ms);
        }
    }
    let of = |(lane, own): (&Lane, Vec<f64>)| Recovery {
        system: lane.system.name().into(),
        rounds,
        ms: Spread::of(own),
    };
    lanes.iter().zip(figures).map(of).collect()
}

/// A holder and a waiter that are connected and warm.
fn ready(lane: &Lane, round: usize) -> Rivals {
    let start = |role: &str| {
        let mut worker = lane.host.worker(LEASE);
        worker.ask(&format!("pairs 10 bench-{role}"));
        worker
    };
    Rivals { holder: start("holder"), waiter: start("waiter"), acquire: format!("hold bench-kill-{round}") }
}
