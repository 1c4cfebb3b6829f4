//! Whether a connection lives, for the holds that are tied to it by a session.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::clock::Instant;

/// What is known of a connection's life, also after its end.
#[derive(Default)]
pub(crate) struct Life {
    state: Mutex<LifeState>,
    ended: CancellationToken,
    /// Why it ended.
    why: OnceLock<String>,
    /// Told when a tie wants to be asked after sooner than all before it.
    quicker: Notify,
}

#[derive(Default)]
struct LifeState {
    /// When the last request was sent that was answered.
    proven: Instant,
    /// How many ties there are of each grace.
    graces: BTreeMap<Duration, usize>,
}

impl Life {
    /// A request that was sent at this moment was answered.
    pub(super) fn prove(&self, sent: Instant) {
        let mut state = self.state();
        state.proven = state.proven.max(sent);
    }

    /// The connection is used no longer, for this reason.
    pub(super) fn end(&self, why: String) {
        self.why.get_or_init(|| why);
        self.ended.cancel();
    }

    /// Waits until the connection is used no longer; says why.
    pub(super) async fn ended(&self) -> &str {
        self.ended.cancelled().await;
        self.why.get().map_or("", String::as_str)
    }

    /// The shortest grace of the ties, if there are any.
    pub(super) fn shortest_grace(&self) -> Option<Duration> {
        self.state().graces.keys().next().copied()
    }

    /// Waits until [`Life::shortest_grace`] is shorter than before.
    pub(super) async fn quicker(&self) {
        self.quicker.notified().await;
    }

    fn state(&self) -> MutexGuard<'_, LifeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tie of a hold to a connection: the server ends the hold this grace after the connection's end.
pub(crate) struct Tie {
    life: Arc<Life>,
    grace: Duration,
}

impl Tie {
    pub(crate) fn new(life: Arc<Life>, grace: Duration) -> Tie {
        let mut state = life.state();
        let shortest = state.graces.keys().next().is_none_or(|shortest| grace < *shortest);
        let ties = state.graces.entry(grace).or_default();
        *ties = ties.saturating_add(1);
        drop(state);
        if shortest {
            life.quicker.notify_one();
        }
        Tie { life, grace }
    }

    /// Until when the server certainly has the hold, its lease apart: the connection may have ended right after it was last
    /// proven to live.
    pub(crate) fn deadline(&self) -> Instant {
        self.life.state().proven.end_of(self.grace)
    }

    /// Whether the connection is used no longer: the hold must be tied to the next one.
    pub(crate) fn is_cut(&self) -> bool {
        self.life.ended.is_cancelled()
    }
}

impl Drop for Tie {
    fn drop(&mut self) {
        let graces = &mut self.life.state().graces;
        if let Some(ties) = graces.get_mut(&self.grace) {
            *ties = ties.saturating_sub(1);
            if *ties == 0 {
                graces.remove(&self.grace);
            }
        }
    }
}
