//! The ties of the holds of one lock: a hold ends with the connection to which it is tied. A tie is in its lock's record.

use std::collections::BTreeMap;

use super::{LockRef, Session};
use crate::types::{LeaseMs, Mode};
use crate::weight::Weighed;

/// An owner in a mode.
type OwnerInMode = (Box<[u8]>, Mode);

/// A hold: its lock, and its owner in a mode.
pub(super) type Hold = (LockRef, Box<[u8]>, Mode);

impl Weighed for Hold {
    fn bytes(&self) -> usize {
        self.0.bytes().saturating_add(self.1.len())
    }
}

/// The ties of the holds of one lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ties {
    pub(super) sessions: BTreeMap<OwnerInMode, Session>,
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
