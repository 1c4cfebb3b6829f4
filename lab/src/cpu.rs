//! The CPU time that a server has used.

use std::fs::{self, ReadDir};
use std::path::PathBuf;
use std::time::Duration;

use rlock_testkit::TestServer;

/// A process whose CPU time is read from outside, at no cost to that process.
pub(crate) struct CpuMeter {
    tasks: PathBuf,
}

impl CpuMeter {
    /// Watches all threads of the process `pid`; panics where the kernel does not count.
    pub(crate) fn of(pid: u32) -> CpuMeter {
        let meter = CpuMeter { tasks: format!("/proc/{pid}/task").into() };
        let _ = meter.used();
        meter
    }

    /// The CPU time that all threads have used, in user and kernel mode.
    ///
    /// The kernel counts in nanoseconds and brings the count up to date when a thread goes to sleep: read it
    /// while the server is idle.
    pub(crate) fn used(&self) -> Duration {
        let listing = fs::read_dir(&self.tasks).unwrap_or_else(|error| {
            panic!("{}: {error}; the benchmarks need Linux and its schedstat", self.tasks.display())
        });
        sum(listing)
    }
}

/// The commands that a server has executed since its counts were reset, those in scripts too, but for these.
pub(crate) fn commands_but(server: &TestServer, own: &[&str]) -> f64 {
    let stats = server.info("commandstats");
    let calls = |(command, text): (&String, &String)| -> Option<u64> {
        let is_own = own.iter().any(|own| command.starts_with(&format!("cmdstat_{own}")));
        let calls = text.strip_prefix("calls=")?.split(',').next()?.parse().ok()?;
        (!is_own).then_some(calls)
    };
    stats.iter().filter_map(calls).sum::<u64>() as f64
}

/// The CPU time of a process, all its threads; `None` if it has ended.
pub(crate) fn used_by(pid: u32) -> Option<Duration> {
    fs::read_dir(format!("/proc/{pid}/task")).ok().map(sum)
}

fn sum(listing: ReadDir) -> Duration {
    let used = listing.flatten().map(|task| {
        // A thread that ends in between (never in an idle server) no longer counts.
        let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0)
    });
    Duration::from_nanos(used.sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;
    use std::time::Instant;

    #[test]
    fn work_is_counted_and_sleep_is_not() {
        let meter = CpuMeter::of(std::process::id());
        let begin = meter.used();
        let started = Instant::now();
        while meter.used() < begin + Duration::from_millis(20) {
            (0..10_000).for_each(|n| {
                black_box(n);
            });
            assert!(started.elapsed() < Duration::from_secs(20), "the CPU time stands still");
        }
    }
}
