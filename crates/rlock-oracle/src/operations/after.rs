//! What is seen from outside after a step. Where the contract leaves a choice open, the oracle follows what was chosen, and
//! judges it; it never asks what the core remembers.

use std::collections::BTreeMap;

use super::op::{Channel, LOCKS, Lock, Op, Owner, Word};
use super::real::Real;
use super::values::{Answer, Entry, Value, Via, Waiter, named};

/// What is seen.
#[derive(Clone, Debug, Default)]
pub(super) struct After {
    /// What the caller is told, if there is one.
    pub(super) answer: Option<Answer>,
    pub(super) values: [Value; LOCKS.len()],
    pub(super) queues: [Vec<Waiter>; LOCKS.len()],
    pub(super) lists: [Vec<Entry>; LOCKS.len()],
    /// Whether those of Redisson's were told anything of each lock, and by how many unlock messages.
    pub(super) told: [bool; LOCKS.len()],
    pub(super) unlock_messages: [usize; LOCKS.len()],
    /// Who was taken out of a queue by CANCEL.
    cancelled: Option<(Lock, Owner)>,
    calls: BTreeMap<usize, Answer>,
    messages: Vec<(Channel, String)>,
}

impl After {
    /// What the step that is just over shows.
    pub(super) fn of(real: &Real, op: Option<Op>, answer: Option<Answer>) -> Self {
        let cancelled = match (op, &answer) {
            (Some(Op::Cancel { lock, owner }), Some(Answer::One)) => Some((lock, owner)),
            _ => None,
        };
        let unlock_messages = std::array::from_fn(|lock| real.unlock_messages(Lock(lock)));
        Self {
            answer,
            values: std::array::from_fn(|lock| real.value(Lock(lock))),
            queues: std::array::from_fn(|lock| real.queue(Lock(lock))),
            lists: std::array::from_fn(|lock| real.list(Lock(lock))),
            told: std::array::from_fn(|lock| real.has_called(Lock(lock)) || unlock_messages[lock] > 0),
            unlock_messages,
            cancelled,
            calls: real.calls(),
            messages: real.messages(),
        }
    }

    /// Whether this waiter was granted the lock.
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

    /// Whether a reader was granted a lock that had become free, which those of Redisson's are told; not beside readers.
    pub(super) fn is_granted_free(&self, lock: Lock, waiter: &Waiter) -> bool {
        let reads = matches!(self.values[lock.0], Value::ReadWrite(hash) if hash.reads[waiter.owner.0] > 0);
        self.unlock_messages[lock.0] > 0 && reads && self.is_granted(lock, waiter)
    }

    /// Whether an owner was granted nothing, and waits on in the same mode, if it was not taken out at last.
    pub(super) fn stays(&self, lock: Lock, waiter: &Waiter) -> bool {
        let waits = |by: &Waiter| (by.owner, by.word) == (waiter.owner, waiter.word);
        let cancelled = self.cancelled == Some((lock, waiter.owner));
        !self.is_granted(lock, waiter) && (cancelled || self.queues[lock.0].iter().any(waits))
    }
}
