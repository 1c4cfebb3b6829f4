//! Runs the conformance suite: `rlock-conformance [CLIENT]... [--scenario PART] [--long]`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use rlock_conformance::{Choice, clients, launch, suite};

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

fn run() -> Result<bool, String> {
    let mut arguments = std::env::args().skip(1);
    let (mut names, mut only, mut long) = (Vec::new(), None, false);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--scenario" => only = Some(arguments.next().ok_or("--scenario needs a part of a name")?),
            "--long" => long = true,
            option if option.starts_with('-') => {
                return Err(format!("unknown option {option}; there are --scenario PART and --long"));
            }
            _ => names.push(argument),
        }
    }
    if names.is_empty() {
        names = clients();
    }
    let own = reference_driver()?;
    let mut good = true;
    for name in names {
        let begun = Instant::now();
        let report = suite(&name, launch(&name, &own)?, Choice { only: only.as_deref(), long })?;
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
        good &= report.failed.is_empty() && !report.passed.is_empty();
    }
    Ok(good)
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
