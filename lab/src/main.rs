//! What rlock costs, measured against the other ways to lock: `make bench` runs it.
//!
//! All contenders take turns in many short rounds of one run, in random order, and are compared within each
//! round: what disturbs the machine disturbs them alike. Results are ratios with their spread.

mod client;
mod clients;
mod contender;
mod contention;
mod counted;
mod cpu;
mod environment;
mod fleet;
mod kill;
mod memory;
mod named;
mod placement;
mod plan;
mod progress;
mod readers;
mod redisson;
mod report;
mod resp;
mod results;
mod rng;
mod scale;
mod spread;
mod stalls;
mod store;
mod systems;
mod threads;
mod uncontended;
mod wire;

use std::process::ExitCode;
use std::time::{Instant, SystemTime};

use clients::Clients;
use plan::{Apart, Plan, Task};
use progress::Progress;
use redisson::Release;
use report::doc;
use results::{Environment, Results, SCHEMA, Stalls};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(code) = client::worker(&arguments).or_else(|| systems::worker(&arguments)) {
        return code;
    }
    let outcome = match Task::parse(&arguments, seed()) {
        Ok(Task::Render) => store::render(),
        Ok(Task::Measure(plan)) => run(&plan),
        Ok(Task::Simulate) => scale::simulate(),
        Ok(Task::Apart(Apart::Scale, is_quick, seed)) => scale::run(is_quick, seed),
        Ok(Task::Apart(Apart::Systems, is_quick, seed)) => systems::run(seed, is_quick),
        Ok(Task::Apart(Apart::Threads, is_quick, seed)) => threads::run(is_quick, seed),
        Ok(Task::Apart(Apart::Fleet, is_quick, seed)) => fleet::run(is_quick, seed),
        Err(text) => Err(text),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

/// The value of `RLOCK_SEED`, or a new seed each time.
fn seed() -> u64 {
    let given = std::env::var("RLOCK_SEED").ok().filter(|text| !text.is_empty());
    match given {
        Some(text) => text.parse().unwrap_or_else(|_| panic!("RLOCK_SEED={text} is not a number")),
        None => SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| u64::from(time.subsec_nanos())),
    }
}

fn run(plan: &Plan) -> Result<(), String> {
    placement::require_two_cores();
    let results = measure(plan)?;
    print!("{}", doc::everything(&results));
    let path = if plan.is_full() || plan.is_of_targets() && !store::is_main(&results.environment) {
        store::save(results)?
    } else if plan.is_alone("stalls")
        || plan.is_alone("client")
        || plan.is_alone("clients") && results.clients.is_some()
        || plan.is_alone("redisson") && results.redisson.is_some()
    {
        store::save_beside(results)?
    } else {
        println!(
            "\nnot stored: only a run of everything is, or of stalls, client, clients or redisson, or of targets on another server"
        );
        return Ok(());
    };
    store::render()?;
    println!("\nstored in {}, and docs/BENCHMARKS.md remade", path.display());
    Ok(())
}

/// The parts of a run in which the load generator imitates Redisson.
fn imitated(plan: &Plan, progress: &Progress, results: &mut Results) -> Result<(), String> {
    let imitates = ["uncontended", "contention", "memory", "readers"].iter().any(|one| plan.wants(one));
    let redisson = if imitates { redisson::imitations(progress)? } else { Vec::new() };
    let newest = redisson.iter().find(|imitation| imitation.release == Release::Newest);
    if plan.wants("uncontended") {
        results.uncontended = uncontended::run(plan, &redisson, progress);
    }
    if plan.wants("contention") {
        results.contention = contention::run(plan, newest, progress);
    }
    if plan.wants("memory") {
        results.memory = memory::run(plan, newest, progress);
    }
    if plan.wants("readers") {
        results.readers = readers::run(plan, newest, progress);
    }
    Ok(())
}

fn measure(plan: &Plan) -> Result<Results, String> {
    let (begin, progress) = (Instant::now(), Progress::start());
    let mut environment = Environment::now(plan.seed);
    let mut results = Results {
        schema: SCHEMA,
        uncontended: Vec::new(),
        contention: Vec::new(),
        memory: Vec::new(),
        readers: Vec::new(),
        client: None,
        clients: None,
        redisson: None,
        stalls: None,
        environment: environment.clone(),
    };
    imitated(plan, &progress, &mut results)?;
    if plan.wants("redisson") {
        results.redisson = redisson::run(plan, &environment, &progress);
    }
    if plan.wants("client") {
        results.client = Some(client::run(plan, &environment, &progress)?);
    }
    let clients =
        plan.wants("clients").then(|| clients::run(plan, &progress)).filter(|rows| !rows.is_empty());
    let stalls = plan.wants("stalls").then(|| stalls::run(plan, &progress));
    progress.end();
    environment.load[1] = environment::load();
    environment.seconds = begin.elapsed().as_secs();
    results.clients = clients.map(|rows| Clients { environment: environment.clone(), rows });
    if let Some(client) = &mut results.client {
        client.environment = environment.clone();
    }
    if let Some(releases) = &mut results.redisson {
        releases.environment = environment.clone();
    }
    results.stalls = stalls.map(|rows| Stalls { environment: environment.clone(), rows });
    results.environment = environment;
    Ok(results)
}
