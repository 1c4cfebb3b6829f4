//! The ties of the holds of one lock: a hold ends with the connection to which it is tied. A tie is in its lock's record.

use std::collections::BTreeMap;

use super::{Call, LockRef, Session};
use crate::types::{LeaseMs, Mode};
use crate::weight::Weighed;

/// An owner in a mode.
pub(super) type OwnerInMode = (Box<[u8]>, Mode);

/// A hold: its lock, and its owner in a mode.
pub(super) type Hold = (LockRef, Box<[u8]>, Mode);

impl Weighed for Hold {
    fn bytes(&self) -> usize {
        self.0.bytes().saturating_add(self.1.len())
    }
}

/// The history of the tie of a hold, from the first call with SESSION until the hold ends, also while the hold is untied: commands of
/// a closed socket still run after those of its successor, and must not tie the hold anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tie {
    /// The last successful call.
    pub last: Call,
    /// The youngest connection of all successful calls since the first tie.
    pub youngest: u64,
}

/// No client has this id. The index by connection has the holds here that are not tied any more.
pub(super) const NO_CONNECTION: u64 = u64::MAX;

impl Tie {
    /// The tie after this successful call; `None` if the hold was never tied.
    pub(super) fn after(before: Option<Self>, call: Call) -> Option<Self> {
        match before {
            Some(before) => Some(Self { last: call, youngest: before.youngest.max(call.client) }),
            None => call.grace.map(|_| Self { last: call, youngest: call.client }),
        }
    }

    /// The end of the connection has had its effect: the hold is untied.
    pub(super) fn ended(self) -> Self {
        Self { last: Call { grace: None, ..self.last }, ..self }
    }

    /// The connection of the tie, and the lease that remains at its end.
    pub fn session(self) -> Option<Session> {
        let Call { client, grace } = self.last;
        grace.map(|grace| Session { client, grace })
    }

    /// The connection under which the index has the hold.
    pub(super) fn indexed_by(self) -> u64 {
        self.session().map_or(NO_CONNECTION, |session| session.client)
    }

    /// Whether calls on this connection may be late ones of a closed socket: it is older than another, and the last call came on
    /// another. With SESSION they cannot tie the hold.
    pub(super) fn has_left(self, client: u64) -> bool {
        client != self.last.client && client < self.youngest
    }
}

/// The ties of the holds of one lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ties {
    pub(super) holds: BTreeMap<OwnerInMode, Tie>,
    /// The generation of the database: ties of before a FLUSHALL or SWAPDB do not count.
    pub(super) generation: u64,
}

/// A hold that was tied to a connection that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedTie {
    /// The client id of the connection.
    pub client: u64,
    /// Its lock.
    pub lock: LockRef,
    /// Its owner.
    pub owner: Box<[u8]>,
    /// Its mode.
    pub mode: Mode,
    /// The longest lease that remains; `None` if the hold is not tied to that connection any more.
    pub grace: Option<LeaseMs>,
}

impl Weighed for EndedTie {
    fn bytes(&self) -> usize {
        self.lock.bytes().saturating_add(self.owner.len())
    }
}

#[cfg(test)]
#[path = "ties_tests.rs"]
mod tests;
