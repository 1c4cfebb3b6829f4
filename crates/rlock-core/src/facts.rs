//! Facts about a lock that a server reports to the rules.

use crate::types::{Expiry, Holds, UnixMs};

/// An owner that a lock's key names: a reader of a read/write lock, or the owner of a permit, alive or dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its owner.
    pub owner: Box<[u8]>,
    /// The holds that its field counts; one for a permit.
    pub holds: Holds,
}

/// The permits of a lock, as one owner sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permits {
    /// When the owner's own permit ends or ended.
    pub own: Option<UnixMs>,
    /// When the first living permit of another owner ends.
    pub first_end: Option<UnixMs>,
    /// When the last permit of another owner ends or ended.
    pub last_end: Option<UnixMs>,
    /// The owners of ended permits, the caller left out: at most [`MOST_ENDED`].
    pub ended: Vec<Holder>,
}

/// The most ended permits that one change removes.
pub const MOST_ENDED: usize = 64;

/// The state of a lease key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadLease {
    /// Its lease end.
    Until(Expiry),
    /// The key does not exist: this hold has ended.
    Gone,
    /// The key is not on this server, and may be on the other server of a migration of the lock's slot.
    Unknown,
}

/// An entry of the fair list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FairEntry {
    /// The waiting owner.
    pub owner: Box<[u8]>,
    /// When the entry counts as dead; without a deadline it is dead now.
    pub deadline: Option<UnixMs>,
}

/// Whether a lock may be granted now, outside a client's own command on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteAccess {
    /// The lock may be granted.
    Allowed,
    /// The key is on another server, or migrates to another server.
    SlotMoved,
    /// The server refuses writes for now.
    Refused,
}
