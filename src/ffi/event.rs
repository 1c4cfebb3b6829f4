//! The events of the server that the module knows.

use rlock_core::locks::Databases;
use rlock_core::slots::SlotRange;

use super::slots::SlotMove;

/// What a server loads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoadedFrom {
    /// An AOF: it may begin with a snapshot, and ends with commands.
    Aof,
    /// A snapshot, stored or sent by the primary.
    Snapshot,
}

/// What happened to the server.
pub(crate) enum ServerEvent {
    /// A database, or all of them, was emptied without an event for each key.
    Flushed(Databases),
    /// Two databases were exchanged without an event for each key.
    Swapped([i32; 2]),
    /// The server is a replica now.
    Demoted,
    /// The server is a primary now.
    Promoted,
    /// The server is a replica, and its link to the primary is up: it has all of the primary's data, or the missing part follows.
    Synchronised,
    /// The server begins to load this.
    Loads(LoadedFrom),
    /// The server has loaded what was stored, or what its primary has sent.
    Loaded,
    /// Slots move as a whole, with all their keys at one moment.
    Slots(SlotMove, Vec<SlotRange>),
    /// The server has forked, as it does to save a snapshot, or saves one without a fork.
    Snapshot,
    /// A connection has ended; its client id.
    Disconnected(u64),
    /// CONFIG SET has changed the limit of its memory, or what is evicted.
    MaxMemoryChanged,
}
