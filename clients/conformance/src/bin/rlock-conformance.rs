//! Runs the conformance suite: `rlock-conformance [CLIENT]... [--scenario PART] [--long]`, the mixed run:
//! `rlock-conformance [CLIENT]... --mixed SECONDS`, or planned fail-overs: `rlock-conformance [CLIENT]... --moves WAY[,WAY]...
//! [--lease SECONDS]`. `--build` only builds the driver programs; `--built` takes them as they are.

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rlock_conformance::{Choice, Drivers, Launch, Way, clients, launch, mixed, moves, suite};

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("rlock-conformance: {error}");
            ExitCode::from(2)
        }
    }
}

#[derive(Default)]
struct Options {
    names: Vec<String>,
    only: Option<String>,
    long: bool,
    mixed: Option<u64>,
    moves: Vec<Way>,
    lease: Option<u64>,
    build: bool,
    built: bool,
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options::default();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--scenario" => options.only = Some(arguments.next().ok_or("--scenario needs a part of a name")?),
            "--long" => options.long = true,
            "--build" => options.build = true,
            "--built" => options.built = true,
            "--mixed" | "--lease" => {
                let seconds = arguments.next().and_then(|seconds| seconds.parse().ok());
                let seconds = Some(seconds.ok_or_else(|| format!("{argument} needs a number of seconds"))?);
                if argument == "--mixed" { options.mixed = seconds } else { options.lease = seconds }
            }
            "--moves" => {
                for name in arguments.next().unwrap_or_default().split(',') {
                    let ways = Way::named(name).ok_or_else(|| format!("no way of a fail-over: {name:?}"))?;
                    options.moves.extend(ways);
                }
            }
            option if option.starts_with('-') => {
                return Err(format!("unknown option {option}; see the README of the conformance suite"));
            }
            _ => options.names.push(argument),
        }
    }
    if options.names.is_empty() {
        options.names = clients();
        options.names.extend(options.mixed.map(|_| "redisson".to_string()));
    }
    Ok(options)
}

fn run() -> Result<bool, String> {
    let options = options(std::env::args().skip(1))?;
    let own = reference_driver()?;
    let drivers = if options.built { Drivers::Built } else { Drivers::Build };
    let launches = || {
        let launch = |name: &String| Ok((name.clone(), launch(name, &own, drivers)?));
        options.names.iter().map(launch).collect::<Result<Vec<_>, String>>()
    };
    if options.build {
        return launches().map(|_| true);
    }
    if let Some(seconds) = options.mixed {
        let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
        return mixed(launches()?, Duration::from_secs(seconds), seed).map(|()| true);
    }
    if !options.moves.is_empty() {
        let lease = Duration::from_secs(options.lease.unwrap_or(3));
        return moves(launches()?, &options.moves, lease).map(|()| true);
    }
    let choice = Choice { only: options.only.as_deref(), long: options.long };
    side_by_side(launches()?, choice)
}

/// Runs the suites of all clients beside each other, since a scenario is mostly waiting; whether all have passed.
fn side_by_side(launches: Vec<(String, Launch)>, choice: Choice<'_>) -> Result<bool, String> {
    std::thread::scope(|scope| {
        let suites: Vec<_> = launches
            .into_iter()
            .map(|(name, launch)| scope.spawn(move || one_client(&name, launch, choice)))
            .collect();
        let ends = suites.into_iter().map(|suite| suite.join().unwrap_or_else(|panic| resume_unwind(panic)));
        // Each suite is awaited, whatever became of another.
        ends.collect::<Vec<_>>().into_iter().try_fold(true, |good, end: Result<bool, String>| Ok(good & end?))
    })
}

fn one_client(name: &str, launch: Launch, choice: Choice<'_>) -> Result<bool, String> {
    let begun = Instant::now();
    let report = suite(name, launch, choice)?;
    for (scenario, why) in &report.failed {
        println!("{name}: FAIL {scenario}: {why}");
    }
    println!(
        "{name}: {} passed, {} failed, {} unsupported, {:.0} s",
        report.passed.len(),
        report.failed.len(),
        report.skipped.len(),
        begun.elapsed().as_secs_f64()
    );
    Ok(report.failed.is_empty() && !report.passed.is_empty())
}

/// It is built beside this program.
fn reference_driver() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let driver = own.with_file_name("rlock-conformance-driver");
    if driver.exists() {
        Ok(driver)
    } else {
        Err("build it first: cargo build -p rlock-conformance".to_string())
    }
}
