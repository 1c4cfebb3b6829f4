//! One scenario, run against one client.

mod answers;
mod cluster;
mod finish;
mod steps;
mod transfers;
mod world;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use rlock_testkit::TestServer;
use rlock_testkit::clients::cluster::Cluster;
use serde_json::{Map, Value};

use crate::clock::Stalls;
use crate::driver::{Driver, Launch};
use crate::proxy::Proxy;
use crate::scenario::Scenario;

/// The hard bound of each step that waits for something.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// Why a scenario did not pass.
#[derive(Clone, Debug)]
pub(crate) enum Problem {
    Wrong(String),
    /// Right, but too late: on a machine that stalled, this decides nothing.
    Late(String),
}

impl From<String> for Problem {
    fn from(text: String) -> Problem {
        Problem::Wrong(text)
    }
}

impl From<&str> for Problem {
    fn from(text: &str) -> Problem {
        Problem::Wrong(text.to_string())
    }
}

/// The driver processes, kept from scenario to scenario.
pub(crate) struct Pool {
    launch: Launch,
    drivers: BTreeMap<String, Driver>,
    next_id: u64,
    scenarios: u64,
    pub(crate) hello: Option<Map<String, Value>>,
}

impl Pool {
    pub(crate) fn new(launch: Launch) -> Pool {
        Pool { launch, drivers: BTreeMap::new(), next_id: 1, scenarios: 0, hello: None }
    }
}

/// A request that was sent.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) id: u64,
    pub(crate) process: String,
    pub(crate) sent: i64,
    pub(crate) request: Map<String, Value>,
    pub(crate) answer: Option<Answer>,
}

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) from: i64,
    pub(crate) at: i64,
    pub(crate) error: Option<String>,
    pub(crate) fields: Map<String, Value>,
}

/// A client of the scenario.
pub(crate) struct Party {
    pub(crate) process: String,
    pub(crate) proxy: Proxy,
    /// The port that the client was given: the proxy's, or one without a server.
    pub(crate) port: u16,
    pub(crate) lease_ms: i64,
}

pub(crate) struct Run<'a> {
    pub(crate) scenario: &'a Scenario,
    pool: &'a mut Pool,
    prefix: String,
    pub(crate) server: Option<TestServer>,
    /// In place of `server`.
    pub(crate) cluster: Option<Cluster>,
    pub(crate) parties: BTreeMap<String, Party>,
    pub(crate) asked: Vec<Asked>,
    names: HashMap<String, u64>,
    saved: HashMap<String, f64>,
    pub(crate) killed: Vec<String>,
    /// Processes that the scenario killed, stopped or kept busy: they may be late.
    pub(crate) disturbed: Vec<String>,
    /// Processes that were stopped by SIGSTOP, each with the time until its SIGCONT.
    pub(crate) stops: Vec<(String, std::ops::Range<i64>)>,
    pub(crate) stalls: Stalls,
    pub(crate) start: i64,
}

/// Runs a scenario: the problem, the longest stall, and the transcript of a run that failed.
pub(crate) struct Outcome {
    pub(crate) problem: Option<Problem>,
    pub(crate) stall_ms: i64,
    pub(crate) log: String,
}

pub(crate) fn run(pool: &mut Pool, scenario: &Scenario) -> Outcome {
    pool.scenarios += 1;
    let prefix = format!("{}.", pool.scenarios);
    let mut builder = TestServer::builder();
    for (name, value) in &scenario.server.conf {
        builder = builder.conf(name, value);
    }
    if scenario.server.without_module {
        builder = builder.without_module();
    }
    let cluster = scenario.server.cluster.map(|primaries| cluster::start(&scenario.server, primaries));
    let server = cluster.is_none().then(|| builder.start());
    let mut run = Run::new(pool, scenario, prefix, server);
    run.cluster = cluster;
    run.pool.drivers.values().for_each(Driver::clear);
    let problem = run.whole().err();
    let log = if problem.is_some() { run.log() } else { String::new() };
    let outcome = Outcome { stall_ms: run.stalls.worst_ms(), log, problem };
    if outcome.problem.is_some() {
        // The state that a failed scenario left in its drivers must not fail the next one.
        run.pool.drivers.clear();
    }
    outcome
}

impl<'a> Run<'a> {
    fn new(
        pool: &'a mut Pool,
        scenario: &'a Scenario,
        prefix: String,
        server: Option<TestServer>,
    ) -> Run<'a> {
        Run {
            scenario,
            pool,
            prefix,
            server,
            cluster: None,
            parties: BTreeMap::new(),
            asked: Vec::new(),
            names: HashMap::new(),
            saved: HashMap::new(),
            killed: Vec::new(),
            disturbed: Vec::new(),
            stops: Vec::new(),
            stalls: Stalls::watch(),
            start: crate::clock::boot_ns(),
        }
    }
}

impl Run<'_> {
    fn whole(&mut self) -> Result<(), Problem> {
        let steps = self.scenario.steps.clone();
        for (place, step) in steps.iter().enumerate() {
            self.step(step).map_err(|problem| {
                let at = |text: String| format!("step {}: {text}", place + 1);
                match problem {
                    Problem::Wrong(text) => Problem::Wrong(at(text)),
                    Problem::Late(text) => Problem::Late(at(text)),
                }
            })?;
        }
        self.finish()
    }

    /// Whether the client says that it holds a grant by message at once.
    pub(crate) fn one_trip(&self) -> bool {
        self.has("one_trip")
    }

    /// Whether the driver has this capability.
    fn has(&self, capability: &str) -> bool {
        let capabilities = self.pool.hello.as_ref().and_then(|hello| hello.get("capabilities"));
        capabilities.and_then(Value::as_array).is_some_and(|all| all.contains(&capability.into()))
    }

    fn log(&self) -> String {
        let mut lines: Vec<(i64, String)> = Vec::new();
        for (name, party) in &self.parties {
            lines.extend(party.proxy.entries().iter().map(|entry| (entry.at, entry.line(name, self.start))));
        }
        for (process, driver) in &self.pool.drivers {
            let line = |line: &crate::driver::Line| {
                let at = (line.received - self.start) as f64 / 1e6;
                (line.received, format!("{at:10.1} {process} says {}", Value::from(line.fields.clone())))
            };
            lines.extend(driver.lines().iter().map(line));
        }
        lines.sort();
        let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
        lines.join("\n")
    }

    fn driver(&mut self, process: &str) -> Result<&mut Driver, Problem> {
        if !self.pool.drivers.contains_key(process) {
            let driver = Driver::start(&self.pool.launch)?;
            self.pool.drivers.insert(process.to_string(), driver);
            self.hello(process)?;
        }
        self.pool.drivers.get_mut(process).ok_or_else(|| "no driver".into())
    }

    pub(crate) fn running(&self, process: &str) -> Option<&Driver> {
        self.pool.drivers.get(process)
    }

    fn party(&self, client: &str) -> Result<&Party, Problem> {
        self.parties.get(client).ok_or_else(|| format!("the scenario has no client {client}").into())
    }
}

/// Greets a new driver without a scenario: what it says of itself.
pub(crate) fn greet(pool: &mut Pool) -> Result<Map<String, Value>, String> {
    let nothing = Scenario {
        name: "hello".to_string(),
        file: String::new(),
        _story: String::new(),
        needs: Vec::new(),
        server: Default::default(),
        leaves: false,
        long: false,
        steps: Vec::new(),
    };
    let mut run = Run::new(pool, &nothing, String::new(), None);
    match run.driver("p1") {
        Ok(_) => pool.hello.clone().ok_or_else(|| "no hello".to_string()),
        Err(Problem::Wrong(text) | Problem::Late(text)) => Err(text),
    }
}
