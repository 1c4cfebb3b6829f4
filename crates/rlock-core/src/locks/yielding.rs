//! Leaving a lock to waiting Redisson clients, which learn of a release from Redisson's message and compete for the lock: a
//! lock with constant hand-offs would never be free for them, and one with overlapping native readers never for a writer.

use crate::types::{LeaseMs, Mode, MonoMs, UnixMs};

/// How long waiting Redisson clients are passed over before the module yields.
#[derive(Clone, Copy, Debug)]
pub struct Turns {
    /// The module yields after this number of native grants and readers in a row.
    pub after_grants: u32,
    /// The module also yields after this number of milliseconds.
    pub after_ms: u64,
}

/// The way of a lock from native owners to waiting Redisson clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yielding {
    /// Natives hold the lock in a row. The count continues while the queue is empty: two alternating native owners would
    /// keep a lock for ever, with one of them in the queue at most.
    Counting {
        /// The number of hand-offs of a mutex or a write lock, and of new readers.
        admitted: u32,
        /// The start of the row.
        since: MonoMs,
        /// The last of these hand-offs and readers.
        last: MonoMs,
    },
    /// New native readers are held back for a Redisson writer, until the lock is free, or the native leases have ended:
    /// Redisson readers continue to join each other.
    Draining {
        /// The time of the next check for a Redisson writer.
        look_at: MonoMs,
    },
    /// The free lock is left to Redisson clients. The window ends by the clock that never steps: waiters must not wait
    /// longer when the wall clock is set back.
    Window {
        /// The end of the window.
        until: MonoMs,
    },
}

/// A count without a native grant for this time is forgotten: its lock has ended without an event.
const FORGOTTEN_AFTER_MS: u64 = 3_600_000;

/// Readers are held back for this time after the last read lease, in ms: the window follows when the lock is found free.
const KEPT_AFTER_MS: i64 = 10_000;

impl Yielding {
    /// A count that begins now.
    pub fn counting(clock: MonoMs) -> Self {
        Self::Counting { admitted: 0, since: clock, last: clock }
    }

    /// Counts a native that was granted the lock, or began to read.
    pub fn admit(before: Option<Self>, clock: MonoMs) -> Self {
        match before {
            Some(Self::Counting { admitted, since, .. }) => {
                Self::Counting { admitted: admitted.saturating_add(1), since, last: clock }
            }
            Some(draining @ Self::Draining { .. }) => draining,
            None | Some(Self::Window { .. }) => Self::Counting { admitted: 1, since: clock, last: clock },
        }
    }

    /// Whether the module must yield if Redisson clients wait.
    pub fn is_due(self, turns: Turns, clock: MonoMs) -> bool {
        match self {
            Self::Counting { admitted, since, .. } => {
                admitted >= turns.after_grants || clock.0.saturating_sub(since.0) >= turns.after_ms
            }
            Self::Draining { .. } => true,
            Self::Window { .. } => false,
        }
    }

    /// The lock is free, and no native waits for it; `window_end` is the end of a window that begins now. An open window
    /// does not last longer than that.
    pub fn freed(self, window_end: Option<MonoMs>) -> Option<Self> {
        match self {
            Self::Counting { .. } => None,
            Self::Draining { .. } => window_end.map(|until| Self::Window { until }),
            Self::Window { .. } => Some(self),
        }
    }

    /// The lock was found held: its window is over.
    pub fn found_held(self) -> Option<Self> {
        Some(self).filter(|state| !matches!(state, Self::Window { .. }))
    }

    /// The last waiter has left; it wanted the lock in this mode. The window of a mutex ends with it: only the queue keeps
    /// others from a mutex. READ and WRITE ask for a window themselves, since readers that are held back need not wait. The
    /// mode of the waiter therefore decides which window outlives the queue.
    pub fn left_by_last_waiter(self, mode: Mode) -> Option<Self> {
        match mode {
            Mode::Read | Mode::Write => Some(self),
            Mode::Mutex | Mode::Permit => self.found_held(),
        }
    }

    /// The rest of the window, if it is open. A window in the past is closed, and so is a window longer than `longest`: the
    /// option was lowered in the meantime.
    pub fn window_left(self, clock: MonoMs, longest: Option<LeaseMs>) -> Option<LeaseMs> {
        let Self::Window { until } = self else { return None };
        time_left(until, clock).filter(|left| longest.is_some_and(|longest| *left <= longest))
    }

    /// The time until the next check for a Redisson writer, while readers are held back.
    pub fn look_in(self, clock: MonoMs) -> Option<LeaseMs> {
        let Self::Draining { look_at } = self else { return None };
        time_left(look_at, clock)
    }

    /// Whether time has ended this state without an event; `read_ends` is the end of the last native read lease.
    pub(super) fn is_old(self, read_ends: Option<UnixMs>, now: UnixMs, clock: MonoMs) -> bool {
        match self {
            Self::Counting { last, .. } => {
                clock.0.saturating_sub(last.0) >= FORGOTTEN_AFTER_MS
                    || read_ends.is_some_and(|ends| ends < now)
            }
            Self::Draining { .. } => {
                read_ends.is_none_or(|ends| ends.0.saturating_add(KEPT_AFTER_MS) < now.0)
            }
            Self::Window { until } => until <= clock,
        }
    }
}

fn time_left(until: MonoMs, clock: MonoMs) -> Option<LeaseMs> {
    until.0.checked_sub(clock.0).and_then(|left| LeaseMs::new(left.try_into().ok()?))
}

#[cfg(test)]
#[path = "yielding_tests.rs"]
mod tests;
