//! What is seen from outside after a step. Where the contract leaves a choice open, the oracle follows what was chosen, and
//! judges it; it never asks what the core remembers.

use std::collections::BTreeMap;

use super::op::{Channel, LOCKS, Lock};
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
    calls: BTreeMap<usize, Answer>,
    messages: Vec<(Channel, String)>,
}

impl After {
    /// What the step that is just over shows.
    pub(super) fn of(real: &Real, answer: Option<Answer>) -> Self {
        let unlock_messages = std::array::from_fn(|lock| real.unlock_messages(Lock(lock)));
        Self {
            answer,
            values: std::array::from_fn(|lock| real.value(Lock(lock))),
            queues: std::array::from_fn(|lock| real.queue(Lock(lock))),
            lists: std::array::from_fn(|lock| real.list(Lock(lock))),
            told: std::array::from_fn(|lock| real.has_called(Lock(lock)) || unlock_messages[lock] > 0),
            unlock_messages,
            calls: real.calls(),
            messages: real.messages(),
        }
    }

    /// Whether this waiter was granted the lock.
    pub(super) fn is_granted(&self, lock: Lock, waiter: &Waiter) -> bool {
        match waiter.via {
            Via::Call(call) => matches!(self.calls.get(&call), Some(Answer::Holds(..))),
            Via::Channel(channel) => {
                let begin = format!("granted {} ", named(lock, waiter.owner));
                let way = waiter.in_which_way();
                let is_it = |text: &str| text.starts_with(&begin) && text.ends_with(&way);
                self.messages.iter().any(|(on, text)| *on == channel && is_it(text))
            }
        }
    }

    /// Whether an owner waits on in the same mode.
    pub(super) fn waits(&self, lock: Lock, waiter: &Waiter) -> bool {
        self.queues[lock.0].iter().any(|by| (by.owner, by.word) == (waiter.owner, waiter.word))
    }
}
