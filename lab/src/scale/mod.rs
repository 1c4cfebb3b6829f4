//! Where one server ends, and what a cluster carries: measured points, and a simulated fleet that is made of them.
//! `make bench ONLY=scale` measures and simulates, `make bench ONLY=simulate` only simulates again.

mod checks;
mod costs;
mod driver;
mod fill;
mod fleet;
mod outcome;
mod plot;
mod report;
mod results;
mod sim;
mod stops;
mod tied;
mod traffic;
mod workload;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::environment::{load, root};
use crate::placement;
use crate::progress::Progress;
use crate::results::Environment;
use crate::stalls::raise_file_limit;
use crate::store;
use checks::{Check, comparisons};
pub(crate) use fill::What;
pub(crate) use fleet::LINES;
pub(crate) use plot::picture;
pub(crate) use report::page;
pub(crate) use results::Scale;
use results::{Measured, SCHEMA};
pub(crate) use tied::Kind;
pub(crate) use traffic::State;

/// The process part of owners, as long as that of a real client.
const UUID: &str = "285475da-9152-4c83-822a-67ee2f116a79";

/// How much is measured and simulated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    rounds: usize,
    /// Of a measurement of clients.
    span: Duration,
    /// Of a server with many locks: longer than the module takes from one count of running waits to the next.
    watch: Duration,
    /// At most.
    connections: u32,
    held: usize,
    awaited: usize,
    waiting: usize,
    tied: usize,
    /// `cluster-node-timeout`, in ms.
    timeouts: &'static [u32],
    processes: u32,
    locks: u32,
}

/// What the page shows.
const FULL: Effort = Effort {
    rounds: 40,
    span: Duration::from_secs(2),
    watch: Duration::from_secs(11),
    connections: u32::MAX,
    held: 1_000_000,
    awaited: 100_000,
    waiting: 10_000,
    tied: 9_500,
    timeouts: &[3_000, 15_000],
    processes: 100_000,
    locks: 1_000_000,
};

/// What shows within a minute that all of it works.
const QUICK: Effort = Effort {
    rounds: 5,
    span: Duration::from_millis(500),
    watch: Duration::from_millis(500),
    connections: 1_000,
    held: 100_000,
    awaited: 10_000,
    waiting: 1_000,
    tied: 1_000,
    timeouts: &[2_000],
    processes: 5_000,
    locks: 50_000,
};

/// The Sentinels' `down-after-milliseconds`.
const DOWN_MS: u32 = 3_000;

/// Measures, simulates, and stores both, unless it is a quick run or one of another server than the page is about.
pub(crate) fn run(is_quick: bool, seed: u64) -> Result<(), String> {
    placement::require_two_cores();
    raise_file_limit();
    let (effort, begin, progress) = (if is_quick { QUICK } else { FULL }, Instant::now(), Progress::start());
    let environment = Environment::now(seed);
    let measured = measure(effort, seed, &progress);
    let mut scale =
        Scale { schema: SCHEMA, environment, measured, checks: Vec::new(), fleet: None, fullest: 0.0 };
    simulate_all(&mut scale, effort, &progress);
    let environment = &mut scale.environment;
    environment.load[1] = load();
    environment.seconds = begin.elapsed().as_secs();
    let is_main = store::is_main(environment);
    print!("{}", report::everything(&scale));
    if is_quick || !is_main {
        println!("\nnot stored: only a whole run on the server that the targets are about is");
        return near(&scale);
    }
    keep(&scale)
}

/// Simulates again from the stored measurements.
pub(crate) fn simulate() -> Result<(), String> {
    let (scale, progress) = (stored()?, Progress::start());
    let mut scale = scale.ok_or("nothing is stored to simulate: run `make bench ONLY=scale` first")?;
    simulate_all(&mut scale, FULL, &progress);
    print!("{}", report::everything(&scale));
    keep(&scale)
}

/// First the measured checks, and the fleet where these are near; a quick run tries it out in any case.
fn simulate_all(scale: &mut Scale, effort: Effort, progress: &Progress) {
    let seed = scale.environment.seed;
    progress.show("the simulation beside the measurements");
    scale.checks = Check::ALL.map(|check| check.simulate(seed, &scale.measured)).into();
    scale.fullest = fleet::fullest_of(effort.locks);
    let is_shown = near(scale).is_ok() || effort.processes < FULL.processes;
    let show = |what: &str| progress.show(what);
    scale.fleet = is_shown.then(|| fleet::simulate(&scale.measured, effort, seed, &show));
    progress.end();
}

fn measure(effort: Effort, seed: u64, progress: &Progress) -> Measured {
    let show = |what: &str| progress.show(&format!("scale: {what}"));
    // Before the others bind this process, and the servers that it starts, to a core.
    let mut stops: Vec<_> = effort.timeouts.iter().map(|timeout| stops::cluster(*timeout, &show)).collect();
    stops.push(stops::sentinel(DOWN_MS, &show));
    show("costs of a server");
    let piped = costs::piped(effort);
    let single = costs::single(effort, seed, &show);
    let contended = costs::contended(effort, seed, &show);
    let paced = costs::paced(effort, seed);
    let check = |check: Check| {
        show(&format!("{check:?}, to be compared with the simulation"));
        check.measure(seed)
    };
    let checks = Check::ALL.map(check).into();
    let traffic = traffic::measure(effort, seed, &show);
    let fill = |what: fill::What| {
        show(what.label());
        fill::measure(what, effort)
    };
    let memory = fill::What::ALL.map(fill).into();
    let tied = tied::Kind::ALL.map(|kind| tied::measure(kind, effort)).into();
    Measured { memory, traffic, piped, single, contended, paced, tied, stops, checks }
}

/// Whether the simulation is near the measurements; the error names where it is not.
fn near(scale: &Scale) -> Result<(), String> {
    let off = comparisons(scale).into_iter().filter(|one| !one.is_near());
    let off: Vec<String> = off
        .map(|one| format!("  {}: {}, off by {:+.0} %", one.check, one.what, one.deviation() * 100.0))
        .collect();
    if off.is_empty() {
        return Ok(());
    }
    Err(format!(
        "the simulation is too far from what was measured:\n{}\nmeasure again on a quiet machine",
        off.join("\n")
    ))
}

fn keep(scale: &Scale) -> Result<(), String> {
    let path = path();
    store::keep(&path, scale)?;
    store::render()?;
    println!("\nstored in {}, and docs/SCALE.md and docs/BENCHMARKS.md remade", path.display());
    near(scale).map_err(|error| format!("the simulated fleet is left out of the page: {error}"))
}

fn path() -> PathBuf {
    root().join("docs/bench/scale/results.json")
}

/// The results of the last run, if there was one.
pub(crate) fn stored() -> Result<Option<Scale>, String> {
    let path = path();
    if !path.exists() {
        return Ok(None);
    }
    store::kept(&path, "make bench ONLY=scale", SCHEMA..=SCHEMA, |scale: &Scale| scale.schema).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stored simulation is that of the stored measurements, by the code of today, and a fleet is shown only where it
    /// is near them.
    #[test]
    fn the_stored_simulation_is_that_of_the_measurements() {
        let Some(scale) = stored().unwrap() else { return };
        assert_eq!(scale.fleet.is_some(), near(&scale).is_ok());
        let seed = scale.environment.seed;
        for (check, stored) in Check::ALL.into_iter().zip(&scale.checks) {
            let again = check.simulate(seed, &scale.measured);
            let off = again.per_second / stored.per_second - 1.0;
            // Another machine's logarithm may differ in its last digit.
            assert!(off.abs() < 0.01, "{check:?}: run `make bench ONLY=simulate`");
        }
    }
}
