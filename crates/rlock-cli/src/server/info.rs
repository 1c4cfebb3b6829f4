//! What RLOCK.INFO tells.

use std::time::Duration;

use redis::{Cmd, Value, cmd};
use serde::{Serialize, Serializer};

use super::reply::{fields, integer, text};
use super::{Link, PATIENCE};
use crate::error::Error;
use crate::names;

/// A lock, as the server sees it. In JSON the field names are these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct LockInfo {
    /// The lock's name.
    #[serde(serialize_with = "name")]
    pub(crate) key: Vec<u8>,
    /// `none` where nobody holds it.
    pub(crate) kind: String,
    /// Whether anybody holds it.
    pub(crate) held: bool,
    /// What is left of the lease, in ms; -1: no expiry, -2: not held.
    pub(crate) lease_ms: i64,
    /// The last fencing token, or 0.
    pub(crate) token: i64,
    /// How many hold it.
    pub(crate) holder_count: i64,
    /// How many wait in the server.
    pub(crate) waiter_count: i64,
    /// Who holds it; may be fewer than `holder_count`.
    pub(crate) holders: Vec<Holder>,
    /// Who waits, in order; may be fewer than `waiter_count`.
    pub(crate) queue: Vec<Waiter>,
}

/// One who holds a lock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Holder {
    /// Who.
    #[serde(serialize_with = "name")]
    pub(crate) owner: Vec<u8>,
    /// How, in a read/write lock.
    pub(crate) mode: Option<String>,
    /// How many times.
    pub(crate) holds: i64,
    /// What is left of its lease, in ms.
    pub(crate) lease_ms: i64,
}

/// One who waits for a lock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Waiter {
    /// Who.
    #[serde(serialize_with = "name")]
    pub(crate) owner: Vec<u8>,
    /// For what, in a read/write lock.
    pub(crate) mode: Option<String>,
    /// How: `block`, `enqueue`.
    pub(crate) via: String,
    /// Since when, in ms.
    pub(crate) age_ms: i64,
    /// For how long still, in ms; -1: for ever.
    pub(crate) wait_left_ms: i64,
    /// The client that asked.
    pub(crate) client_id: i64,
}

fn name<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&names::json(bytes))
}

impl LockInfo {
    /// The command to ask with; at most `limit` holders and waiters are listed.
    pub(crate) fn command(key: &[u8], limit: u32) -> Cmd {
        let mut command = cmd("RLOCK.INFO");
        command.arg(key).arg("LIMIT").arg(limit);
        command
    }

    /// Asks for the lock `key`.
    pub(crate) fn ask(link: &mut Link, key: &[u8]) -> Result<LockInfo, Error> {
        Self::ask_within(link, key, PATIENCE)
    }

    /// Asks for the lock `key`, with so much time.
    pub(crate) fn ask_within(link: &mut Link, key: &[u8], within: Duration) -> Result<LockInfo, Error> {
        let answer = link.ask(&Self::command(key, 100), within)?;
        Self::read(key, answer)
            .ok_or_else(|| Error::Unexpected { address: link.address(), what: "RLOCK.INFO" })
    }

    /// Reads the answer; `None` where it is none.
    pub(crate) fn read(key: &[u8], answer: Value) -> Option<LockInfo> {
        let mut info = LockInfo {
            key: key.to_vec(),
            kind: String::new(),
            held: false,
            lease_ms: -2,
            token: 0,
            holder_count: 0,
            waiter_count: 0,
            holders: Vec::new(),
            queue: Vec::new(),
        };
        for (field, value) in fields(answer) {
            match field.as_str() {
                "kind" => info.kind = text(&value)?,
                "lease-ms" => info.lease_ms = integer(&value)?,
                "token" => info.token = integer(&value)?,
                "holder-count" => info.holder_count = integer(&value)?,
                "waiter-count" => info.waiter_count = integer(&value)?,
                "holders" => info.holders = list(value, Holder::read),
                "queue" => info.queue = list(value, Waiter::read),
                _ => {}
            }
        }
        info.held = info.holder_count > 0;
        (!info.kind.is_empty()).then_some(info)
    }
}

impl Holder {
    fn read(value: Value) -> Holder {
        let mut holder = Holder::default();
        for (field, value) in fields(value) {
            match field.as_str() {
                "owner" => holder.owner = binary(value),
                "mode" => holder.mode = text(&value),
                "holds" => holder.holds = integer(&value).unwrap_or_default(),
                "lease-ms" => holder.lease_ms = integer(&value).unwrap_or_default(),
                _ => {}
            }
        }
        holder
    }
}

impl Waiter {
    fn read(value: Value) -> Waiter {
        let mut waiter = Waiter::default();
        for (field, value) in fields(value) {
            match field.as_str() {
                "owner" => waiter.owner = binary(value),
                "mode" => waiter.mode = text(&value),
                "via" => waiter.via = text(&value).unwrap_or_default(),
                "age-ms" => waiter.age_ms = integer(&value).unwrap_or_default(),
                "wait-left-ms" => waiter.wait_left_ms = integer(&value).unwrap_or_default(),
                "client-id" => waiter.client_id = integer(&value).unwrap_or_default(),
                _ => {}
            }
        }
        waiter
    }
}

fn list<T>(value: Value, read: impl Fn(Value) -> T) -> Vec<T> {
    match value {
        Value::Array(items) => items.into_iter().map(read).collect(),
        _ => Vec::new(),
    }
}

fn binary(value: Value) -> Vec<u8> {
    match value {
        Value::BulkString(bytes) => bytes,
        other => text(&other).unwrap_or_default().into_bytes(),
    }
}
