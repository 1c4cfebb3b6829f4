//! Shows that the module works with software that this project did not write: Redisson, and client libraries
//! of several languages, each against a real server. `make interop` runs it; arguments name the parts to run.

mod excerpt;
mod lanes;
mod orders;
mod parts;
mod place;
mod rust_client;

use std::process::{Command, ExitCode};
use std::time::Instant;

use lanes::Failed;
use parts::{PARTS, Part};

/// Names the server that tests run on.
const SERVER: &str = "RLOCK_TEST_SERVER";

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let known = |name: &String| PARTS.iter().any(|part| part.name == *name);
    // All that run only when they are asked for.
    let long = wanted == ["long"];
    if let Some(unknown) = wanted.iter().find(|name| !long && !known(name)) {
        let names: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        eprintln!("interop: there is no part {unknown}; there are {}, and long alone", names.join(", "));
        return ExitCode::FAILURE;
    }
    let chosen = |part: &&Part| match &wanted[..] {
        [] => !part.long,
        _ if long => part.long,
        _ => wanted.iter().any(|name| name == part.name),
    };
    let chosen: Vec<&Part> = PARTS.iter().filter(chosen).collect();
    if let [part] = chosen[..] {
        return alone(part);
    }
    let start = Instant::now();
    if let Err(reason) = parts::prepare(&chosen) {
        eprintln!("interop: {reason}");
        return ExitCode::FAILURE;
    }
    let failed = lanes::run(&chosen);
    // Again, since it is far above: the record of a run may have its end alone.
    for Failed { name, output } in &failed {
        print!("\n=== {name} failed ===\n{}", excerpt::of(output));
    }
    println!("\nin {:.0} s{}", start.elapsed().as_secs_f64(), names_of(&failed));
    println!("{} passed, {} failed", chosen.len() - failed.len(), failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// On the server of the part: the kit learns of it by the environment.
fn alone(part: &Part) -> ExitCode {
    let server = part.server.map(place::server).transpose();
    match server {
        Ok(Some(server)) if std::env::var_os(SERVER).is_none_or(|set| set != server) => {
            let own = std::env::current_exe().expect("the path of this program");
            let status = Command::new(own).arg(part.name).env(SERVER, server).status();
            if status.is_ok_and(|status| status.success()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Ok(_) => here(part),
        Err(reason) => {
            println!("{}: {reason}", part.name);
            ExitCode::FAILURE
        }
    }
}

fn here(part: &Part) -> ExitCode {
    let start = Instant::now();
    println!("\n=== {} ===", part.name);
    let outcome = (part.run)();
    if let Err(reason) = &outcome {
        println!("{}: {reason}", part.name);
    }
    println!("({}: {:.1} s)", part.name, start.elapsed().as_secs_f64());
    if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn names_of(failed: &[Failed]) -> String {
    let names: Vec<&str> = failed.iter().map(|part| part.name).collect();
    if names.is_empty() { String::new() } else { format!("; failed: {}", names.join(", ")) }
}
