//! What rlock costs, measured against the other ways to lock: `make bench` runs it.
//!
//! All contenders take turns in many short rounds of one run, in random order, and are compared within each
//! round: what disturbs the machine disturbs them alike. Results are ratios with their spread.

#![forbid(unsafe_code)]

mod client;
mod clients;
mod contender;
mod contention;
mod cpu;
mod environment;
mod memory;
mod placement;
mod plan;
mod progress;
mod readers;
mod redisson;
mod report;
mod resp;
mod results;
mod rng;
mod spread;
mod stalls;
mod store;
mod systems;
mod uncontended;
mod wire;

use std::process::ExitCode;
use std::time::{Instant, SystemTime};

use clients::Clients;
use plan::{Plan, Task};
use progress::Progress;
use report::tables;
use results::{Environment, Results, SCHEMA, Stalls};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(code) = client::worker(&arguments).or_else(|| systems::worker(&arguments)) {
        return code;
    }
    let outcome = match Task::parse(&arguments, seed()) {
        Ok(Task::Render) => store::render(),
        Ok(Task::Systems { seed, quick }) => systems::run(seed, quick),
        Ok(Task::Measure(plan)) => run(&plan),
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

/// Of `RLOCK_SEED`, or another one each time.
fn seed() -> u64 {
    let given = std::env::var("RLOCK_SEED").ok().filter(|text| !text.is_empty());
    match given {
        Some(text) => text.parse().unwrap_or_else(|_| panic!("RLOCK_SEED={text} is no number")),
        None => SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| u64::from(time.subsec_nanos())),
    }
}

fn run(plan: &Plan) -> Result<(), String> {
    placement::require_two_cores();
    let results = measure(plan);
    print!("{}", tables::everything(&results));
    let path = if plan.is_full() || plan.is_alone("uncontended") && !store::is_main(&results) {
        store::save(results)?
    } else if plan.is_alone("stalls") || plan.is_alone("clients") && results.clients.is_some() {
        store::save_beside(results)?
    } else {
        println!(
            "\nnot stored: only a run of everything is, of stalls, of clients, or of uncontended on another server"
        );
        return Ok(());
    };
    store::render()?;
    println!("\nstored in {}, and docs/BENCHMARKS.md remade", path.display());
    Ok(())
}

fn measure(plan: &Plan) -> Results {
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
        stalls: None,
        environment: environment.clone(),
    };
    if plan.wants("uncontended") {
        results.uncontended = uncontended::run(plan, &progress);
    }
    if plan.wants("contention") {
        results.contention = contention::run(plan, &progress);
    }
    if plan.wants("memory") {
        results.memory = memory::run(plan, &progress);
    }
    if plan.wants("readers") {
        results.readers = readers::run(plan, &progress);
    }
    if plan.wants("client") {
        results.client = Some(client::run(plan, &progress));
    }
    let clients =
        plan.wants("clients").then(|| clients::run(plan, &progress)).filter(|rows| !rows.is_empty());
    let stalls = plan.wants("stalls").then(|| stalls::run(plan, &progress));
    progress.end();
    environment.load[1] = environment::load();
    environment.seconds = begin.elapsed().as_secs();
    results.clients = clients.map(|rows| Clients { environment: environment.clone(), rows });
    results.stalls = stalls.map(|rows| Stalls { environment: environment.clone(), rows });
    results.environment = environment;
    results
}
