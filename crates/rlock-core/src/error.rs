//! Every way in which a command is refused. An error means that nothing has changed.

use std::fmt;

use crate::limits::{MAX_HOLDS, MAX_LEASE_MS, MAX_NAME_LEN, MAX_PERMITS, MAX_TOKEN};

/// The longest piece of a client's own bytes that an error repeats.
pub const QUOTED: usize = 64;

/// A refused command. [`fmt::Display`] gives the whole error line as the client sees it, its prefix
/// (`ERR`, `WRONGTYPE`, `WRONGLOCK`, `QUEUEFULL`, `UNBLOCKED`, `NOPERM`, `TRYAGAIN`, `UNTIED`) included.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Error {
    /// Too few or too many arguments; the server words this one.
    Arity,
    /// The lock's name is empty or too long.
    BadName,
    /// The owner cannot be a field of a lock's hash.
    BadOwner,
    /// `lease-ms`, or the value of LEASE, is not an integer from 1 to 2^43.
    BadLease,
    /// The value of HOLDS is not an integer from `least` to 2^53.
    BadHolds {
        /// The smallest number that the command accepts.
        least: i64,
    },
    /// The value of LIMIT is not an integer from `least` to 2^32 - 1.
    BadLimit {
        /// The smallest number that the command accepts.
        least: u32,
    },
    /// The cursor of LIST is neither 0 nor one that LIST returned.
    BadCursor,
    /// A word that the command does not know.
    UnknownOption(Vec<u8>),
    /// An option word given twice.
    RepeatedOption(&'static str),
    /// ALL together with HOLDS.
    AllAndHolds,
    /// LIMIT together with RESET.
    LimitAndReset,
    /// READ together with WRITE.
    ReadAndWrite,
    /// READ together with FENCED.
    FencedRead,
    /// FAIR together with READ or WRITE.
    FairMode,
    /// The last word needs a value, which is missing.
    MissingValue(&'static str),
    /// The wait of BLOCK or ENQUEUE is not an integer from 0 to 2^43.
    BadWait(&'static str),
    /// The channel of ENQUEUE is missing, empty or too long.
    BadChannel,
    /// In cluster mode: this node does not serve the slot of ENQUEUE's channel.
    ChannelNotServed,
    /// The user may not access what this text names.
    NoPermission(&'static str),
    /// BLOCK together with ENQUEUE.
    BlockAndEnqueue,
    /// The queue is full, by the limit of the server or of the lock.
    QueueFull,
    /// The user has its whole share of the waiters.
    UserQueueFull,
    /// The number of holds and waits that are tied to connections has reached its limit.
    TooManyTies,
    /// The user has its whole share of the ties to connections.
    UserHasTooManyTies,
    /// SESSION on a connection that may be a closed one: the owner's hold or wait is tied to another connection since.
    TiedToAnother,
    /// SESSION on a connection that may be a closed one: the owner has used a younger one, to which the hold is not tied any more.
    Untied,
    /// SESSION of a call that no connection has sent.
    NoSession,
    /// The grace period of SESSION is not an integer from 0 to 2^43.
    BadGrace,
    /// The server cannot block this client.
    NotBlockable,
    /// A wait that ended without a grant or a time-out.
    Unblocked(&'static str),
    /// One hold more than can be counted.
    TooManyHolds,
    /// `rlock.accept` is `no`.
    NotAccepting,
    /// In cluster mode: the lock's channel would fall in another slot than the lock.
    CrossSlot,
    /// The key is not a hash.
    WrongType,
    /// The hash is not a lock.
    NotALock,
    /// A read/write lock, asked as a mutex.
    ReadWriteLock,
    /// A mutex, asked as a read/write lock.
    Mutex,
    /// A sorted set that is not a lock with permits, asked as one.
    NotPermits,
    /// A lock with permits, asked as another kind.
    PermitsLock,
    /// A plain or a read/write lock, asked as one with permits.
    NoPermitsLock,
    /// The value of PERMITS is not an integer from 1 to 2^31 - 1.
    BadPermits,
    /// PERMITS together with READ, WRITE, FAIR or FENCED, or with HOLDS above 1.
    PermitsWith,
    /// A reader that would wait to write: it would wait for itself.
    Upgrade,
    /// The owner reads and writes, and the call does not say which holds it means.
    WhichMode,
    /// The key of the last fencing token is not a string.
    TokenWrongType,
    /// The key of the last fencing token holds no integer.
    NotAToken,
    /// The last fencing token is the largest possible one, or larger.
    NoTokenLeft,
    /// The lock's slot is moving, and its last fencing token may be on the other server.
    TokenMigrating,
    /// The lock's slot is moving, and its fair list may be on the other server.
    FairListMigrating,
    /// The lock's slot is moving, and a lease key of this reader may be on the other server.
    LeaseMigrating,
    /// The server refused a call that it must not refuse, or a callback panicked.
    Internal(&'static str),
}

impl fmt::Display for Error {
    #[expect(clippy::too_many_lines, reason = "one match is the list of all texts")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arity => f.write_str("ERR wrong number of arguments"),
            Self::BadName => write!(f, "ERR invalid lock name: use 1 to {MAX_NAME_LEN} bytes"),
            Self::BadOwner => f.write_str(
                "ERR invalid owner: use 1 to 512 bytes, not 'mode' and not ending in ':write'",
            ),
            Self::BadLease => write!(f, "ERR invalid lease: use an integer from 1 to {MAX_LEASE_MS} (milliseconds)"),
            Self::BadHolds { least } => write!(f, "ERR invalid HOLDS: use an integer from {least} to {MAX_HOLDS}"),
            Self::BadLimit { least } => write!(f, "ERR invalid LIMIT: use an integer from {least} to {}", u32::MAX),
            Self::BadCursor => f.write_str("ERR invalid cursor: use 0, or the cursor of the last reply"),
            Self::UnknownOption(word) => {
                let shown = word.get(..QUOTED).unwrap_or(word);
                write!(f, "ERR unknown option '{}'; see COMMAND DOCS", shown.escape_ascii())
            }
            Self::RepeatedOption(word) => write!(f, "ERR {word} appears twice; use it once"),
            Self::LimitAndReset => f.write_str("ERR LIMIT and RESET exclude each other; RESET shows nothing"),
            Self::AllAndHolds => f.write_str("ERR ALL and HOLDS exclude each other; ALL means HOLDS 0"),
            Self::ReadAndWrite => f.write_str("ERR READ and WRITE exclude each other; use one"),
            Self::FencedRead => f.write_str("ERR READ and FENCED exclude each other; leave FENCED out"),
            Self::FairMode => f.write_str("ERR FAIR excludes READ and WRITE; leave FAIR out"),
            Self::MissingValue(word) => write!(f, "ERR {word} needs a value"),
            Self::BadWait(word) => write!(f, "ERR invalid {word}: use an integer from 0 (forever) to {MAX_LEASE_MS} (milliseconds)"),
            Self::BadChannel => f.write_str("ERR invalid channel: ENQUEUE wait-ms needs one of 1 to 512 bytes"),
            Self::ChannelNotServed => f.write_str(
                "ERR this node does not serve the channel's slot; use a channel in a slot of this node, such as grants:{key}",
            ),
            Self::NoPermission(what) => write!(f, "NOPERM No permissions to access {what}"),
            Self::BlockAndEnqueue => f.write_str("ERR BLOCK and ENQUEUE exclude each other; use one"),
            Self::QueueFull => f.write_str(
                "QUEUEFULL the queue is full (rlock.max-waiters or rlock.max-waiters-per-key); try again later",
            ),
            Self::UserQueueFull => f.write_str(
                "QUEUEFULL this user has its share of all waiters (rlock.max-share-per-user); try again later, or raise the option",
            ),
            Self::TooManyTies => f.write_str(
                "QUEUEFULL too many calls with SESSION (rlock.max-ties); try again later, or leave SESSION out",
            ),
            Self::UserHasTooManyTies => f.write_str(
                "QUEUEFULL this user has its share of all calls with SESSION (rlock.max-share-per-user); try again later, leave SESSION out, or raise the option",
            ),
            Self::TiedToAnother => f.write_str(
                "TRYAGAIN the owner is tied to another connection; send the call there, or again once that connection has ended",
            ),
            Self::Untied => f.write_str(
                "UNTIED the owner has used a younger connection; send RENEW without SESSION on this one, and once that is answered the call again",
            ),
            Self::NoSession => f.write_str(
                "ERR SESSION needs a connection; leave it out in scripts, functions and calls of other modules",
            ),
            Self::BadGrace => write!(f, "ERR invalid SESSION: use an integer from 0 to {MAX_LEASE_MS} (milliseconds; 0 counts as 1)"),
            Self::NotBlockable => f.write_str(
                "ERR this server cannot block a connection that has subscriptions; use another connection, or ENQUEUE",
            ),
            Self::Unblocked(why) => write!(f, "UNBLOCKED {why}"),
            Self::TooManyHolds => write!(f, "ERR the owner has {MAX_HOLDS} holds, the maximum; release some first"),
            Self::NotAccepting => f.write_str(
                "ERR this server is drained (rlock.accept is no); ask another server or an operator",
            ),
            Self::CrossSlot => f.write_str(
                "ERR the lock's channel is in another slot than this key; use a key without '}' or with a hash tag such as {name}",
            ),
            Self::WrongType => f.write_str("WRONGTYPE Operation against a key holding the wrong kind of value"),
            Self::NotALock => f.write_str(
                "WRONGLOCK the key holds a hash that is not a lock; use another key",
            ),
            Self::ReadWriteLock => f.write_str(
                "WRONGLOCK the key holds a read/write lock; pass READ or WRITE, or use another key",
            ),
            Self::Mutex => f.write_str(
                "WRONGLOCK the key holds a plain lock; leave READ and WRITE out, or use another key",
            ),
            Self::NotPermits => f.write_str("WRONGLOCK the key holds a sorted set that is not a lock; use another key"),
            Self::PermitsLock => f.write_str(
                "WRONGLOCK the key holds a lock with permits; acquire it with PERMITS, and leave READ and WRITE out",
            ),
            Self::NoPermitsLock => f.write_str(
                "WRONGLOCK the key holds a lock without permits; leave PERMITS out, or use another key",
            ),
            Self::BadPermits => write!(f, "ERR invalid PERMITS: use an integer from 1 to {MAX_PERMITS}"),
            Self::PermitsWith => f.write_str(
                "ERR PERMITS excludes READ, WRITE, FAIR, FENCED and HOLDS above 1; leave them out",
            ),
            Self::Upgrade => f.write_str(
                "ERR the owner is a reader and would wait for itself; release READ first, or acquire WRITE before READ",
            ),
            Self::WhichMode => f.write_str("ERR the owner holds both READ and WRITE; pass the one that you mean"),
            Self::TokenWrongType => f.write_str(
                "WRONGTYPE the key of the fencing token is not a string; find out what wrote it",
            ),
            Self::NotAToken => f.write_str(
                "ERR the key of the fencing token holds no integer; find out what wrote it",
            ),
            Self::NoTokenLeft => write!(f, "ERR no larger fencing token is possible: the last one is {MAX_TOKEN} or more; find out what wrote it"),
            Self::TokenMigrating => f.write_str(
                "TRYAGAIN the slot is moving, and the last fencing token may be on the other server; try again",
            ),
            Self::FairListMigrating => f.write_str(
                "TRYAGAIN the slot is moving, and the fair list may be on the other server; try again",
            ),
            Self::LeaseMigrating => f.write_str(
                "TRYAGAIN the slot is moving, and lease keys of this reader may be on the other server; try again",
            ),
            Self::Internal(what) => write!(f, "ERR rlock: internal error: {what}; see the server's log and report it"),
        }
    }
}

impl Error {
    /// The error of a call without PERMITS: to it, a sorted set that is not a lock is a key of another type.
    #[must_use]
    pub fn without_permits(self) -> Self {
        if self == Self::NotPermits { Self::WrongType } else { self }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
