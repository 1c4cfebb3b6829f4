//! Shows that the module works with software that this project did not write: Redisson, and client libraries
//! of several languages, each against a real server. `make interop` runs it; arguments name the parts to run.

mod parts;
mod place;

use std::process::ExitCode;
use std::time::Instant;

use parts::PARTS;

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let known = |name: &String| PARTS.iter().any(|part| part.name == *name);
    if let Some(unknown) = wanted.iter().find(|name| !known(name)) {
        let names: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        eprintln!("interop: there is no part {unknown}; there are {}", names.join(", "));
        return ExitCode::FAILURE;
    }
    let start = Instant::now();
    let chosen = PARTS.iter().filter(|part| wanted.is_empty() || wanted.iter().any(|name| name == part.name));
    let (mut passed, mut failed) = (0, Vec::new());
    for part in chosen {
        println!("\n=== {} ===", part.name);
        let start = Instant::now();
        match (part.run)() {
            Ok(()) => passed += 1,
            Err(reason) => {
                println!("{}: {reason}", part.name);
                failed.push(part.name);
            }
        }
        println!("({}: {:.1} s)", part.name, start.elapsed().as_secs_f64());
    }
    println!("\nin {:.0} s{}", start.elapsed().as_secs_f64(), names_of(&failed));
    println!("{passed} passed, {} failed", failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn names_of(failed: &[&str]) -> String {
    if failed.is_empty() { String::new() } else { format!("; failed: {}", failed.join(", ")) }
}
