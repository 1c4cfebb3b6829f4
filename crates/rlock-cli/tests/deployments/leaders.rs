//! How long a fault keeps a job without its leader: docs/JOBS.md compares this with a sidecar of Kubernetes.

use std::fs;
use std::path::Path;
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use rlock_testkit::clients;
use rlock_testkit::clients::watched::{FAILED_OVER, Member, Watched, await_heir};
use rlock_testkit::{Door, TestServer, eventually};

use crate::figures::{self, Recovery};
use crate::support::{Files, Running, SOON, Signal, await_waiters, renewed, start_at};

/// That of a leader election in Kubernetes: `--leader-elect-lease-duration`.
const LEASE: Duration = Duration::from_secs(15);

const SESSION_GRACE: Duration = Duration::from_secs(5);

/// How much later a busy machine may notice anything.
const BUSY: Duration = Duration::from_secs(6);

/// The options of `rlock lead` in a measurement.
#[derive(Clone, Copy)]
enum Options {
    Lease,
    Session,
}

impl Options {
    fn words(self) -> &'static [&'static str] {
        match self {
            Options::Lease => &["--lease", "15s"],
            Options::Session => &["--lease", "15s", "--session-grace", "5s"],
        }
    }

    /// How long the lock may outlast a leader that is gone.
    fn longest(self) -> Duration {
        match self {
            Options::Lease => LEASE,
            Options::Session => SESSION_GRACE,
        }
    }
}

/// A process that leads, or waits for that. Its command notes the begin and the end of each term.
fn lead(url: &str, options: Options, log: &Path, name: &str) -> Running {
    let log = log.display();
    let script =
        format!("trap 'echo {name} ends >>{log}; exit 0' TERM; echo {name} begins >>{log}; sleep 600 & wait");
    start_at(url, &[&["lead", "cluster"], options.words(), &["--", "sh", "-c", &script]].concat())
}

fn terms(log: &Path) -> Vec<String> {
    fs::read_to_string(log).unwrap_or_default().lines().map(str::to_string).collect()
}

/// Waits until the log has these lines.
#[track_caller]
fn await_terms(log: &Path, wanted: &[&str]) -> Instant {
    eventually(&format!("the terms {wanted:?}"), SOON, || (terms(log) == wanted).then(Instant::now))
}

/// A leader and a follower, each with its way to the server, of which the leader's can be shut.
struct Pair {
    server: TestServer,
    door: Door,
    files: Files,
    leader: Running,
    _follower: Running,
}

impl Pair {
    fn start(options: Options) -> Pair {
        let (server, files) = (TestServer::start(), Files::new());
        let door = Door::to(server.port());
        let log = files.path("log");
        let leader = lead(&format!("redis://127.0.0.1:{}", door.port()), options, &log, "one");
        await_terms(&log, &["one begins"]);
        let follower = lead(&clients::url(&server), options, &log, "two");
        await_waiters(&mut server.connect(), "cluster", 1);
        Pair { server, door, files, leader, _follower: follower }
    }
}

/// The process of rlock dies, and its command with it.
fn after_a_kill(options: Options) -> Duration {
    let pair = Pair::start(options);
    let began = Instant::now();
    pair.leader.signal(Signal::KILL);
    await_terms(&pair.files.path("log"), &["one begins", "two begins"]) - began
}

/// The leader's machine lives, and reaches no server: its command ends before the next leader's begins.
fn after_silence(options: Options) -> Duration {
    let pair = Pair::start(options);
    let began = Instant::now();
    pair.door.set_shut(true);
    let next = await_terms(&pair.files.path("log"), &["one begins", "one ends", "two begins"]);
    drop(pair.server);
    next - began
}

/// The primary dies. The leader leads on; until its first renewal at the new primary.
fn after_a_fail_over(options: Options) -> Duration {
    let (watched, files) = (Watched::start(), Files::new());
    let (url, log) = (watched.url(), files.path("log"));
    let leader = lead(&url, options, &log, "one");
    await_terms(&log, &["one begins"]);
    let _follower = lead(&url, options, &log, "two");
    await_waiters(&mut watched.primary.server.connect(), "cluster", 1);
    watched.await_replicas();
    let Watched { primary: Member { server, door: _door }, replicas, sentinels } = watched;
    let began = Instant::now();
    server.kill9();
    let (heir, _) = await_heir(&sentinels, &replicas);
    eventually("a renewal at the new primary", SOON, || renewed(&heir.server).filter(|count| *count > 0));
    let renewed = began.elapsed();
    sleep(Duration::from_secs(1));
    assert_eq!(terms(&log), ["one begins"], "the leader stays");
    leader.signal(Signal::TERM);
    leader.ended().is(0, "");
    await_terms(&log, &["one begins", "one ends", "two begins"]);
    renewed
}

/// Trials that run side by side: nearly all of their time is waiting.
struct Trials {
    fault: &'static str,
    options: Options,
    longest: Duration,
    running: Vec<JoinHandle<Duration>>,
}

impl Trials {
    fn start(
        fault: &'static str,
        options: Options,
        longest: Duration,
        trial: fn(Options) -> Duration,
    ) -> Trials {
        let running = (0..if figures::are_stored() { 3 } else { 1 })
            .map(|_| thread::spawn(move || trial(options)))
            .collect();
        Trials { fault, options, longest, running }
    }

    fn end(self) -> Recovery {
        let times = self.running.into_iter().map(|trial| trial.join().expect("a measurement"));
        let ms: Vec<u64> = times.map(|time| u64::try_from(time.as_millis()).expect("a short time")).collect();
        let recovery =
            Recovery { options: self.options.words().join(" "), fault: self.fault.to_string(), ms };
        println!("{recovery:?}");
        let longest = (self.longest + BUSY).as_millis();
        assert!(recovery.ms.iter().all(|ms| u128::from(*ms) < longest), "{recovery:?}");
        recovery
    }
}

#[test]
fn another_process_leads_soon_after_a_fault() {
    let mut trials = Vec::new();
    for options in [Options::Lease, Options::Session] {
        trials.push(Trials::start("kill -9 of the leader", options, options.longest(), after_a_kill));
        // The server does not learn that a machine is gone, if no connection ends.
        trials.push(Trials::start("silent network of the leader", options, LEASE, after_silence));
    }
    let fail_over = "kill -9 of the primary: the leader stays; its next renewal";
    trials.push(Trials::start(fail_over, Options::Lease, FAILED_OVER, after_a_fail_over));
    figures::store_recoveries(trials.into_iter().map(Trials::end).collect());
}
