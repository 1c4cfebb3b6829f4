//! What there is: values of keys, those who wait, and what callers are told.

use super::hash::Hash;
use super::op::{Channel, LOCKS, Lock, OWNERS, Owner, Word};

/// What a key holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Value {
    /// Nothing.
    #[default]
    Nothing,
    /// A mutex.
    Held {
        /// By whom.
        by: Owner,
        /// How many times.
        holds: i64,
        /// When it expires by the wall clock, if ever: gone once this has passed.
        ends: Option<i64>,
    },
    /// A read/write lock.
    ReadWrite(Hash),
    /// Permits: when the permit of each owner ends or ended. Its key is there until the second.
    Permits([Option<i64>; OWNERS.len()], Option<i64>),
    /// Something that is no lock.
    Other,
}

impl Value {
    /// When the key expires, if ever; none where there is no lock.
    pub(super) fn key_end(self) -> Option<Option<i64>> {
        match self {
            Self::Held { ends, .. } | Self::Permits(_, ends) | Self::ReadWrite(Hash { ends, .. }) => {
                Some(ends)
            }
            Self::Nothing | Self::Other => None,
        }
    }
}

/// What a command has made of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freed {
    /// Nobody holds it.
    Entirely,
    /// The writer reads still, and others may join it.
    ToReaders,
}

/// Whether who waits for a lock can have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// It is free.
    Free,
    /// Who waits can join those who hold it.
    Shared,
    /// It cannot.
    No,
}

/// Somebody in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiter {
    /// Who.
    pub(super) owner: Owner,
    /// In which way it wants the lock.
    pub(super) word: Word,
    /// The lease that a grant gets.
    pub(super) lease: i64,
    /// Whether the grant gets a fencing token.
    pub(super) fenced: bool,
    /// When the wait ends, by the clock that never steps.
    pub(super) until: Option<u64>,
    /// How it is told.
    pub(super) via: Via,
    /// Whether it stands in Redisson's list as well.
    pub(super) fair: bool,
}

impl Waiter {
    /// What messages say of it at the end.
    pub(super) fn in_which_way(self) -> String {
        if self.word == Word::None { String::new() } else { format!(" {}", self.word.text()) }
    }
}

/// How a waiter is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Via {
    /// By the answer of this blocked call.
    Call(usize),
    /// By a message.
    Channel(Channel),
}

/// What a caller is told.
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

/// A grant whose answer is on its way: until it arrives, or its owner is heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpenGrant {
    pub(super) call: usize,
    pub(super) lock: Lock,
    pub(super) owner: Owner,
    pub(super) word: Word,
    /// When the lease of the grant ends.
    pub(super) ends: i64,
}

/// Somebody in the list of those who wait for a fair lock of Redisson's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Who.
    pub(super) owner: Owner,
    /// When it counts as gone, by the wall clock; it does where there is none.
    pub(super) deadline: Option<i64>,
}

/// `<db> <owner> <key>`, as it stands in messages.
pub(super) fn named(lock: Lock, owner: Owner) -> String {
    let (db, key) = LOCKS[lock.0];
    format!("{db} {} {key}", OWNERS[owner.0])
}
