//! The cost of keeping many locks.

use rlock_testkit::TestServer;

use super::process::{Who, Worker};
use crate::placement::Placement;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::results::Renewal;
use crate::spread::{Spread, rounded};

/// The number of locks held.
const LOCKS: u64 = 10_000;

/// The renewal interval of a lock, in seconds.
const EVERY: f64 = 10.0;

/// The time measured, in seconds: between the first and the second renewals, with half of it to spare.
const SECONDS: u64 = 15;

pub(super) fn run(server: &TestServer, plan: &Plan, progress: &Progress) -> Renewal {
    Placement::TwoCores.apply(server.pid(), None);
    let mut worker = Worker::start(Who::Client, server.port());
    progress.show("client: holding nothing");
    let idle_percent = measure(&mut worker, 0) / SECONDS as f64 * 100.0;
    let renewals =
        |server: &TestServer| -> u64 { server.info("rlock")["rlock_renewed"].parse().expect("a number") };
    let rounds = plan.memory_rounds;
    let mut values = Vec::new();
    for round in 0..rounds {
        progress.show(&format!("client: holding {LOCKS} locks, round {} of {rounds}", round + 1));
        let before = renewals(server);
        let cpu = measure(&mut worker, LOCKS);
        let renewed = renewals(server) - before;
        assert!(renewed >= LOCKS, "only {renewed} renewals: it measured something else");
        values.push(cpu / (EVERY * renewed as f64 / LOCKS as f64) * 100.0);
    }
    Renewal { locks: LOCKS, rounds, percent: Spread::of(values), idle_percent: rounded(idle_percent) }
}

/// The CPU time, in seconds, of holding `locks` locks for the time measured.
fn measure(worker: &mut Worker, locks: u64) -> f64 {
    let (_wall, cpu) = worker.ask(&format!("hold {locks} {SECONDS}"));
    cpu as f64 / 1e9
}
