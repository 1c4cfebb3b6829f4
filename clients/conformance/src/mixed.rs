//! The mixed run: clients of all languages contend for one lock while connections break and processes stand still.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rlock_testkit::TestServer;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::driver::{Driver, Ear, Launch};
use crate::proxy::Proxy;

const LOCK: &str = "mixed";
const LEASE_MS: u64 = 1_500;
const WORKERS: usize = 3;
/// Longer than any wait, any outage and any lease together.
const ANSWER: Duration = Duration::from_secs(30);

/// Keeps the largest token that a holder brought, and returns it. A holder that stood still brings a smaller one.
const WITNESS: &str = "local v = redis.call('GET', KEYS[1]) or '0' \
    if tonumber(ARGV[1]) > tonumber(v) then v = ARGV[1] redis.call('SET', KEYS[1], v) end return tonumber(v)";

/// One language: its process, and a proxy for its client.
struct Team {
    name: String,
    driver: Mutex<Driver>,
    ear: Ear,
    proxy: Proxy,
    ids: AtomicU64,
}

/// From the answer to the last check that said that the lock was held.
struct Interval {
    from: i64,
    to: i64,
    guard: String,
}

#[derive(Default)]
struct Log {
    holds: Vec<Interval>,
    outcomes: BTreeMap<String, u64>,
}

impl Team {
    fn start(name: &str, launch: &Launch, server: &TestServer) -> Result<Team, String> {
        let driver = Driver::start(launch)?;
        let proxy = Proxy::to(server.port()).map_err(|error| error.to_string())?;
        let ear = driver.ear();
        let team =
            Team { name: name.to_string(), driver: Mutex::new(driver), ear, proxy, ids: AtomicU64::new(1) };
        let url = format!("redis://127.0.0.1:{}", team.proxy.port());
        team.ask(json!({"do": "hello", "protocol": 1}))?;
        let connect =
            json!({"do": "connect", "client": "c", "url": url, "lease_ms": LEASE_MS, "response_ms": 250});
        let answer = team.ask(connect)?;
        match answer.get("ok") {
            Some(Value::Bool(true)) => Ok(team),
            _ => Err(format!("{name}: {answer}")),
        }
    }

    fn ask(&self, mut request: Value) -> Result<Value, String> {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        request["id"] = id.into();
        self.driver.lock().unwrap_or_else(PoisonError::into_inner).send(&request)?;
        let line = self.ear.take(id, ANSWER).map_err(|error| format!("{}: {error}: {request}", self.name))?;
        Ok(Value::from(line.fields))
    }

    fn signal(&self, signal: Signal) {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner).signal(signal);
    }
}

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
        let chaos = chaos(&teams, fastrand::Rng::with_seed(seed), end);
        over.store(true, Ordering::Relaxed);
        let done: Result<Vec<()>, String> = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| Err("a worker panicked".to_string())))
            .collect();
        done.map(|_| chaos)
    });
    let faults = outcome?;
    let log = log.into_inner().unwrap_or_else(PoisonError::into_inner);
    report(&teams, &log, faults)
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
        let guard = format!("{}-{number}-{turn}", team.name);
        let acquire = json!({"do": "acquire", "client": "c", "guard": guard, "lock": LOCK, "timeout_ms": 4_000, "fenced": true});
        let answer = team.ask(acquire)?;
        let outcome = match answer.get("ok").and_then(Value::as_bool) {
            Some(true) => hold(team, &guard, &answer, &mut random, &mut raw, log)?,
            _ => answer.get("error").and_then(Value::as_str).unwrap_or("no error").to_string(),
        };
        if !["ok", "Timeout", "LockLost", "OutcomeUnknown", "Unreachable"].contains(&outcome.as_str()) {
            return Err(format!("{guard}: {outcome}: {answer}"));
        }
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        *log.outcomes.entry(format!("{} {outcome}", team.name)).or_default() += 1;
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
    let stamp = |answer: &Value, name: &str| answer.get(name).and_then(Value::as_i64).unwrap_or_default();
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
        if answer.get("ok") != Some(&json!(true)) {
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
    Ok(released.get("error").and_then(Value::as_str).unwrap_or("ok").to_string())
}

/// Breaks something now and then until the end; how often.
fn chaos(teams: &[Team], mut random: fastrand::Rng, end: Instant) -> BTreeMap<&'static str, u64> {
    let mut faults: BTreeMap<&'static str, u64> = BTreeMap::new();
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(random.u64(100..900)));
        let Some(team) = random.choice(teams) else { break };
        let pause = Duration::from_millis(random.u64(50..2_500));
        let fault = match random.u32(0..4) {
            0 => {
                team.proxy.cut();
                "cut"
            }
            1 => {
                team.proxy.silence(false);
                "silenced"
            }
            2 => {
                team.proxy.set_down(true);
                std::thread::sleep(pause);
                team.proxy.set_down(false);
                "refused"
            }
            _ => {
                team.signal(Signal::STOP);
                std::thread::sleep(pause);
                team.signal(Signal::CONT);
                "stopped"
            }
        };
        *faults.entry(fault).or_default() += 1;
        team.proxy.forget();
    }
    faults
}

fn report(teams: &[Team], log: &Log, faults: BTreeMap<&'static str, u64>) -> Result<(), String> {
    let mut holds: Vec<&Interval> = log.holds.iter().collect();
    holds.sort_by_key(|hold| hold.from);
    println!("mixed: {} holds, outcomes {:?}, faults {faults:?}", holds.len(), log.outcomes);
    let mut latest: Option<&Interval> = None;
    for hold in holds {
        if let Some(before) = latest.filter(|before| hold.from < before.to) {
            return Err(format!("a second holder: {} and {}", before.guard, hold.guard));
        }
        latest = latest.filter(|before| before.to > hold.to).or(Some(hold));
    }
    for team in teams {
        let mine = log.outcomes.get(&format!("{} ok", team.name)).copied().unwrap_or_default();
        if mine < 3 {
            return Err(format!("{} released {mine} locks: it does not get on", team.name));
        }
    }
    Ok(())
}
