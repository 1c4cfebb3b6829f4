//! Acquire and release without contention.

use rlock_testkit::TestServer;

use super::process::{Who, Worker};
use crate::cpu::commands_but;
use crate::placement::Placement;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::results::Pairs;
use crate::rng::Rng;
use crate::spread::{Spread, rounded};

/// Acquisitions of one contender in one round.
const PAIRS: u64 = 300;

pub(super) fn run(
    server: &TestServer,
    who: &[Who],
    plan: &Plan,
    rng: &mut Rng,
    progress: &Progress,
) -> Vec<Pairs> {
    let mut all = Vec::new();
    for placement in Placement::ALL {
        placement.apply(server.pid(), None);
        let mut workers: Vec<Worker> = who.iter().map(|who| Worker::start(*who, server.port())).collect();
        // The first ones connect, subscribe and warm up.
        for worker in &mut workers {
            measure(worker);
        }
        let rounds = plan.uncontended_rounds;
        let mut figures = vec![Vec::new(); who.len()];
        for round in 0..rounds {
            progress.show(&format!("client: pairs, {}, round {} of {rounds}", placement.name(), round + 1));
            for index in rng.order(who.len()) {
                figures[index].push(measure(&mut workers[index]));
            }
        }
        for (index, who) in who.iter().enumerate() {
            let commands = count_commands(server, &mut workers[index]);
            all.push(pairs(*who, placement, &figures[index], &figures[0], commands));
        }
    }
    all
}

/// Wall and CPU time of a pair, in µs.
fn measure(worker: &mut Worker) -> (f64, f64) {
    let (wall, cpu) = worker.ask(&format!("pairs {PAIRS} bench:pairs"));
    (per_pair(wall), per_pair(cpu))
}

fn per_pair(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3 / PAIRS as f64
}

/// How many commands the server is sent for a pair.
fn count_commands(server: &TestServer, worker: &mut Worker) -> f64 {
    let mut raw = server.connect();
    redis::cmd("CONFIG").arg("RESETSTAT").exec(&mut raw).expect("RESETSTAT");
    measure(worker);
    commands_but(server, &["info", "config", "ping"]) / PAIRS as f64
}

fn pairs(who: Who, placement: Placement, own: &[(f64, f64)], raw: &[(f64, f64)], commands: f64) -> Pairs {
    Pairs {
        contender: who.name().into(),
        placement: placement.name().into(),
        rounds: own.len(),
        wall_us: Spread::by(own, |one| one.0),
        wall_to_raw: Spread::ratio(own, raw, |one| one.0),
        cpu_us: Spread::by(own, |one| one.1),
        cpu_to_raw: Spread::ratio(own, raw, |one| one.1),
        commands: rounded(commands),
    }
}
