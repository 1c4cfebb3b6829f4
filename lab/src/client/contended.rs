//! Many processes that want one lock, each with connections of its own.

use std::ops::Range;
use std::thread::sleep;
use std::time::Duration;

use rlock_testkit::TestServer;

use super::hand_off::{Hold, between_processes};
use super::process::{Who, Worker};
use super::worker::clock;
use crate::placement::Placement;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::results::Contended;
use crate::rng::Rng;
use crate::spread::{Spread, quantile, rounded};

/// The numbers of waiters besides the holder.
pub(crate) const WAITERS: [usize; 3] = [2, 20, 100];

/// How long each holder keeps the lock at least, in ms.
pub(crate) const HOLDS_MS: [u64; 2] = [0, 1];

/// How long one round is measured.
const SPAN: Duration = Duration::from_millis(500);

/// The figures of one round.
pub(super) struct Round {
    /// Sorted, in µs.
    pub(super) times: Vec<f64>,
    pub(super) per_second: f64,
}

pub(super) fn run(server: &TestServer, plan: &Plan, rng: &mut Rng, progress: &Progress) -> Vec<Contended> {
    Placement::TwoCores.apply(server.pid(), None);
    let rounds = plan.contention_rounds;
    let mut all = Vec::new();
    for waiters in WAITERS {
        let start =
            |who: Who| -> Vec<Worker> { (0..=waiters).map(|_| Worker::start(who, server.port())).collect() };
        let mut workers = Who::OWN.map(start);
        for hold_ms in HOLDS_MS {
            let figures = in_turns(&mut workers, hold_ms, rounds, rng, |round| {
                progress.show(&format!("client: {waiters} waiters, {hold_ms} ms, round {round} of {rounds}"));
            });
            let [raw, _] = &figures;
            let row = |(who, own): (Who, &Vec<Round>)| contended(who, (waiters, hold_ms), own, raw);
            all.extend(Who::OWN.into_iter().zip(&figures).map(row));
        }
    }
    all
}

/// Lets all of them contend; the holds, and the span in which each of them has had the lock and still wants it.
pub(super) fn hand_around(workers: &mut [Worker], hold_ms: u64, key: &str) -> (Vec<Hold>, Range<u64>) {
    for worker in workers.iter_mut() {
        worker.tell(&format!("contend {hold_ms} {key}"));
    }
    for worker in workers.iter_mut() {
        assert_eq!(worker.line(), "held");
    }
    let begin = clock();
    sleep(SPAN);
    let end = clock();
    for worker in workers.iter_mut() {
        worker.tell("end");
    }
    let mut holds = Vec::new();
    for (process, worker) in workers.iter_mut().enumerate() {
        let count: u64 = worker.line().parse().expect("a number");
        for _ in 0..count {
            let (acquired, released) = worker.answer();
            holds.push(Hold { acquired, released, process });
        }
    }
    (holds, begin..end)
}

/// Both let a lock around in each round, in random order.
pub(super) fn in_turns(
    workers: &mut [Vec<Worker>; 2],
    hold_ms: u64,
    rounds: usize,
    rng: &mut Rng,
    show: impl Fn(usize),
) -> [Vec<Round>; 2] {
    let mut figures = [Vec::new(), Vec::new()];
    for round in 0..=rounds {
        show(round);
        for index in rng.order(2) {
            let key = format!("bench:{index}:{}:{hold_ms}:{round}", workers[index].len());
            let (holds, span) = hand_around(&mut workers[index], hold_ms, &key);
            // The first round connects and warms up.
            if round > 0 {
                figures[index].push(figures_of(holds, span, &key));
            }
        }
    }
    figures
}

fn figures_of(holds: Vec<Hold>, span: Range<u64>, key: &str) -> Round {
    let acquired = holds.iter().filter(|hold| span.contains(&hold.acquired)).count();
    let per_second = acquired as f64 * 1e9 / (span.end - span.start) as f64;
    Round { times: between_processes(holds, span, key), per_second }
}

fn contended(who: Who, (waiters, hold_ms): (usize, u64), own: &[Round], raw: &[Round]) -> Contended {
    let median = |round: &Round| quantile(&round.times, 0.5);
    let mut times: Vec<f64> = own.iter().flat_map(|round| round.times.clone()).collect();
    times.sort_by(f64::total_cmp);
    Contended {
        contender: who.name().into(),
        waiters,
        hold_ms,
        rounds: own.len(),
        us: Spread::by(own, median),
        to_raw: Spread::ratio(own, raw, median),
        p99_us: rounded(quantile(&times, 0.99)),
        per_second: Spread::by(own, |round| round.per_second),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hand_off_counts_between_processes_and_within_the_span() {
        let hold = |acquired, released, process| Hold { acquired, released, process };
        let holds = vec![
            hold(22_000, 23_000, 1),
            hold(0, 1_000, 0),
            hold(9_000, 10_000, 1),
            hold(14_000, 15_000, 0),
            hold(15_500, 16_000, 0),
            hold(90_000, 91_000, 0),
        ];
        let round = figures_of(holds, 9_000..23_000, "key");
        assert_eq!(round.times, [4.0, 6.0]);
        assert!((round.per_second - 4e9 / 14e3).abs() < 1.0);
    }
}
