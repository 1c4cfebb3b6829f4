//! The values of keys, the waiters, and the answers to callers.

use super::hash::Hash;
use super::op::{Channel, LOCKS, Lock, OWNERS, Owner, Wait, Word};

/// The value of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Value {
    /// Nothing.
    #[default]
    Nothing,
    /// A mutex.
    Held {
        /// Its owner.
        by: Owner,
        /// Its holds.
        holds: i64,
        /// When it expires by the wall clock, if ever: gone once this has passed.
        ends: Option<i64>,
    },
    /// A read/write lock.
    ReadWrite(Hash),
    /// Permits: when the permit of each owner ends or ended, and when the key expires.
    Permits([Option<i64>; OWNERS.len()], Option<i64>),
    /// A value that is not a lock.
    Other,
}

impl Value {
    /// When the key expires, if ever; `None` without a lock.
    pub(super) fn key_end(self) -> Option<Option<i64>> {
        match self {
            Self::Held { ends, .. } | Self::Permits(_, ends) | Self::ReadWrite(Hash { ends, .. }) => {
                Some(ends)
            }
            Self::Nothing | Self::Other => None,
        }
    }
}

/// The state of a lock after a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freed {
    /// It has no holder.
    Entirely,
    /// The writer still reads, and others may join it.
    ToReaders,
}

/// Whether a waiter can have its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// It is free.
    Free,
    /// The waiter can join the holders.
    Shared,
    /// The waiter cannot have it.
    No,
}

/// A waiter in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiter {
    /// Its owner.
    pub(super) owner: Owner,
    /// In which way it wants the lock.
    pub(super) word: Word,
    /// The lease that a grant gets.
    pub(super) lease: i64,
    /// Whether the grant gets a fencing token.
    pub(super) fenced: bool,
    /// When the wait ends, by the clock that never steps.
    pub(super) until: Option<u64>,
    /// How it is notified.
    pub(super) via: Via,
    /// Whether it stands in the fair list as well.
    pub(super) fair: bool,
}

impl Waiter {
    /// The mode at the end of its messages.
    pub(super) fn in_which_way(self) -> String {
        if self.word == Word::None { String::new() } else { format!(" {}", self.word.text()) }
    }
}

/// How a waiter is notified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Via {
    /// By the answer of this blocked call.
    Call(usize),
    /// By a message.
    Channel(Channel),
}

/// What an ACQUIRE asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) word: Word,
    pub(super) lease: i64,
    /// HOLDS.
    pub(super) holds: Option<i64>,
    pub(super) wait: Wait,
    pub(super) fenced: bool,
    pub(super) fair: bool,
}

/// The answer to a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// ACQUIRE: `[holds, lease-ms, token]`.
    Holds(i64, i64, i64),
    /// ACQUIRE with ENQUEUE: `[0, 0, 0]`.
    Enqueued,
    /// Null.
    Null,
    /// 1
    One,
    /// 0
    Zero,
    /// An error with this prefix.
    Error(&'static str),
    /// Nothing yet: the client is blocked.
    Blocked,
}

/// A grant with an undelivered answer, until the answer arrives, or the owner confirms the grant by a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpenGrant {
    pub(super) call: usize,
    pub(super) lock: Lock,
    pub(super) owner: Owner,
    pub(super) word: Word,
    /// When the lease of the grant ends.
    pub(super) ends: i64,
}

/// An entry of a fair list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its owner.
    pub(super) owner: Owner,
    /// When it counts as gone, by the wall clock; without a deadline it is gone already.
    pub(super) deadline: Option<i64>,
}

/// `<db> <owner> <key>`, as it stands in messages.
pub(super) fn named(lock: Lock, owner: Owner) -> String {
    let (db, key) = LOCKS[lock.0];
    format!("{db} {} {key}", OWNERS[owner.0])
}
