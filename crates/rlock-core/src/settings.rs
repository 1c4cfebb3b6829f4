//! The configuration that the rules ask for.

use crate::decision::Admission;
use crate::locks::{Limits, TieLimits, Turns};
use crate::types::LeaseMs;

/// The configuration.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The owners that may acquire (`rlock.accept`).
    pub admission: Admission,
    /// The limits on waiters (`rlock.max-waiters`, `rlock.max-waiters-per-key`, `rlock.max-share-per-user`).
    pub limits: Limits,
    /// The lease of an unconfirmed grant to an enqueued waiter (`rlock.grant-confirm-ms`).
    pub grant_confirm: LeaseMs,
    /// When the module yields to waiting Redisson clients (`rlock.foreign-turn-grants`, `rlock.foreign-turn-ms`).
    pub turns: Turns,
    /// The yield window; `None` if the module never yields (`rlock.foreign-window-ms`).
    pub yield_window: Option<LeaseMs>,
    /// How long the module leaves a free lock to the Redisson waiter at the head of the fair list
    /// (`rlock.fair-turn-ms`).
    pub fair_turn: LeaseMs,
    /// The limits on ties to connections (`rlock.max-ties`, `rlock.max-share-per-user`).
    pub max_ties: TieLimits,
    /// The most locks in the table of hot locks (`rlock.hot-locks`).
    pub hot_locks: usize,
    /// The bounds of the work per event-loop cycle.
    pub at_once: AtOnce,
}

/// The bounds of the work in one event-loop cycle, for each kind of work: the server serves other clients in between.
/// Waits and leases that end at one moment therefore delay no client, and fifty thousand ended waits delay no hand-off.
///
/// They count bytes as well as items: an item with long names counts as several.
#[derive(Clone, Copy, Debug)]
pub struct AtOnce {
    /// Ended waits, waiters that are sent away, and ties that are freed.
    pub ended: usize,
    /// Entries of fair lists.
    pub listed: usize,
    /// Waiters that are granted a lock or leave the queue during a hand-off, by one command or by the timer.
    pub served: usize,
    /// Locks, ties and channels that are checked, for each reason.
    pub looked: usize,
    /// Lease keys of dead readers that one look reads. Their fields are removed before the next look.
    pub buried: usize,
}

impl AtOnce {
    /// Bounds of some milliseconds on a slow machine.
    pub const USUAL: Self = Self { ended: 500, listed: 500, served: 100, looked: 250, buried: 1_000 };
}
