//! Many clients of every kind, faults, and a history that is checked: see docs/CHAOS.md, and `make chaos`.

mod clients;
mod copies;
mod dice;
mod ending;
mod faults;
mod history;
mod hush;
mod monitor;
mod places;
mod plan;
mod recorder;
mod report;
mod round;
mod scene;
mod wire;

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

/// How long a round lasts, without its beginning and its end.
const ROUND: Duration = Duration::from_secs(10);

/// What the command line says.
#[derive(Debug)]
struct Args {
    seconds: u64,
    seed: Option<u64>,
    /// Only this round of a run, to repeat it.
    round: Option<u64>,
    /// Where to store the figures.
    json: Option<String>,
    /// A page with a table of them.
    doc: Option<String>,
}

fn args() -> Result<Args, String> {
    let mut args = Args { seconds: 60, seed: None, round: None, json: None, doc: None };
    let mut words = std::env::args().skip(1);
    while let Some(name) = words.next() {
        let value = words.next().unwrap_or_default();
        let number = || value.parse::<u64>().map_err(|_| format!("{name} takes a number, not {value:?}"));
        match name.as_str() {
            "--seconds" => args.seconds = number()?,
            // Empty where make was given none.
            "--seed" if value.is_empty() => {}
            "--seed" => args.seed = Some(number()?),
            "--round" if value.is_empty() => {}
            "--round" => args.round = Some(number()?),
            "--json" => args.json = Some(value),
            "--doc" => args.doc = Some(value),
            _ => {
                return Err(format!(
                    "{name}? rlock-chaos [--seconds N] [--seed N] [--round N] [--json FILE] [--doc FILE]"
                ));
            }
        }
    }
    Ok(args)
}

fn main() -> ExitCode {
    let args = match args() {
        Ok(args) => args,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    let by_clock =
        || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(1, |now| now.as_micros() as u64);
    let seed = args.seed.unwrap_or_else(by_clock);
    println!("chaos for {} s, SEED={seed}", args.seconds);
    let (began, lasts) = (Instant::now(), Duration::from_secs(args.seconds));
    let mut report = report::Report::new(seed);
    let mut number = args.round.unwrap_or(0);
    loop {
        // Rounds take longer than they last: servers start, waits end, and all is checked. The last one has its time as
        // well, or its plan would be another.
        let round = lasts.min(ROUND);
        let mut say = |line: &str| println!("  round {number}, {line}");
        let outcome = round::run(seed, number, round, &mut say);
        report.add(number, &outcome);
        number += 1;
        if args.round.is_some() || began.elapsed() + Duration::from_secs(4) >= lasts {
            break;
        }
    }
    match report.finish(began.elapsed(), args.json.as_deref(), args.doc.as_deref()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
