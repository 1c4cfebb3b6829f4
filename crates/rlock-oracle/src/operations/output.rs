//! The output of a history since it was last taken.

use super::op::{Channel, LOCKS, Lock, Owner};
use super::values::Answer;

/// The reply to the last command, and what was published since it was last taken.
#[derive(Default)]
pub(super) struct Shown {
    pub(super) answer: Option<Answer>,
    pub(super) published: Published,
}

/// What was published.
#[derive(Default)]
pub struct Published {
    /// Messages to enqueued waiters.
    pub messages: Vec<(Channel, String)>,
    /// The number of unlock messages of each lock.
    pub unlock_messages: [usize; LOCKS.len()],
    /// Redisson waiters that were called at the head of a fair list.
    pub called: Vec<(Lock, Owner)>,
}
