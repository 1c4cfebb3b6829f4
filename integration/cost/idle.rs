//! Commands that the server executes one by one.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// The time limit for a server in valgrind to execute one command.
const SOON: Duration = Duration::from_secs(20);

/// Makes the server with this process id do something, and waits until it sleeps again.
///
/// Two commands that arrive together share one cycle of the event loop: their cost would depend on whether the client or the
/// server is faster.
#[track_caller]
pub(crate) fn until_idle(pid: u32, act: impl FnOnce()) {
    let (_, before) = sleeps(pid);
    act();
    let deadline = Instant::now() + SOON;
    while !matches!(sleeps(pid), (true, count) if count > before) {
        assert!(Instant::now() < deadline, "the server is still busy");
        thread::yield_now();
    }
}

/// Whether the main thread of a process sleeps, and how many times it fell asleep.
#[track_caller]
fn sleeps(pid: u32) -> (bool, u64) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name));
        value.unwrap_or_else(|| panic!("no {name} in {status}")).trim()
    };
    (field("State:").starts_with('S'), field("voluntary_ctxt_switches:").parse().unwrap())
}
