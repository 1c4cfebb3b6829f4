//! The graces of the sessions of a client, which say how often its connections must prove that they are alive.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

/// The number of sessions with each grace.
#[derive(Default)]
pub struct Graces {
    counts: Mutex<BTreeMap<Duration, usize>>,
    shortest: watch::Sender<Option<Duration>>,
}

impl Graces {
    /// Counts one more session with this grace.
    pub fn add(&self, grace: Duration) {
        self.change(|counts| {
            let count = counts.entry(grace).or_default();
            *count = count.saturating_add(1);
        });
    }

    /// Counts one session less with this grace.
    pub fn remove(&self, grace: Duration) {
        self.change(|counts| {
            if let Some(count) = counts.get_mut(&grace) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    counts.remove(&grace);
                }
            }
        });
    }

    /// The shortest grace, and its changes.
    pub(super) fn shortest(&self) -> watch::Receiver<Option<Duration>> {
        self.shortest.subscribe()
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<Duration, usize>)) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut counts);
        let shortest = counts.keys().next().copied();
        self.shortest.send_if_modified(|before| std::mem::replace(before, shortest) != shortest);
    }
}
