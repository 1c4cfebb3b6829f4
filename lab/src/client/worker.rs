//! The work of a measured process. Lines on standard input ask for it, lines on standard output answer.
//!
//! | line | does | answer |
//! |---|---|---|
//! | `pairs N KEY` | N times acquire and release, one after the other | `WALL-NS CPU-NS` |
//! | `turns N KEY` | N times acquire, hold for 1 to 2 ms, release | N lines `ACQUIRED-NS RELEASED-NS`, by one clock for all processes |
//! | `contend MS KEY` | acquires, holds for MS and releases, until the next line | `held` after the first time; at the end how often, and as many lines as for `turns` |
//! | `hold N SECONDS` | acquires N locks, then measures for that time | `WALL-NS CPU-NS` |
//!
//! This file is part of two programs: the benchmarks, and the programs of other crates in ../../peers.

use std::io::BufRead;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A way to lock.
pub(crate) trait Contender {
    /// The guard.
    type Held;

    /// Waits for the lock as long as it takes.
    async fn acquire(&mut self, key: &str) -> Self::Held;

    /// Releases it, and awaits the answer.
    async fn release(&mut self, held: Self::Held);
}

/// Does the work that the input asks for, until the input ends.
pub(crate) async fn serve(mut contender: impl Contender) {
    let mut lines = input();
    while let Some(line) = lines.recv().await {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["pairs", count, key] => pairs(&mut contender, number(count), key).await,
            ["turns", count, key] => turns(&mut contender, number(count), key).await,
            ["contend", ms, key] => contend(&mut contender, number(ms), key, &mut lines).await,
            ["hold", count, seconds] => hold(&mut contender, number(count), number(seconds)).await,
            _ => panic!("unknown work: {line}"),
        }
    }
}

fn number(word: &str) -> u64 {
    word.parse().unwrap_or_else(|error| panic!("{word}: {error}"))
}

/// Reads in a separate thread, so that background tasks keep running.
fn input() -> UnboundedReceiver<String> {
    let (sender, lines) = unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

async fn pairs(contender: &mut impl Contender, count: u64, key: &str) {
    let (wall, cpu) = (clock(), cpu());
    for _ in 0..count {
        let held = contender.acquire(key).await;
        contender.release(held).await;
    }
    println!("{} {}", clock() - wall, self::cpu() - cpu);
}

async fn turns(contender: &mut impl Contender, count: u64, key: &str) {
    let mut times = Vec::new();
    for _ in 0..count {
        // Long enough for the other process to ask for the lock.
        times.push(turn(contender, 1, key).await);
    }
    show(&times);
}

async fn contend(contender: &mut impl Contender, ms: u64, key: &str, lines: &mut UnboundedReceiver<String>) {
    let mut times = vec![turn(contender, ms, key).await];
    println!("held");
    while lines.try_recv().is_err() {
        times.push(turn(contender, ms, key).await);
    }
    println!("{}", times.len());
    show(&times);
}

/// When it had the lock, and the moment before it released it.
async fn turn(contender: &mut impl Contender, ms: u64, key: &str) -> (u64, u64) {
    let held = contender.acquire(key).await;
    let acquired = clock();
    if ms > 0 {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
    let released = clock();
    contender.release(held).await;
    (acquired, released)
}

fn show(times: &[(u64, u64)]) {
    for (acquired, released) in times {
        println!("{acquired} {released}");
    }
}

async fn hold(contender: &mut impl Contender, count: u64, seconds: u64) {
    let mut all = Vec::new();
    for lock in 0..count {
        all.push(contender.acquire(&format!("held:{lock}")).await);
    }
    let (wall, cpu) = (clock(), cpu());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    println!("{} {}", clock() - wall, self::cpu() - cpu);
    for held in all {
        contender.release(held).await;
    }
}

/// Nanoseconds by a clock that all processes share.
pub(crate) fn clock() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    nanoseconds(time.tv_sec, time.tv_nsec)
}

/// The CPU time of this process so far, user and system.
fn cpu() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    nanoseconds(time.tv_sec, time.tv_nsec)
}

fn nanoseconds(seconds: i64, nanoseconds: i64) -> u64 {
    u64::try_from(seconds * 1_000_000_000 + nanoseconds).expect("clocks count from 0")
}
