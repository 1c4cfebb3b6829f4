//! The whole suite against one client.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Deserialize;
use serde_json::Value;

use crate::driver::Launch;
use crate::run::{Outcome, Pool, Problem, greet, run};
use crate::scenario::{Scenario, load};

/// A machine that stalled longer than this decides nothing about promptness.
const QUIET_MS: i64 = 40;

/// How often an inconclusive scenario is run, in all.
const ATTEMPTS: u32 = 3;

/// How a run went.
#[derive(Debug, Default)]
pub struct Report {
    /// The scenarios that passed.
    pub passed: Vec<String>,
    /// Those that failed, and why.
    pub failed: Vec<(String, String)>,
    /// Those that this client does not support, by `unsupported.json`.
    pub skipped: Vec<String>,
}

/// What a client does not do: a capability or a scenario, and the reason.
type Unsupported = BTreeMap<String, BTreeMap<String, String>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientFile {
    command: Vec<String>,
    #[serde(default)]
    build: Vec<String>,
}

/// The folder of the suite.
pub(crate) fn home() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Whether driver programs are built before they are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drivers {
    /// As their files say.
    Build,
    /// They were built before.
    Built,
}

/// How the client of this name is started. `own` is the reference driver.
pub fn launch(client: &str, own: &Path, drivers: Drivers) -> Result<Launch, String> {
    if client == "rust" {
        return Ok(Launch { command: vec![own.display().to_string()], dir: home() });
    }
    let dir = match client {
        "redisson" => home().join("../../integration/redisson"),
        _ => home().join("..").join(client),
    };
    let file = dir.join("conformance.json");
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let read: ClientFile =
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    if let Some((program, arguments)) = read.build.split_first().filter(|_| drivers == Drivers::Build) {
        let status = std::process::Command::new(program).args(arguments).current_dir(&dir).status();
        match status {
            Ok(status) if status.success() => (),
            Ok(status) => return Err(format!("{client}: the build ended with {status}")),
            Err(error) => return Err(format!("{client}: {program}: {error}")),
        }
    }
    Ok(Launch { command: read.command, dir })
}

/// The clients that have a driver program, the reference first. Redisson has one for the mixed run only.
pub fn clients() -> Vec<String> {
    let found = fs::read_dir(home().join("..")).into_iter().flatten().filter_map(Result::ok);
    let mut names: Vec<String> = found
        .filter(|entry| entry.path().join("conformance.json").exists())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names.insert(0, "rust".to_string());
    names
}

/// Which scenarios are run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice<'a> {
    /// Those whose names, or whose file's name, contain this.
    pub only: Option<&'a str>,
    /// Those that take long, too.
    pub long: bool,
}

/// Runs the chosen scenarios, and prints each line as it is known.
pub fn suite(client: &str, launch: Launch, choice: Choice<'_>) -> Result<Report, String> {
    let text = fs::read_to_string(home().join("unsupported.json"))
        .map_err(|error| format!("unsupported.json: {error}"))?;
    let lists: Unsupported =
        serde_json::from_str(&text).map_err(|error| format!("unsupported.json: {error}"))?;
    let list = lists.get(client).cloned().unwrap_or_default();
    let scenarios = load(&home().join("scenarios"))?;
    let beside = launch.clone();
    let mut pool = Pool::new(launch);
    let hello = greet(&mut pool)?;
    println!(
        "{client}: {} {}, {}",
        shown(&hello, "client"),
        shown(&hello, "version"),
        shown(&hello, "driver")
    );
    let capabilities: Vec<&str> = hello
        .get("capabilities")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut report = Report::default();
    stale(&list, &capabilities, &scenarios, &mut report);
    let chosen = |scenario: &&Scenario| {
        let named = |only| scenario.name.contains(only) || scenario.file.contains(only);
        choice.only.is_none_or(named) && (choice.long || !scenario.long)
    };
    // Scenarios of some clients only take time that the others do not need: they go beside the rest.
    let (usual, others): (Vec<_>, Vec<_>) =
        scenarios.iter().filter(chosen).partition(|scenario| scenario.needs.is_empty());
    let runs = Runs { client, list: &list, capabilities: &capabilities };
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| runs.each(&others, &mut Pool::new(beside)));
        report.extend(runs.each(&usual, &mut pool));
        report.extend(beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
    });
    Ok(report)
}

/// The runs of one client's scenarios.
struct Runs<'a> {
    client: &'a str,
    /// What it does not support.
    list: &'a BTreeMap<String, String>,
    capabilities: &'a [&'a str],
}

impl Runs<'_> {
    fn each(&self, scenarios: &[&Scenario], pool: &mut Pool) -> Report {
        let mut report = Report::default();
        for scenario in scenarios {
            let missing = scenario.needs.iter().find(|need| !self.capabilities.contains(&need.as_str()));
            match missing {
                Some(need) if self.list.contains_key(need) => report.skipped.push(scenario.name.clone()),
                Some(need) => {
                    let text = format!("the driver lacks {need}, and unsupported.json does not say so");
                    report.failed.push((scenario.name.clone(), text));
                }
                None => one(self.client, pool, scenario, self.list.contains_key(&scenario.name), &mut report),
            }
        }
        report
    }
}

impl Report {
    fn extend(&mut self, other: Report) {
        self.passed.extend(other.passed);
        self.failed.extend(other.failed);
        self.skipped.extend(other.skipped);
    }
}

fn shown<'a>(hello: &'a serde_json::Map<String, Value>, name: &str) -> &'a str {
    hello.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Entries that are not true: a capability that the driver has, or a name that is neither.
fn stale(
    list: &BTreeMap<String, String>,
    capabilities: &[&str],
    scenarios: &[Scenario],
    report: &mut Report,
) {
    for entry in list.keys() {
        let needed =
            scenarios.iter().any(|scenario| scenario.needs.contains(entry) || scenario.name == *entry);
        let later = ["semaphore", "sentinel", "cluster", "fork"].contains(&entry.as_str());
        if capabilities.contains(&entry.as_str()) {
            report
                .failed
                .push((entry.clone(), "it is in unsupported.json, and the driver supports it".to_string()));
        } else if !needed && !later {
            report
                .failed
                .push((entry.clone(), "it is in unsupported.json, and no scenario needs it".to_string()));
        }
    }
}

fn one(client: &str, pool: &mut Pool, scenario: &Scenario, unsupported: bool, report: &mut Report) {
    let begun = Instant::now();
    let (problem, log) = attempts(client, pool, scenario);
    let seconds = begun.elapsed().as_secs_f64();
    // Another client's lines may stand between.
    let line = |outcome: &str| println!("{client}: {outcome:5} {seconds:5.1} s  {}", scenario.name);
    match (problem, unsupported) {
        (None, false) => {
            line("ok");
            report.passed.push(scenario.name.clone());
        }
        (None, true) => {
            let text = "it is in unsupported.json, and passes".to_string();
            line("FAIL");
            report.failed.push((scenario.name.clone(), text));
        }
        (Some(_), true) => report.skipped.push(scenario.name.clone()),
        (Some(text), false) => {
            line("FAIL");
            println!("{log}");
            report.failed.push((scenario.name.clone(), text));
        }
    }
}

/// Runs it once, or again while a stall leaves its promptness open.
fn attempts(client: &str, pool: &mut Pool, scenario: &Scenario) -> (Option<String>, String) {
    let mut number = 1;
    loop {
        let Outcome { problem, stall_ms, log } = run(pool, scenario);
        match problem {
            None => return (None, log),
            Some(Problem::Wrong(text)) => return (Some(text), log),
            Some(Problem::Late(text)) if stall_ms <= QUIET_MS => return (Some(text), log),
            Some(Problem::Late(text)) if number == ATTEMPTS => {
                return (
                    Some(format!("{text} (inconclusive {ATTEMPTS} times: a stall of {stall_ms} ms)")),
                    log,
                );
            }
            Some(Problem::Late(text)) => {
                let name = &scenario.name;
                println!("{client}: again          {name}: {text} (inconclusive: a stall of {stall_ms} ms)");
                number += 1;
            }
        }
    }
}
