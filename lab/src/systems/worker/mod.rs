//! One process of clients that lock by one system: told by lines on its standard input, answering by lines.
//!
//! | line | does | answer |
//! |---|---|---|
//! | `pairs N KEY` | N times acquire and release, one after the other | `NS 0` |
//! | `renewals N KEY` | acquires, and renews N times | `NS 0` |
//! | `wait W KEY` | one client holds the lock, W others wait for it, each with a connection or session | `0 0` |
//! | `hand-off N` | the lock changes hands N times; the last holder keeps it | N lines `RELEASED-NS ACQUIRED-NS` |
//! | `leave` | all clients of `wait` release or stop to wait, and disconnect | `0 0` |
//! | `load C MS` | C connections acquire and release, each its own lock, for MS | `PAIRS NS` |
//! | `hold KEY` | acquires the lock and keeps it | `ACQUIRED-NS 0` |
//!
//! Each holder keeps the lock for at least 1 ms. The times are those of a clock that all processes share. A client that gets the
//! lock while another holds it ends the process. The programs in lab/peers/systems do the same with etcd and ZooKeeper.

mod crowd;
mod dflockd;
mod load;
mod postgres;
mod redis;
mod way;

use std::io::BufRead;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use rustix::time::{ClockId, clock_gettime};

use crowd::Crowd;
pub(super) use dflockd::Dflockd;
pub(super) use way::Way;
use way::connect;

/// The argument by which this program becomes one of its own processes.
pub(super) const ROLE: &str = "systems-worker";

/// Runs a process, where this program was started as one: `systems-worker SYSTEM PORT LEASE-MS`.
pub(crate) fn worker(arguments: &[String]) -> Option<ExitCode> {
    let [role, system, port, lease_ms] = arguments else { return None };
    if role != ROLE {
        return None;
    }
    // A thread that panics ends the process, and with it the benchmark.
    std::panic::set_hook(Box::new(|info| {
        eprintln!("{info}");
        std::process::exit(1);
    }));
    let port = port.parse().expect("a port");
    serve(&|| connect(system, port, lease_ms));
    Some(ExitCode::SUCCESS)
}

fn serve(connect: &dyn Fn() -> Box<dyn Way>) {
    let mut own = connect();
    let mut crowd: Option<Crowd> = None;
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        match (&words[..], &mut crowd) {
            (["pairs", count, key], _) => pairs(&mut *own, number(count), key),
            (["renewals", count, key], _) => renewals(&mut *own, number(count), key),
            (["hold", key], _) => {
                own.acquire(key, &AtomicBool::new(false));
                println!("{} 0", clock());
            }
            (["wait", waiters, key], _) => {
                crowd = Some(Crowd::gather(connect, &mut *own, number(waiters), key));
                println!("0 0");
            }
            (["hand-off", count], Some(crowd)) => {
                for (released, acquired) in crowd.hand_off(number(count)) {
                    println!("{released} {acquired}");
                }
            }
            (["load", connections, ms], _) => load::run(connect, number(connections), number(ms)),
            (["leave"], Some(_)) => {
                crowd.take().into_iter().for_each(Crowd::leave);
                println!("0 0");
            }
            _ => panic!("unknown work: {line}"),
        }
    }
}

fn pairs(way: &mut dyn Way, count: usize, key: &str) {
    let begin = clock();
    for _ in 0..count {
        way.acquire(key, &AtomicBool::new(false));
        way.release(key);
    }
    println!("{} 0", clock() - begin);
}

fn renewals(way: &mut dyn Way, count: usize, key: &str) {
    way.acquire(key, &AtomicBool::new(false));
    let begin = clock();
    for _ in 0..count {
        way.renew(key);
    }
    println!("{} 0", clock() - begin);
    way.release(key);
}

fn number(word: &str) -> usize {
    word.parse().unwrap_or_else(|error| panic!("{word}: {error}"))
}

/// Nanoseconds by a clock that all processes share.
pub(crate) fn clock() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).expect("clocks count from 0")
}
