//! The mixed run: clients of all languages contend for one lock while connections break and processes stand still.

mod report;
mod team;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rlock_testkit::TestServer;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::driver::Launch;
use crate::process::{outcome, stamp};
use report::{Interval, Log, report};
use team::Team;

const LOCK: &str = "mixed";
const LEASE_MS: u64 = 1_500;
const WORKERS: usize = 3;
/// Keeps the largest token that a holder brought, and returns it. A holder that stood still brings a smaller one.
pub(crate) const WITNESS: &str = "local v = redis.call('GET', KEYS[1]) or '0' \
    if tonumber(ARGV[1]) > tonumber(v) then v = ARGV[1] redis.call('SET', KEYS[1], v) end return tonumber(v)";

/// Runs for `time`; an error is a second holder, or a client that did not do what it should.
pub fn mixed(launches: Vec<(String, Launch)>, time: Duration, seed: Option<u64>) -> Result<(), String> {
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("mixed: seed {seed}, {} s", time.as_secs());
    let server = TestServer::start();
    let teams: Result<Vec<Team>, String> =
        launches.iter().map(|(name, launch)| Team::start(name, launch, &server)).collect();
    let teams = teams?;
    let (log, over) = (Mutex::new(Log::default()), AtomicBool::new(false));
    let end = Instant::now() + time;
    let outcome = std::thread::scope(|scope| {
        let mut workers = Vec::new();
        for (place, team) in teams.iter().enumerate() {
            for number in 0..WORKERS {
                let random = fastrand::Rng::with_seed(seed ^ (place * WORKERS + number + 1) as u64);
                let (log, over, server) = (&log, &over, &server);
                workers.push(scope.spawn(move || work(team, number, random, server, log, over)));
            }
        }
        let chaos = chaos(&teams, &server, fastrand::Rng::with_seed(seed), end);
        over.store(true, Ordering::Relaxed);
        let done: Result<Vec<()>, String> = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| Err("a worker panicked".to_string())))
            .collect();
        done.map(|_| chaos)
    });
    let faults = outcome?;
    let log = log.into_inner().unwrap_or_else(PoisonError::into_inner);
    report(&teams, &log, faults, time)
}

fn work(
    team: &Team,
    number: usize,
    mut random: fastrand::Rng,
    server: &TestServer,
    log: &Mutex<Log>,
    over: &AtomicBool,
) -> Result<(), String> {
    let mut raw = server.connect();
    let mut turn = 0;
    while !over.load(Ordering::Relaxed) {
        turn += 1;
        let guard = format!("{}-{number}-{turn}", team.name());
        let answer = team.ask(Team::acquire(&guard))?;
        let outcome = match outcome(&answer) {
            "ok" => hold(team, &guard, &answer, &mut random, &mut raw, log)?,
            error => error.to_string(),
        };
        if !["ok", "Timeout", "LockLost", "OutcomeUnknown", "Unreachable"].contains(&outcome.as_str()) {
            return Err(format!("{guard}: {outcome}: {answer}"));
        }
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        if outcome == "ok" {
            let longest = log.longest_ms.entry(team.name().to_string()).or_default();
            *longest = (*longest).max((stamp(&answer, "at") - stamp(&answer, "from")) / 1_000_000);
        }
        *log.outcomes.entry(team.name().to_string()).or_default().entry(outcome).or_default() += 1;
    }
    Ok(())
}

/// Holds the lock for a while; how it ended.
fn hold(
    team: &Team,
    guard: &str,
    acquired: &Value,
    random: &mut fastrand::Rng,
    raw: &mut redis::Connection,
    log: &Mutex<Log>,
) -> Result<String, String> {
    let from = stamp(acquired, "at");
    let mut interval = Interval { from, to: from, guard: guard.to_string() };
    let token = stamp(acquired, "token");
    for _ in 0..random.u32(1..6) {
        let largest: i64 = redis::cmd("EVAL")
            .arg(WITNESS)
            .arg(1)
            .arg("witness")
            .arg(token)
            .query(raw)
            .map_err(|error| error.to_string())?;
        let answer = team.ask(json!({"do": "check", "guard": guard}))?;
        if outcome(&answer) != "ok" {
            break;
        }
        interval.to = interval.to.max(stamp(&answer, "from"));
        if largest > token {
            return Err(format!(
                "a second holder: {guard} holds the lock with token {token}, and {largest} was there"
            ));
        }
        std::thread::sleep(Duration::from_millis(random.u64(0..30)));
    }
    log.lock().unwrap_or_else(PoisonError::into_inner).holds.push(interval);
    let released = team.ask(json!({"do": "release", "guard": guard}))?;
    Ok(outcome(&released).to_string())
}

/// Breaks something now and then until the end; how often.
fn chaos(
    teams: &[Team],
    server: &TestServer,
    mut random: fastrand::Rng,
    end: Instant,
) -> BTreeMap<&'static str, u64> {
    let mut faults: BTreeMap<&'static str, u64> = BTreeMap::new();
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(random.u64(100..900)));
        let Some(team) = random.choice(teams) else { break };
        let pause = Duration::from_millis(random.u64(50..2_500));
        let fault = match random.u32(0..9) {
            0 | 1 => {
                team.proxy.cut();
                "cut"
            }
            2 | 3 => {
                team.proxy.silence(false, false);
                "silenced"
            }
            4 | 5 => {
                team.proxy.set_down(true);
                std::thread::sleep(pause);
                team.proxy.set_down(false);
                "refused"
            }
            6 => {
                server.signal(Signal::STOP.as_raw());
                std::thread::sleep(pause);
                server.signal(Signal::CONT.as_raw());
                "server stopped"
            }
            _ => {
                team.process.signal(Signal::STOP);
                std::thread::sleep(pause);
                team.process.signal(Signal::CONT);
                "stopped"
            }
        };
        *faults.entry(fault).or_default() += 1;
        team.proxy.forget();
    }
    faults
}
