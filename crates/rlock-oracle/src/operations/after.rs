//! The view from outside after a step. Where the contract leaves a choice, the oracle follows the one that it sees, and judges it. It
//! never reads the memory of the core.

use std::collections::BTreeMap;

use super::op::{Channel, LOCKS, Lock, Op, Owner, Word};
use super::real::Real;
use super::values::{Answer, Entry, Value, Via, Waiter, named};

/// The view.
#[derive(Clone, Debug, Default)]
pub(super) struct After {
    /// The reply to the command of this step.
    pub(super) answer: Option<Answer>,
    pub(super) values: [Value; LOCKS.len()],
    pub(super) queues: [Vec<Waiter>; LOCKS.len()],
    pub(super) lists: [Vec<Entry>; LOCKS.len()],
    /// Whether a Redisson client at the head of each lock's fair list was called.
    pub(super) called: [bool; LOCKS.len()],
    /// The number of unlock messages of each lock.
    pub(super) unlock_messages: [usize; LOCKS.len()],
    /// The waiter that CANCEL has removed.
    cancelled: Option<(Lock, Owner)>,
    calls: BTreeMap<usize, Answer>,
    messages: Vec<(Channel, String)>,
}

impl After {
    /// The view after the latest step.
    pub(super) fn of(real: &Real, op: Option<Op>, answer: Option<Answer>) -> Self {
        let cancelled = match (op, &answer) {
            (Some(Op::Cancel { lock, owner }), Some(Answer::One)) => Some((lock, owner)),
            _ => None,
        };
        Self {
            answer,
            values: std::array::from_fn(|lock| real.value(Lock(lock))),
            queues: std::array::from_fn(|lock| real.queue(Lock(lock))),
            lists: std::array::from_fn(|lock| real.list(Lock(lock))),
            called: std::array::from_fn(|lock| real.has_called(Lock(lock))),
            unlock_messages: std::array::from_fn(|lock| real.unlock_messages(Lock(lock))),
            cancelled,
            calls: real.calls(),
            messages: real.messages(),
        }
    }

    /// Whether this waiter received a grant.
    fn is_granted(&self, lock: Lock, waiter: &Waiter) -> bool {
        match waiter.via {
            Via::Call(call) => matches!(self.calls.get(&call), Some(Answer::Holds(..))),
            Via::Channel(channel) => {
                let begin = format!("granted {} ", named(lock, waiter.owner));
                let word = |text: &str| Word::named(text.rsplit(' ').next().unwrap_or_default());
                let is_it = |text: &str| text.starts_with(&begin) && word(text) == waiter.word;
                self.messages.iter().any(|(on, text)| *on == channel && is_it(text))
            }
        }
    }

    /// Whether a waiting reader left the queue only when the lock had become free, of which Redisson clients receive a message: it
    /// received a grant, or its channel had no subscriber.
    pub(super) fn leaves_when_free(&self, lock: Lock, waiter: &Waiter) -> bool {
        let reads = matches!(self.values[lock.0], Value::ReadWrite(hash) if hash.reads[waiter.owner.0] > 0);
        let messages = self.unlock_messages[lock.0];
        if self.is_granted(lock, waiter) { reads && messages > 0 } else { messages > 1 }
    }

    /// Whether a waiter received no grant, and still waits in the same mode, or was removed by CANCEL.
    pub(super) fn stays(&self, lock: Lock, waiter: &Waiter) -> bool {
        let waits = |by: &Waiter| (by.owner, by.word) == (waiter.owner, waiter.word);
        let cancelled = self.cancelled == Some((lock, waiter.owner));
        !self.is_granted(lock, waiter) && (cancelled || self.queues[lock.0].iter().any(waits))
    }
}
