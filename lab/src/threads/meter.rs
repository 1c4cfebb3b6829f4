//! The CPU time of a server's main thread and of its others, and its counters.

use std::fs;
use std::time::{Duration, Instant};

use rlock_testkit::TestServer;

use crate::cpu::CpuMeter;
use crate::wire::Wire;

/// The place of the time in user mode among the numbers of `stat` that follow the name; that in the kernel is the next.
const USER: usize = 10;

/// A server under load.
pub(super) struct Meter {
    /// The main thread's folder.
    task: String,
    cpu: CpuMeter,
    control: Wire,
}

/// What had happened at a time.
pub(super) struct Reading {
    at: Instant,
    main: Duration,
    all: Duration,
    /// Of the main thread, in user mode and in the kernel. The kernel counts them a hundred times a second.
    ticks: [i64; 2],
    commands: i64,
    calls: i64,
}

impl Meter {
    pub(super) fn of(server: &TestServer) -> Meter {
        let pid = server.pid();
        let control = Wire::connect(server.port()).expect("a connection");
        Meter { task: format!("/proc/{pid}/task/{pid}"), cpu: CpuMeter::of(pid), control }
    }

    pub(super) fn read(&mut self) -> Reading {
        // First: the server answers when it has executed what clients have sent, and they wait.
        let mut number = |field| self.control.info("stats", field);
        let commands = number("total_commands_processed");
        let calls = number("total_reads_processed") + number("total_writes_processed");
        let words = |name: &str| {
            let text = fs::read_to_string(format!("{}/{name}", self.task)).expect("a running server");
            // The second field of `stat` is a name in parentheses.
            let rest = text.rsplit(')').next().unwrap_or_default();
            rest.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<i64>>()
        };
        let (stat, main) = (words("stat"), Duration::from_nanos(words("schedstat")[0].unsigned_abs()));
        let (all, at) = (self.cpu.used(), Instant::now());
        Reading { at, main, all, ticks: [stat[USER], stat[USER + 1]], commands, calls }
    }
}

impl Reading {
    /// Locks a second; the main thread's µs in user mode and in the kernel, the other threads' µs, reads and writes for each lock.
    pub(super) fn since(&self, before: &Reading) -> [f64; 5] {
        let locks = (self.commands - before.commands) as f64 / 2.0;
        let us = |time: Duration| time.as_secs_f64() * 1e6 / locks;
        let main = self.main.saturating_sub(before.main);
        let others = self.all.saturating_sub(before.all).saturating_sub(main);
        let [user, kernel] = [0, 1].map(|mode| (self.ticks[mode] - before.ticks[mode]) as f64);
        let share = user / (user + kernel).max(1.0);
        [
            locks / (self.at - before.at).as_secs_f64(),
            us(main) * share,
            us(main) * (1.0 - share),
            us(others),
            (self.calls - before.calls) as f64 / locks,
        ]
    }
}
