//! Which cores client and server run on.
//!
//! The kernel's choice changes from second to second, and with it the server's cost to wake a client up: a
//! constant for every contender, but one that moves all ratios. The placement is fixed for this reason.

use crate::named::named;

use std::fs;
use std::thread::available_parallelism;

use rustix::io::Errno;
use rustix::thread::{CpuSet, Pid, sched_setaffinity};

named! {
    /// Where client and server run.
    enum Placement {
        /// Client and server take turns on one core: little more than the commands themselves is counted.
        OneCore = "one-core";
        /// Each has a separate core: the cost to wake the other core up is counted too.
        TwoCores = "two-cores";
    }
}

impl Placement {
    /// Puts this process and a server where they belong, and the server's replica on the client's other side.
    pub(crate) fn apply(self, server: u32, replica: Option<u32>) {
        let (client_core, replica_core) = match self {
            Placement::OneCore => (SERVER_CORE, OTHER_CORE),
            Placement::TwoCores => (OTHER_CORE, OTHER_CORE),
        };
        pin_process(std::process::id(), client_core);
        pin_process(server, SERVER_CORE);
        if let Some(replica) = replica {
            pin_process(replica, replica_core);
        }
    }
}

/// Core 0 of many machines serves the interrupts: the server gets another one.
const SERVER_CORE: usize = 1;
const OTHER_CORE: usize = 0;

/// Panics on a machine with a single core.
pub(crate) fn require_two_cores() {
    let cores = available_parallelism().map_or(1, usize::from);
    assert!(cores >= 2, "the benchmarks need two cores, this process may use {cores}");
}

/// Binds all threads of a process to one core.
fn pin_process(pid: u32, core: usize) {
    let tasks = format!("/proc/{pid}/task");
    let listing = fs::read_dir(&tasks).unwrap_or_else(|error| panic!("{tasks}: {error}"));
    for task in listing.flatten() {
        let thread =
            task.file_name().to_str().and_then(|id| Pid::from_raw(id.parse().ok()?)).expect("a thread's id");
        pin(thread, core);
    }
}

fn pin(thread: Pid, core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    if let Err(error) = sched_setaffinity(Some(thread), &set) {
        // A thread may have ended since it was listed.
        assert_eq!(error, Errno::SRCH, "binding a thread to core {core}: {error}");
    }
}
