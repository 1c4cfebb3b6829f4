//! A holder is killed: how long the next waiter waits. All systems at a time, since nearly all of it is sleep.

use std::thread::sleep;
use std::time::Duration;

use super::measure::Lane;
use super::results::Recovery;
use super::worker::clock;
use crate::client::Worker;
use crate::progress::Progress;
use crate::rng::Rng;
use crate::spread::Spread;

/// The lease, or the time that a session lasts, in seconds.
pub(super) const LEASE: u64 = 10;

/// The time from the acquisition to the kill, in ms: at least until all waiters wait, at most a third of the lease, as for a
/// holder that renews three times in each lease.
const LEAST_MS: u64 = 500;
const MOST_MS: u64 = LEASE * 1_000 / 3;

pub(super) fn run(lanes: &[Lane], rounds: usize, rng: &mut Rng, progress: &Progress) -> Vec<Recovery> {
    let mut figures = vec![Vec::new(); lanes.len()];
    for round in 1..=rounds {
        progress.show(&format!("systems: kill -9 of a holder, round {round} of {rounds}"));
        let (holders, mut waiters): (Vec<Worker>, Vec<Worker>) = lanes.iter().map(ready).unzip();
        let mut holders: Vec<Option<Worker>> = holders.into_iter().map(Some).collect();
        let key = format!("bench-kill-{round}");
        for holder in holders.iter_mut().flatten() {
            holder.tell(&format!("hold {key}"));
            holder.answer();
        }
        waiters.iter_mut().for_each(|waiter| waiter.tell(&format!("hold {key}")));
        sleep(Duration::from_millis(LEAST_MS + rng.below(MOST_MS - LEAST_MS)));
        let mut order: Vec<usize> = (0..lanes.len()).collect();
        rng.shuffle(&mut order);
        let mut killed = vec![0; lanes.len()];
        for index in order {
            killed[index] = clock();
            drop(holders[index].take());
        }
        for ((waiter, killed), figures) in waiters.iter_mut().zip(killed).zip(&mut figures) {
            let (acquired, _) = waiter.answer();
            assert!(acquired >= killed, "two hold the lock at a time");
            figures.push((acquired - killed) as f64 / 1e6);
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
fn ready(lane: &Lane) -> (Worker, Worker) {
    let start = |role: &str| {
        let mut worker = lane.host.worker(LEASE);
        worker.tell(&format!("pairs 10 bench-{role}"));
        worker.answer();
        worker
    };
    (start("holder"), start("waiter"))
}
