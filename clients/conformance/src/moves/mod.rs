//! Planned fail-overs: clients of all languages at one lock while an operator replaces the primary.

mod board;
mod long;
mod report;
mod stage;
mod worker;

use std::sync::atomic::Ordering;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rlock_testkit::clients::counter;
use rlock_testkit::{TestServer, poll};
use serde_json::json;

use crate::clock::{Stalls, boot_ns};
use crate::driver::Launch;
use crate::process::{Process, outcome};
use crate::run::Problem;
use board::Board;
use long::Long;
use report::Log;
use stage::{Moved, Stage};
use worker::Worker;

pub use stage::Way;

const MS: i64 = 1_000_000;

/// How long after it can know of it each client is at the new primary, at the latest.
const BOUND: i64 = 3_000 * MS;

/// For one answer, a wait included.
const ANSWER: Duration = Duration::from_secs(90);

/// A client of a driver program.
struct Client<'p> {
    process: &'p Process,
    handle: String,
}

/// How often a way is tried, if the machine was too slow for its leases.
const ATTEMPTS: u32 = 3;

/// Replaces a primary in each of these ways; an error is a client that did not do what it should.
pub fn moves(launches: Vec<(String, Launch)>, ways: &[Way], lease: Duration) -> Result<(), String> {
    // Sentinels need ten seconds until they know all.
    let start = |way: Way| (way, std::thread::spawn(move || Stage::start(way)));
    let stages: Vec<(Way, JoinHandle<Stage>)> = ways.iter().copied().map(start).collect();
    let processes: Result<Vec<Process>, String> =
        launches.iter().map(|(name, launch)| Process::start(name, launch)).collect();
    let processes = processes?;
    warm_up(&processes)?;
    let mut failed = Vec::new();
    // Servers without Sentinels are ready first.
    for (way, stage) in stages.into_iter().rev() {
        let stage = stage.join().map_err(|_| format!("{}: its servers did not start", way.name()))?;
        if !goes_well(way, stage, &processes, lease) {
            failed.push(way.name());
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("not right: {}", failed.join(", "))) }
}

/// Has each process hold a lock once: a process that loads its code meanwhile would miss its leases.
fn warm_up(processes: &[Process]) -> Result<(), String> {
    let server = TestServer::start();
    let url = format!("redis://127.0.0.1:{}", server.port());
    let hold = |process: &Process| {
        let [client, guard, lock] =
            ["client", "guard", "lock"].map(|what| format!("{}-{what}", process.name()));
        let requests = [
            json!({"do": "connect", "client": client, "name": client, "url": url, "lease_ms": 30_000}),
            json!({"do": "acquire", "client": client, "guard": guard, "lock": lock, "timeout_ms": 60_000}),
            json!({"do": "release", "guard": guard}),
            json!({"do": "close", "client": client}),
        ];
        requests.into_iter().try_for_each(|request| process.must(request, ANSWER).map(drop))
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = processes.iter().map(|process| scope.spawn(|| hold(process))).collect();
        let ended =
            all.into_iter().map(|one| one.join().map_err(|_| "a process was not warmed up".to_string())?);
        ended.collect()
    })
}

fn goes_well(way: Way, mut stage: Stage, processes: &[Process], lease: Duration) -> bool {
    for attempt in 1..=ATTEMPTS {
        let begun = boot_ns();
        let run = Run { way, stage: &stage, processes, lease, attempt, outage: OnceLock::new() };
        let problems = run.tried().unwrap_or_else(|problem| vec![problem.into()]);
        let name = way.name();
        println!("moves: {name}: {} problems, {:.1} s", problems.len(), (boot_ns() - begun) as f64 / 1e9);
        for problem in &problems {
            let (Problem::Wrong(text) | Problem::Late(text)) = problem;
            println!("moves: {name}: FAIL {text}");
        }
        let decided = problems.iter().any(|problem| matches!(problem, Problem::Wrong(_)));
        let is_slow = run.outage.get().is_some_and(|outage| *outage > lease.as_nanos() as i64 / 2);
        if problems.is_empty() || decided || !is_slow {
            return problems.is_empty();
        }
        println!("moves: {name}: inconclusive: the servers took half a lease; again");
        stage = Stage::start(way);
    }
    false
}

struct Run<'r> {
    way: Way,
    stage: &'r Stage,
    processes: &'r [Process],
    lease: Duration,
    attempt: u32,
    /// How long no primary took writes that clients could reach, in ns.
    outage: OnceLock<i64>,
}

impl Run<'_> {
    fn tried(&self) -> Result<Vec<Problem>, String> {
        let (tag, [before, after]) = (self.stage.tag(), self.stage.urls());
        let clients = self.connect(1, &before)?;
        let (board, log) = (Board::of(self.stage.old()), Mutex::new(Log::default()));
        let (longs, fresh) = (Long::acquire(&clients, &tag)?, OnceLock::new());
        let mut problems: Vec<Problem> = Vec::new();
        std::thread::scope(|scope| {
            longs.iter().for_each(|long| drop(scope.spawn(|| long.wait())));
            let (board, log, tag, clients) = (&board, &log, &tag, &clients);
            let work = |client| scope.spawn(move || Worker::of(client, board, log, tag, self.lease).run());
            let mut workers: Vec<_> = clients.iter().map(work).collect();
            let moved = self.replace(board, log).and_then(|moved| {
                let late = scope.spawn(move || self.late(clients, moved.findable));
                let fresh = fresh.get_or_init(|| self.connect(2, &after));
                workers.extend(fresh.as_ref().map_err(Clone::clone)?.iter().map(work));
                // After it the locks are free whose release was lost.
                let until = moved.findable + BOUND.max(self.lease.as_nanos() as i64) + 4_000 * MS;
                std::thread::sleep(Duration::from_nanos((until - boot_ns()).max(0) as u64));
                problems.extend(late.join().unwrap_or_default());
                Ok(moved)
            });
            // Whatever happened: workers and waiters end.
            board.over.store(true, Ordering::SeqCst);
            let wrong = workers.into_iter().filter_map(|worker| worker.join().ok()?.err());
            problems.extend(wrong.map(Problem::Wrong));
            if let Ok(moved) = &moved {
                problems.extend(longs.iter().flat_map(|long| long.end(moved.new)));
            }
            let all = clients.iter().chain(fresh.get().into_iter().flatten().flatten());
            problems.extend(all.filter_map(|client| client.close().err()).map(Problem::Wrong));
            match moved {
                Ok(moved) => problems.extend(self.judge(moved, log)),
                Err(problem) => problems.push(problem.into()),
            }
        });
        Ok(problems)
    }

    /// The problems that the servers and the log of all holds show, now that all clients are closed.
    fn judge(&self, moved: Moved<'_>, log: &Mutex<Log>) -> Vec<Problem> {
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        println!("moves: {}: {} holds; {}", self.way.name(), log.holds.len(), log.shown());
        let mut problems = log.problems(self.way.loses().then_some(moved.promoted));
        let wrong = left_behind(moved.new).into_iter().chain(self.stage.refusals());
        problems.extend(wrong.map(Problem::Wrong));
        problems
    }

    /// A client of each. One that connects while no server can be found is tried again.
    fn connect(&self, number: u32, url: &str) -> Result<Vec<Client<'_>>, String> {
        let until = boot_ns() + BOUND;
        let connect = |process| {
            for again in 0.. {
                let (name, attempt) = (Process::name(process), self.attempt);
                let handle = format!("{name}-{}-{attempt}{number}{again}", self.way.name());
                let mut request = json!({"do": "connect", "client": handle, "name": handle, "url": url});
                request["lease_ms"] = (self.lease.as_millis() as u64).into();
                let answer = process.ask(request, ANSWER)?;
                match outcome(&answer) {
                    "ok" => return Ok(Client { process, handle }),
                    "Unreachable" if boot_ns() < until => std::thread::sleep(Duration::from_millis(50)),
                    _ => return Err(format!("{handle}: {answer}")),
                }
            }
            Err("too many attempts".to_string())
        };
        self.processes.iter().map(connect).collect()
    }

    /// Replaces the primary, once each client has had the lock.
    fn replace<'s>(&'s self, board: &Board<'s>, log: &Mutex<Log>) -> Result<Moved<'s>, String> {
        let each = || {
            let log = log.lock().unwrap_or_else(PoisonError::into_inner);
            (log.clients_with("ok") == self.processes.len()).then_some(())
        };
        poll(Duration::from_secs(20), each).ok_or("not each client has had the lock at the old primary")?;
        board.begun.store(true, Ordering::SeqCst);
        let begun = boot_ns();
        let moved = self.stage.fail_over(self.lease / 10)?;
        let _ = board.new.set(moved.new);
        board.findable.store(moved.findable, Ordering::SeqCst);
        let outage = moved.findable - begun + if self.way == Way::Paused { 1_000 * MS } else { 0 };
        let _ = self.outage.set(outage);
        let promoted = (moved.promoted - begun) / MS;
        println!("moves: {}: another primary after {promoted} ms", self.way.name());
        Ok(moved)
    }

    /// The clients that left the old primary late, or not at all.
    fn late(&self, clients: &[Client<'_>], findable: i64) -> Vec<Problem> {
        if !self.stage.is_left() {
            return Vec::new();
        }
        let (stalls, mut old) = (Stalls::watch(), self.stage.old().connect());
        let mut there: Vec<&str> = clients.iter().map(|client| client.handle.as_str()).collect();
        let mut left = Vec::new();
        while boot_ns() < findable + BOUND + 2 * stalls.worst_ms() * MS && !there.is_empty() {
            // A Sentinel that demotes it ends all connections.
            let Ok(list) = redis::cmd("CLIENT").arg("LIST").query::<String>(&mut old) else {
                old = self.stage.old().connect();
                continue;
            };
            let after = (boot_ns() - findable) / MS;
            let (still, gone) = there.iter().partition(|name| list.contains(&format!(" name={name}")));
            left.extend(Vec::into_iter(gone).map(|name| format!("{name} {after}")));
            there = still;
            std::thread::sleep(Duration::from_millis(20));
        }
        println!("moves: {}: left the old primary, in ms: {}", self.way.name(), left.join(", "));
        there.iter().map(|name| Problem::Late(format!("{name} is at the old primary after 3 s"))).collect()
    }
}

impl Client<'_> {
    fn close(&self) -> Result<(), String> {
        self.process.must(json!({"do": "close", "client": self.handle}), ANSWER).map(drop)
    }
}

/// All clients are closed: no lock is left, and no waiter.
fn left_behind(new: &TestServer) -> Option<String> {
    let mut connection = new.connect();
    let mut left = String::new();
    let nothing = poll(Duration::from_secs(5), || {
        let locks: Result<Vec<String>, _> = redis::cmd("KEYS").arg("*long*").query(&mut connection);
        left = format!("{locks:?} and {} waiters", counter(new, "waiters"));
        (left == "Ok([]) and 0 waiters").then_some(())
    });
    nothing.is_none().then(|| format!("left behind: {left}"))
}
