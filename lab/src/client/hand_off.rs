//! Two processes hand one lock to each other.

use std::ops::Range;

use rlock_testkit::TestServer;

use super::process::{Who, Worker};
use crate::placement::Placement;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::results::HandOff;
use crate::rng::Rng;
use crate::spread::{Spread, quantile};

/// Turns of each of the two processes in one round.
const TURNS: u64 = 100;

/// Turns in one round of a contender that polls: polling takes long.
const POLLED_TURNS: u64 = 10;

pub(super) fn run(
    server: &TestServer,
    who: &[Who],
    plan: &Plan,
    rng: &mut Rng,
    progress: &Progress,
) -> Vec<HandOff> {
    Placement::TwoCores.apply(server.pid(), None);
    let start = |who: &Who| [Worker::start(*who, server.port()), Worker::start(*who, server.port())];
    let mut workers: Vec<[Worker; 2]> = who.iter().map(start).collect();
    let rounds = plan.contention_rounds.saturating_mul(2);
    let mut figures = vec![Vec::new(); who.len()];
    for round in 0..=rounds {
        progress.show(&format!("client: hand-offs, round {round} of {rounds}"));
        for index in rng.order(who.len()) {
            let median = measure(&mut workers[index], who[index], round);
            // The first round connects and warms up.
            if round > 0 {
                figures[index].push(median);
            }
        }
    }
    let raw = figures[0].clone();
    let hand_off = |(who, own): (&Who, Vec<f64>)| HandOff {
        contender: who.name().into(),
        rounds,
        to_raw: Spread::ratio(&own, &raw, |one| *one),
        us: Spread::of(own),
    };
    who.iter().zip(figures).map(hand_off).collect()
}

/// The median time of the hand-offs from one process to the other, in µs.
fn measure(workers: &mut [Worker; 2], who: Who, round: usize) -> f64 {
    let turns = if who.polls() { POLLED_TURNS } else { TURNS };
    quantile(&times(workers, turns, &format!("bench:{}:{round}", who.name())), 0.5)
}

/// One hold of the lock, in ns by one clock for all processes.
pub(super) struct Hold {
    pub(super) acquired: u64,
    /// Just before the release.
    pub(super) released: u64,
    /// The index of the holder.
    pub(super) process: usize,
}

/// The sorted times of the hand-offs from one process to the other, in µs.
fn times(workers: &mut [Worker; 2], turns: u64, key: &str) -> Vec<f64> {
    for worker in workers.iter_mut() {
        worker.tell(&format!("turns {turns} {key}"));
    }
    let mut holds = Vec::new();
    for (process, worker) in workers.iter_mut().enumerate() {
        for _ in 0..turns {
            let (acquired, released) = worker.answer();
            holds.push(Hold { acquired, released, process });
        }
    }
    between_processes(holds, 0..u64::MAX, key)
}

/// The sorted times, in µs, from the releases within a span to the acquisitions by another process.
pub(super) fn between_processes(mut holds: Vec<Hold>, span: Range<u64>, key: &str) -> Vec<f64> {
    holds.sort_unstable_by_key(|hold| hold.acquired);
    let mut times = Vec::new();
    for pair in holds.windows(2) {
        let (last, next) = (&pair[0], &pair[1]);
        assert!(last.released <= next.acquired, "{key}: two held the lock at a time");
        if last.process != next.process && span.contains(&last.released) {
            times.push((next.acquired - last.released) as f64 / 1e3);
        }
    }
    times.sort_by(f64::total_cmp);
    times
}
