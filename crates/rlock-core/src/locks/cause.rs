//! Why a lock was found free.

/// Why a lock was found free without an rlock command that freed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The lease of the lock has ended.
    Expired,
    /// DEL, UNLINK, or a script's unlock.
    Deleted,
    /// RENAME or MOVE.
    Renamed,
    /// FLUSHALL or FLUSHDB.
    Flushed,
    /// SWAPDB.
    Swapped,
    /// The server was out of memory.
    Evicted,
    /// Another cause: without an event, or another value replaced the lock and was removed.
    Other,
}
