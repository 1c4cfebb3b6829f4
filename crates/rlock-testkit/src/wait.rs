//! Waiting for a condition instead of sleeping.

use std::env;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The time limit for any step that does not depend on time: the machine may be very busy.
pub const SOON: Duration = Duration::from_secs(10);

/// Pause between two attempts: short against the latencies under test, long against busy waiting.
const PAUSE: Duration = Duration::from_millis(1);

/// A time limit of the kit, or `RLOCK_TEST_PATIENCE` times that: for servers that run in an emulator. What a test says of time
/// itself stays as it is.
pub(crate) fn patient(within: Duration) -> Duration {
    let factor = env::var("RLOCK_TEST_PATIENCE").ok().filter(|value| !value.is_empty());
    within * factor.map_or(1, |factor| factor.parse().expect("RLOCK_TEST_PATIENCE is a whole number"))
}

/// Calls `attempt` about every millisecond until it returns `Some`, and returns what it holds.
///
/// Panics when `within` has passed; `what` names in the message what was waited for.
/// `attempt` is always called once more after the deadline, so that a machine too busy to run
/// this thread does not fail a condition that holds.
#[track_caller]
pub fn eventually<T>(what: &str, within: Duration, attempt: impl FnMut() -> Option<T>) -> T {
    match poll(within, attempt) {
        Some(value) => value,
        None => panic!("waited {within:?} in vain for: {what}"),
    }
}

/// Waits until a condition holds, for ten seconds at most.
#[track_caller]
pub fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    eventually(what, SOON, || condition().then_some(()));
}

/// Like [`eventually`], but returns `None` when `within` has passed.
pub fn poll<T>(within: Duration, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + patient(within);
    loop {
        let last = Instant::now() >= deadline;
        if let Some(value) = attempt() {
            return Some(value);
        }
        if last {
            return None;
        }
        sleep(PAUSE);
    }
}
