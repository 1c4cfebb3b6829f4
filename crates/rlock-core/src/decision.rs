//! What the rules decide.

use crate::token::Token;
use crate::types::{Holds, Mode, UnixMs};

/// What shall happen: answer this, after performing that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What the caller is told.
    pub reply: Reply,
    /// What happens to the lock; nothing at all on a denial.
    pub change: Change,
}

/// What the caller is told; truthy when it got what the command's name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// ACQUIRE: the caller holds the lock. `[holds, lease-ms, token]`.
    Acquired {
        /// How many times.
        holds: Holds,
        /// What is left of the lease in ms, or -1 where the key has no expiry.
        lease_ms: i64,
        /// The fencing token, or 0 where none was asked for.
        token: i64,
    },
    /// ACQUIRE with ENQUEUE: the caller waits. `[0, 0, 0]`.
    Enqueued,
    /// ACQUIRE: somebody else holds the lock, or the hold to build on is lost. Null.
    Denied,
    /// RELEASE: the owner's last hold is gone. 1.
    Released,
    /// RELEASE: the owner still holds. 0.
    StillHeld,
    /// RELEASE: the owner held nothing. Null.
    NotHeld,
    /// RENEW: the lease counts from now. 1.
    Renewed,
    /// RENEW: the owner holds nothing. 0.
    NotRenewed,
    /// CANCEL: the owner waits no more. 1.
    Cancelled,
    /// CANCEL: the owner did not wait. 0.
    NotQueued,
    /// FORCERELEASE: holds were removed. 1.
    Forced,
    /// FORCERELEASE: there was nothing to remove. 0.
    NothingToForce,
}

/// What happens to the lock, in this order: the hash, its expiry, the read leases, the token, the event, the unlock
/// message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// In which way the caller holds: that tells its field.
    pub mode: Mode,
    /// What happens to the hash.
    pub hash: HashChange,
    /// What the hash's field `mode` becomes.
    pub becomes: Option<Mode>,
    /// What happens to the lease keys of the caller's read holds.
    pub leases: ReadLeases,
    /// The expiry that the key gets.
    pub expire_at: Option<UnixMs>,
    /// The lock's last fencing token from now on.
    pub token: Option<Token>,
    /// Whether the release is published to those who wait by Redisson's protocol.
    pub unlock_message: Option<UnlockMessage>,
    /// The keyspace event of our own.
    pub event: Option<LockEvent>,
}

/// What happens to the lock's hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashChange {
    /// It stays as it is.
    #[default]
    Keep,
    /// The caller's field is set to so many holds.
    Set(Holds),
    /// It is deleted first, then the caller's field is set: what was there was no hold.
    Replace(Holds),
    /// The caller's field is removed; others remain.
    Remove,
    /// The key is deleted.
    Delete,
}

/// What happens to the lease keys of the caller's read holds, of which there is one for each. Holds are numbered from
/// 1; both ends of a range belong to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadLeases {
    /// The leases of these end then.
    pub set: Option<(i64, i64, UnixMs)>,
    /// The lease keys of these are deleted.
    pub gone: Option<(i64, i64)>,
}

/// The message on the unlock channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnlockMessage {
    /// `0` on the channel of plain locks: the lock is free.
    Free,
    /// `0` on the channel of read/write locks, from a reader: of those who wait in one process one tries again.
    ReadersGone,
    /// `1` on the channel of read/write locks, from a writer: all try again.
    WriterGone,
}

impl UnlockMessage {
    /// What tells those who wait by Redisson's protocol to try again, whoever had the lock.
    pub fn to_all(mode: Mode) -> Self {
        match mode {
            Mode::Mutex => Self::Free,
            Mode::Read | Mode::Write => Self::WriterGone,
        }
    }
}

/// Keyspace events of class `d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockEvent {
    /// `rlock.acquire`: an owner took a hold.
    Acquire,
    /// `rlock.release`: an owner gave holds back.
    Release,
    /// `rlock.handoff`: the lock went to the one who waited longest.
    HandOff,
    /// `rlock.forcerelease`: holds were removed by force.
    ForceRelease,
}

/// Whether those who hold nothing yet may acquire (`rlock.accept`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Anybody may.
    Open,
    /// Only holders, to re-enter.
    HoldersOnly,
}
