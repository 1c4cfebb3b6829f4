//! Everything at once for a while: every kind of client, faults, a replica and an append only file.
//!
//! `RLOCK_SOAK_SECONDS` says for how long (15), `RLOCK_SEED` what the dice say. Nobody but their holders
//! touches the clean locks, so they are never held twice but by readers; the others are deleted, renamed and time out.

mod client;
mod dice;
mod ending;
mod faults;

use std::env;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{panicking, spawn};
use std::time::{Duration, Instant, SystemTime};

use client::Client;
use ending::{check_copies, check_the_end, used_memory};
use rlock_testkit::commands::{SOON, counter};
use rlock_testkit::{TestServer, eventually};

/// How many clean locks there are, and how many others.
const LOCKS: usize = 8;
const DATABASES: usize = 4;

/// What is counted: locks taken, in which mode, how it went otherwise, and faults.
const KINDS: [&str; 18] = [
    "block", "enqueue", "try", "redisson", "renewal", "READ", "WRITE", "FAIR", "chain", "cancel", "repeat",
    "delete", "kill", "pause", "rename", "flush", "swap", "timeout",
];

/// What happens rarely or never.
const RARE: [&str; 1] = ["timeout"];

/// What all threads share.
struct Shared {
    server: TestServer,
    stop: AtomicBool,
    /// How many hold each clean lock.
    inside: [AtomicI64; LOCKS],
    counts: [AtomicU64; KINDS.len()],
    owners: AtomicU64,
    longest_wait: AtomicU64,
}

impl Shared {
    fn count(&self, kind: &str) -> u64 {
        self.counts[KINDS.iter().position(|known| *known == kind).unwrap()].fetch_add(1, SeqCst)
    }

    fn figures(&self) -> String {
        let figure = |(kind, count): (&&str, &AtomicU64)| format!("{kind} {}", count.load(SeqCst));
        KINDS.iter().zip(&self.counts).map(figure).collect::<Vec<_>>().join(", ")
    }
}

/// Tells how its thread ended.
struct Ending(Sender<bool>);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.send(panicking());
    }
}

/// Starts all threads; each tells when it ends whether it failed.
fn start(all: &Arc<Shared>, seed: u64) -> (usize, Receiver<bool>) {
    let kinds = [("block", 5), ("enqueue", 4), ("try", 2), ("redisson", 2), ("renewal", 2), ("fault", 1)];
    let kinds = kinds.iter().flat_map(|(kind, times)| (0..*times).map(|_| (*kind, 0)));
    let kinds: Vec<_> = kinds.chain((0..DATABASES).map(|db| ("chain", db))).collect();
    let (sender, endings) = channel();
    for (n, (kind, db)) in kinds.iter().copied().enumerate() {
        let (all, ending) = (Arc::clone(all), Ending(sender.clone()));
        spawn(move || {
            let client = Client::new(&all, db, seed.wrapping_add(n as u64 * 0x1_0000_0001));
            drop(all);
            client.work(kind, n);
            drop(ending);
        });
    }
    (kinds.len(), endings)
}

/// Lets everything run, with a line every 5 seconds; the memory in use after the first part.
fn run(all: &Shared, endings: &Receiver<bool>, lasts: Duration, seed: u64) -> i64 {
    let (begin, mut warm) = (Instant::now(), None);
    let mut next_line = Duration::from_secs(5);
    while begin.elapsed() < lasts {
        match endings.recv_timeout(Duration::from_millis(100)) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => panic!("a worker failed, RLOCK_SEED={seed}; {}", all.figures()),
        }
        if begin.elapsed() > lasts / 5 && warm.is_none() {
            warm = Some(used_memory(&all.server));
        }
        if begin.elapsed() >= next_line {
            next_line += Duration::from_secs(5);
            progress(&format!("soak, {} s: {}", begin.elapsed().as_secs(), all.figures()));
        }
    }
    warm.expect("memory was measured")
}

/// Writes a line at once, where a test's output would be kept back.
fn progress(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// Stops all threads, within 20 seconds.
fn stop(all: &Shared, workers: usize, endings: &Receiver<bool>, seed: u64) {
    all.stop.store(true, SeqCst);
    let deadline = Instant::now() + Duration::from_secs(20);
    for n in 0..workers {
        let left = deadline.saturating_duration_since(Instant::now());
        let failed = endings.recv_timeout(left).unwrap_or_else(|_| panic!("{n} of {workers} stopped"));
        assert!(!failed, "a worker failed, RLOCK_SEED={seed}");
    }
}

fn variable(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name}: {value}")))
}

#[test]
fn everything_at_once() {
    let clock = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros() as u64;
    let seed = variable("RLOCK_SEED").unwrap_or_else(clock);
    let lasts = Duration::from_secs(variable("RLOCK_SOAK_SECONDS").unwrap_or(15));
    progress(&format!("soak for {lasts:?}, RLOCK_SEED={seed}"));
    let builder = TestServer::builder().conf("appendonly", "yes").conf("appendfsync", "everysec");
    // It fills while memory is measured: 10 MB are the default of Valkey.
    let server = builder.conf("repl-backlog-size", "1mb").start();
    let replica = TestServer::builder().without_module().start();
    replica.replicate_from(&server);
    let all = Shared {
        server,
        stop: AtomicBool::default(),
        inside: Default::default(),
        counts: Default::default(),
        owners: AtomicU64::default(),
        longest_wait: AtomicU64::default(),
    };
    let all = Arc::new(all);
    let (workers, endings) = start(&all, seed);
    let warm = run(&all, &endings, lasts, seed);
    stop(&all, workers, &endings, seed);
    let all = eventually("the threads to be gone", SOON, {
        let mut all = Some(all);
        move || Arc::try_unwrap(all.take()?).map_err(|kept| all = Some(kept)).ok()
    });
    check_the_end(&all.server);
    let grown = used_memory(&all.server) - warm;
    let (figures, longest) = (all.figures(), all.longest_wait.load(SeqCst));
    let hand_offs = ["hand_offs", "foreign_turns", "revokes"].map(|name| counter(&all.server, name));
    progress(&format!(
        "soak, seed {seed}: {figures}; hand-offs, foreign turns, take-backs {hand_offs:?}; \
        longest wait for a clean lock {longest} ms; memory {grown:+}"
    ));
    assert!(grown < 3 << 20, "{grown} bytes more than after the beginning");
    for (kind, count) in KINDS.iter().zip(&all.counts).filter(|(kind, _)| !RARE.contains(kind)) {
        assert!(count.load(SeqCst) > 0, "{kind} never happened, RLOCK_SEED={seed}");
    }
    check_copies(all.server, &replica);
}
