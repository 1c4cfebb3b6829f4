//! What the statistics count.

use crate::decision::Decision;
use crate::locks::Cause;

/// A fact that the statistics count.
#[derive(Clone, Copy, Debug)]
pub enum Note<'a> {
    /// A command's decision.
    Decided(&'a Decision),
    /// A waiter joined; the number of waiters now.
    Waiting(usize),
    /// A lock was handed off; the time that its waiter had waited, in milliseconds.
    HandedOff(u64),
    /// A lock with waiters was found free; no rlock command had freed it.
    Found(Cause),
    /// A grant to an enqueued waiter ended unconfirmed.
    Unconfirmed,
    /// The module yielded the lock to waiting Redisson clients.
    Yielded,
    /// A wait timed out.
    TimedOut,
    /// A wait was cancelled.
    Cancelled,
    /// A grant was revoked: its client disconnected before the answer.
    Revoked,
    /// This number of waiters disconnected, or could not be reached.
    Gone(usize),
    /// A waiter was sent away.
    SentAway,
    /// A call was refused: its user has its share of the waiters or of the ties.
    RefusedByShare,
}
