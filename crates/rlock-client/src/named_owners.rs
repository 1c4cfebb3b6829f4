//! Turns at using an owner that the user named.
//!
//! An owner that the client generates is used once. A named owner may be used again, so within a client only one
//! acquisition at a time has the right to use it, from its first request until the server has answered its last
//! release; an acquisition of the same lock in between re-enters that hold.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{Notify, OwnedMutexGuard};

use crate::hold::Hold;
use crate::message::Party;

/// From how many entries on those no longer used are looked for.
const PRUNE_FROM: usize = 64;

/// The right to use one owner for one lock.
#[derive(Default)]
pub(crate) struct Turn {
    pub(crate) gate: Arc<tokio::sync::Mutex<()>>,
    hold: Mutex<Weak<Hold>>,
    /// A hold was published, or an acquisition has begun.
    pub(crate) changed: Notify,
}

impl Turn {
    /// The hold that has the turn, if it was acquired.
    pub(crate) fn hold(&self) -> Option<Arc<Hold>> {
        let hold = self.hold.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        hold.filter(|hold| hold.has_turn())
    }

    /// Waits for the right to use the owner. At that moment, acquisitions that wait for no other one leave the line.
    pub(crate) async fn take(&self) -> OwnedMutexGuard<()> {
        let gate = self.gate.clone().lock_owned().await;
        self.changed.notify_waiters();
        gate
    }

    /// Others may enter this hold.
    pub(crate) fn publish(&self, hold: &Arc<Hold>) {
        *self.hold.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(hold);
        self.changed.notify_waiters();
    }
}

/// The turns of all owners that the user named.
#[derive(Default)]
pub(crate) struct Turns {
    turns: Mutex<HashMap<Party, Arc<Turn>>>,
}

impl Turns {
    pub(crate) fn of(&self, party: &Party) -> Arc<Turn> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(party) {
            return turn.clone();
        }
        if turns.len() >= PRUNE_FROM {
            turns.retain(|_, turn| Arc::strong_count(turn) > 1 || Arc::strong_count(&turn.gate) > 1);
        }
        turns.entry(party.clone()).or_default().clone()
    }
}
