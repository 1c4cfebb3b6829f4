//! A lock as rlock shows it.

use std::time::Duration;

use rlock_client::Info;
use serde::Serialize;

use crate::duration;
use crate::names::serialized;
use crate::owners::{Origin, Process};

/// A lock, as the server sees it. In JSON the field names are these.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct LockInfo {
    /// The lock's name.
    #[serde(serialize_with = "serialized")]
    pub(crate) key: Vec<u8>,
    /// `none` if the lock is not held.
    pub(crate) kind: String,
    /// Whether an owner holds it.
    pub(crate) held: bool,
    /// What is left of the lease, in ms; -1: no expiry, -2: not held.
    pub(crate) lease_ms: i64,
    /// The last fencing token, or 0.
    pub(crate) token: u64,
    /// The number of holders.
    pub(crate) holder_count: u64,
    /// The number of waiters in the server.
    pub(crate) waiter_count: u64,
    /// Whether it may as well be the counter of another program: see [`LockInfo::new`].
    pub(crate) probably_no_lock: bool,
    /// The holders; may be fewer than `holder_count`.
    pub(crate) holders: Vec<Holder>,
    /// The waiters, in order; may be fewer than `waiter_count`.
    pub(crate) queue: Vec<Waiter>,
}

/// One holder of a lock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Holder {
    #[serde(serialize_with = "serialized")]
    pub(crate) owner: Vec<u8>,
    /// The process, if the owner names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) process: Option<Process>,
    /// The mode, in a read/write lock.
    pub(crate) mode: Option<String>,
    /// The number of holds.
    pub(crate) holds: u64,
    /// What is left of its lease, in ms.
    pub(crate) lease_ms: i64,
    /// The client that it is tied to, if it has a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<u64>,
}

/// One waiter for a lock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Waiter {
    #[serde(serialize_with = "serialized")]
    pub(crate) owner: Vec<u8>,
    /// The process, if the owner names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) process: Option<Process>,
    /// The mode that it waits for, in a read/write lock.
    pub(crate) mode: Option<String>,
    /// How it waits: `block`, `enqueue`.
    pub(crate) via: String,
    /// How long it has waited, in ms.
    pub(crate) age_ms: i64,
    /// How long it will still wait, in ms; -1: for ever.
    pub(crate) wait_left_ms: i64,
    /// The client that asked.
    pub(crate) client_id: u64,
}

impl LockInfo {
    /// The lock `key`, as the client crate describes it.
    ///
    /// A hash with a number is probably no lock where nothing says that it is one: it has no expiry, which every
    /// client gives a lock, no owner as clients make them, no fencing token, and no waiter.
    pub(crate) fn new(key: &[u8], info: Info) -> LockInfo {
        let endless = info.remaining == Some(Duration::MAX);
        let known = info.holders.iter().any(|holder| Origin::of(&holder.owner) != Origin::Other);
        LockInfo {
            probably_no_lock: endless && !known && info.token == 0 && info.waiter_count == 0,
            key: key.to_vec(),
            kind: info.kind,
            held: info.holder_count > 0,
            lease_ms: info.remaining.map_or(-2, ms_or_ever),
            token: info.token,
            holder_count: info.holder_count,
            waiter_count: info.waiter_count,
            holders: info.holders.into_iter().map(Holder::from).collect(),
            queue: info.queue.into_iter().map(Waiter::from).collect(),
        }
    }
}

impl From<rlock_client::Holder> for Holder {
    fn from(holder: rlock_client::Holder) -> Holder {
        Holder {
            process: Origin::of(&holder.owner).process().cloned(),
            owner: holder.owner,
            mode: holder.mode,
            holds: holder.holds,
            lease_ms: ms_or_ever(holder.remaining),
            session: holder.session,
        }
    }
}

impl From<rlock_client::Waiter> for Waiter {
    fn from(waiter: rlock_client::Waiter) -> Waiter {
        Waiter {
            process: Origin::of(&waiter.owner).process().cloned(),
            owner: waiter.owner,
            mode: waiter.mode,
            via: waiter.via,
            age_ms: duration::ms(waiter.age).cast_signed(),
            wait_left_ms: waiter.wait_left.map_or(-1, ms_or_ever),
            client_id: waiter.client_id,
        }
    }
}

/// Milliseconds; -1 for ever, as the server says it.
fn ms_or_ever(time: Duration) -> i64 {
    if time == Duration::MAX { -1 } else { duration::ms(time).cast_signed() }
}
