//! The results of the rules.

use crate::facts::Holder;
use crate::token::Token;
use crate::types::{Holds, Mode, UnixMs};

/// The result of a rule: a change, and the reply after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The caller's reply.
    pub reply: Reply,
    /// The change of the lock; empty on a denial.
    pub change: Change,
}

/// A reply; truthy exactly when the command did what its name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// ACQUIRE: the caller holds the lock. `[holds, lease-ms, token]`.
    Acquired {
        /// The number of holds.
        holds: Holds,
        /// The rest of the lease in ms, or -1 if the key has no expiry.
        lease_ms: i64,
        /// The fencing token, or 0 without FENCED.
        token: i64,
    },
    /// ACQUIRE with ENQUEUE: the caller waits. `[0, 0, 0]`.
    Enqueued,
    /// ACQUIRE: another owner holds the lock, or the owner's earlier hold is lost. Null.
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
    /// CANCEL: the owner's wait has ended. 1.
    Cancelled,
    /// CANCEL: the owner did not wait. 0.
    NotQueued,
    /// FORCERELEASE: holds were removed. 1.
    Forced,
    /// FORCERELEASE: the lock had no hold to remove. 0.
    NothingToForce,
}

/// The change of a lock, in this order: the lock's own key ([`Change::each_effect`]), the read leases, the token, the event, the
/// unlock message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The caller's mode, which determines its field or member.
    pub mode: Mode,
    /// The change of the lock's own key.
    pub key: KeyChange,
    /// The new value of the hash's field `mode`.
    pub becomes: Option<Mode>,
    /// What only locks with several holders have. Behind a pointer: the change of a plain lock is moved from hand to hand, and
    /// stays small.
    pub shared: Option<Box<SharedChange>>,
    /// The key's new expiry.
    pub expire_at: Option<UnixMs>,
    /// The lock's new last fencing token.
    pub token: Option<Token>,
    /// The message that checks waiting Redisson clients.
    pub unlock_message: Option<UnlockMessage>,
    /// The module's own keyspace event.
    pub event: Option<LockEvent>,
}

impl Change {
    /// Whether the change writes, replicates, raises and publishes nothing.
    pub(crate) fn is_empty(&self) -> bool {
        let Self { mode: _, key, becomes, shared, expire_at, token, unlock_message, event } = self;
        let silent = event.is_none() && unlock_message.is_none() && token.is_none() && expire_at.is_none();
        silent && becomes.is_none() && shared.is_none() && *key == KeyChange::Keep
    }

    /// Whether the change concerns read holds, which have lease keys.
    pub(crate) fn is_of_reader(&self) -> bool {
        self.mode == Mode::Read || self.leases() != ReadLeases::default()
    }

    /// The changes of the lease keys of the caller's read holds.
    pub fn leases(&self) -> ReadLeases {
        self.shared.as_ref().map_or_else(ReadLeases::default, |shared| shared.leases)
    }

    /// Replaces the lease-key changes of a change that buries no reader yet.
    pub(crate) fn set_leases(&mut self, leases: ReadLeases) {
        self.shared = leases.change();
    }

    /// The dead readers that a look found, or the owners of ended permits: their fields or members are removed, others remain.
    pub fn buried(&self) -> &[Holder] {
        self.shared.as_ref().map_or(&[], |shared| &shared.bury)
    }

    /// Adds these dead holders to those that the change removes.
    pub(crate) fn bury(&mut self, dead: Vec<Holder>) {
        if !dead.is_empty() {
            self.shared.get_or_insert_default().bury = dead;
        }
    }

    /// Limits each kind of lease-key change to the newest lease keys, at most this number of them.
    pub(crate) fn limit_leases(&mut self, most: i64) {
        let Some(ReadLeases { set, gone }) = self.shared.as_mut().map(|shared| &mut shared.leases) else {
            return;
        };
        let newest = |first: i64, last: i64| first.max(last.saturating_sub(most).saturating_add(1));
        *set = set.map(|(first, last, until)| (newest(first, last), last, until));
        *gone = gone.map(|(first, last)| (newest(first, last), last));
    }
}

/// The change of a lock's own key: a hash, or the sorted set of a lock with permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyChange {
    /// No change.
    #[default]
    Keep,
    /// The caller's field is set to this number of holds.
    Set(Holds),
    /// The key is deleted first, and the caller's field is set after that: the old content was not a hold.
    Replace(Holds),
    /// The caller's permit ends at this time.
    Permit(UnixMs),
    /// The key is deleted first, and the caller gets its permit after that: the old content was not a hold.
    ReplaceByPermit(UnixMs),
    /// The caller's field or member is removed; others remain.
    Remove,
    /// The key is deleted.
    Delete,
}

impl KeyChange {
    /// The new number of the caller's holds in a hash.
    #[inline(always)]
    #[must_use]
    pub fn holds(self) -> Option<Holds> {
        match self {
            Self::Set(holds) | Self::Replace(holds) => Some(holds),
            Self::Keep | Self::Permit(_) | Self::ReplaceByPermit(_) | Self::Remove | Self::Delete => None,
        }
    }

    /// The new end of the caller's permit.
    #[inline(always)]
    #[must_use]
    pub fn permit_end(self) -> Option<UnixMs> {
        match self {
            Self::Permit(end) | Self::ReplaceByPermit(end) => Some(end),
            Self::Keep | Self::Set(_) | Self::Replace(_) | Self::Remove | Self::Delete => None,
        }
    }

    /// Whether all of the old content is removed.
    #[inline(always)]
    #[must_use]
    pub fn deletes(self) -> bool {
        matches!(self, Self::Replace(_) | Self::ReplaceByPermit(_) | Self::Delete)
    }
}

/// The changes of the lease keys of the caller's read holds. Each hold has one lease key; holds are numbered from 1. A
/// range includes both its ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadLeases {
    /// The lease keys of these holds get this lease end.
    pub set: Option<(i64, i64, UnixMs)>,
    /// The lease keys of these holds are deleted.
    pub gone: Option<(i64, i64)>,
}

impl ReadLeases {
    /// The shared part of a change that changes these lease keys; `None` if it changes none.
    #[inline]
    pub(crate) fn change(self) -> Option<Box<SharedChange>> {
        (self != Self::default()).then(|| Box::new(SharedChange { leases: self, ..SharedChange::default() }))
    }
}

/// The parts of a change that only a lock with several holders has. At least one of them is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedChange {
    /// The changes of the lease keys of the caller's read holds.
    pub leases: ReadLeases,
    /// Dead readers whose fields are removed, or owners of ended permits whose members are removed.
    pub bury: Vec<Holder>,
}

/// The message on the unlock channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnlockMessage {
    /// `0` on the channel of plain locks: the lock is free.
    Free,
    /// `0` on the channel of read/write locks, from a reader: one waiter of each process retries.
    ReadersGone,
    /// `1` on the channel of read/write locks, from a writer: all waiters retry.
    WriterGone,
}

impl UnlockMessage {
    /// The message that makes all waiting Redisson clients retry, whatever kind of holder the lock had. Redisson knows no
    /// permits of this kind.
    pub fn to_all(mode: Mode) -> Option<Self> {
        match mode {
            Mode::Mutex => Some(Self::Free),
            Mode::Read | Mode::Write => Some(Self::WriterGone),
            Mode::Permit => None,
        }
    }
}

/// Keyspace events of class `d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockEvent {
    /// `rlock.acquire`: an owner acquired a hold.
    Acquire,
    /// `rlock.release`: an owner released holds.
    Release,
    /// `rlock.handoff`: the lock was handed off to the first waiter.
    HandOff,
    /// `rlock.forcerelease`: holds were removed by force.
    ForceRelease,
}

/// Whether owners without holds may acquire (`rlock.accept`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Every owner may acquire.
    Open,
    /// Only holders may re-enter.
    HoldersOnly,
}
