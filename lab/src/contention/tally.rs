//! The notes that the clients of a protocol take.

use std::time::{Duration, Instant};

/// The first hold time of every client. The poller has whole milliseconds: a hold can take twice as long.
const HOLD: Duration = Duration::from_millis(1);

/// The contended lock.
pub(crate) const LOCK: &str = "lock:invoice:7";

/// The lease in ms that all clients ask for: it never ends in a measurement.
pub(crate) const LEASE: &str = "30000";

/// The process part of all owners.
const PROCESS: &str = "285475da-9152-4c83-822a-67ee2f116a79";

/// Hand-offs of one measurement.
#[derive(Debug)]
pub(crate) struct Tally {
    /// The hold time of every client.
    pub(crate) hold: Duration,
    released: Option<Instant>,
    /// The number of clients that found the lock taken, and wait.
    waiting: usize,
    /// In µs, from the release to the next holder's knowledge.
    pub(crate) latencies: Vec<f64>,
    /// Grants of each client.
    pub(crate) grants: Vec<u32>,
}

impl Tally {
    /// For this many clients.
    pub(crate) fn new(clients: usize) -> Tally {
        Tally { hold: HOLD, released: None, waiting: 0, latencies: Vec::new(), grants: vec![0; clients] }
    }

    /// A client waits for its first time.
    pub(crate) fn waits(&mut self) {
        self.waiting += 1;
    }

    /// Whether all clients wait, except the first: it holds the lock.
    pub(crate) fn all_wait(&self) -> bool {
        self.waiting + 1 >= self.grants.len()
    }

    /// The holder is about to send its release.
    pub(crate) fn releases(&mut self) {
        self.released = Some(Instant::now());
    }

    /// A client has learned that it holds the lock. The very first acquisition does not count as a hand-off.
    pub(crate) fn granted(&mut self, client: usize, arrived: Instant) {
        if let Some(released) = self.released.take() {
            self.latencies.push(arrived.saturating_duration_since(released).as_secs_f64() * 1e6);
            self.grants[client] += 1;
        }
    }
}

/// The owner of an acquisition: by the convention it is never used again.
pub(crate) fn owner(number: usize) -> String {
    format!("{PROCESS}:{number}")
}

/// The number of an acquisition, from its owner's name.
pub(crate) fn number_of(owner: &[u8]) -> usize {
    let number = std::str::from_utf8(owner).ok().and_then(|owner| owner.rsplit_once(':')?.1.parse().ok());
    number.unwrap_or_else(|| panic!("not an owner of this benchmark: {}", String::from_utf8_lossy(owner)))
}
