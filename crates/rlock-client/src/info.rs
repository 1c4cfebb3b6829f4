//! The reply of RLOCK.INFO.

use std::fmt;
use std::time::Duration;

use redis::Value;

use crate::command::unexpected;
use crate::error::{Error, Quoted};

/// A lock, as its server sees it; see [`Lock::info`](crate::Lock::info).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Info {
    /// `mutex`, `readwrite` or `permits`, or `none` if the lock is free.
    pub kind: String,
    /// The remaining lease: `None` if the lock is free, [`Duration::MAX`] if it has no end.
    pub remaining: Option<Duration>,
    /// The last fencing token, or 0.
    pub token: u64,
    /// The number of holders.
    pub holder_count: u64,
    /// The number of waiters in the server.
    pub waiter_count: u64,
    /// The holders, 100 at most.
    pub holders: Vec<Holder>,
    /// The waiters in order, 100 at most.
    pub queue: Vec<Waiter>,
}

/// A holder of a lock.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// Its owner.
    pub owner: Vec<u8>,
    /// Its mode, for a read/write lock.
    pub mode: Option<String>,
    /// The number of its holds.
    pub holds: u64,
    /// Its remaining lease; [`Duration::MAX`] if it has no end.
    pub remaining: Duration,
    /// The ID of the connection that it is tied to, as in CLIENT LIST, if it has a [session](crate::Lock::session_grace).
    pub session: Option<u64>,
}

/// A waiter for a lock.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    /// Its owner.
    pub owner: Vec<u8>,
    /// The mode that it waits for, for a read/write lock.
    pub mode: Option<String>,
    /// How it waits: `block` or `enqueue`, as in RLOCK.ACQUIRE, or `redisson` for Redisson's fair lock of that name.
    pub via: String,
    /// How long it has waited.
    pub age: Duration,
    /// The time until its wait times out; `None` if it waits without limit.
    pub wait_left: Option<Duration>,
    /// The ID of its connection, as in CLIENT LIST.
    pub client_id: u64,
}

/// The owner as text.
impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holder")
            .field("owner", &Quoted(&self.owner))
            .field("mode", &self.mode)
            .field("holds", &self.holds)
            .field("remaining", &self.remaining)
            .field("session", &self.session)
            .finish()
    }
}

/// The owner as text.
impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiter")
            .field("owner", &Quoted(&self.owner))
            .field("mode", &self.mode)
            .field("via", &self.via)
            .field("age", &self.age)
            .field("wait_left", &self.wait_left)
            .field("client_id", &self.client_id)
            .finish()
    }
}

impl Info {
    /// Reads a reply; fields that are not known are skipped.
    pub(crate) fn read(value: Value) -> Result<Info, Error> {
        // Without this check the lock would seem free.
        if !matches!(&value, Value::Map(fields) if !fields.is_empty()) {
            return Err(unexpected("RLOCK.INFO", &value));
        }
        let mut info = Info {
            kind: String::new(),
            remaining: None,
            token: 0,
            holder_count: 0,
            waiter_count: 0,
            holders: Vec::new(),
            queue: Vec::new(),
        };
        for (field, value) in pairs(value) {
            match (field.as_slice(), value) {
                (b"kind", value) => info.kind = text(value).unwrap_or_default(),
                (b"lease-ms", Value::Int(lease)) if lease != -2 => info.remaining = Some(lease_left(lease)),
                (b"token", Value::Int(token)) => info.token = count(token),
                (b"holder-count", Value::Int(holders)) => info.holder_count = count(holders),
                (b"waiter-count", Value::Int(waiters)) => info.waiter_count = count(waiters),
                (b"holders", Value::Array(holders)) => {
                    info.holders = holders.into_iter().map(holder).collect();
                }
                (b"queue", Value::Array(queue)) => info.queue = queue.into_iter().map(waiter).collect(),
                _ => (),
            }
        }
        Ok(info)
    }

    /// Whether the lock is held.
    pub fn locked(&self) -> bool {
        self.remaining.is_some()
    }

    /// How many holds this owner has, if it is among [`Info::holders`]; read and write holds count together.
    pub fn holds_of(&self, owner: impl AsRef<[u8]>) -> u64 {
        self.holds(owner.as_ref(), None)
    }

    /// How many holds of this kind, or of any, the owner has.
    pub(crate) fn holds(&self, owner: &[u8], mode: Option<&str>) -> u64 {
        let is_meant = |holder: &&Holder| {
            holder.owner == owner && mode.is_none_or(|mode| holder.mode.as_deref() == Some(mode))
        };
        self.holders.iter().filter(is_meant).map(|holder| holder.holds).fold(0, u64::saturating_add)
    }
}

fn holder(value: Value) -> Holder {
    let mut holder = Holder::default();
    for (field, value) in pairs(value) {
        match (field.as_slice(), value) {
            (b"owner", value) => holder.owner = bytes(value),
            (b"mode", value) => holder.mode = text(value),
            (b"holds", Value::Int(holds)) => holder.holds = count(holds),
            (b"lease-ms", Value::Int(lease)) => holder.remaining = lease_left(lease),
            (b"session", Value::Int(id)) => holder.session = Some(count(id)),
            _ => (),
        }
    }
    holder
}

fn waiter(value: Value) -> Waiter {
    let mut waiter = Waiter::default();
    for (field, value) in pairs(value) {
        match (field.as_slice(), value) {
            (b"owner", value) => waiter.owner = bytes(value),
            (b"mode", value) => waiter.mode = text(value),
            (b"via", value) => waiter.via = text(value).unwrap_or_default(),
            (b"age-ms", Value::Int(age)) => waiter.age = Duration::from_millis(count(age)),
            (b"wait-left-ms", Value::Int(left)) => {
                waiter.wait_left = u64::try_from(left).ok().map(Duration::from_millis);
            }
            (b"client-id", Value::Int(id)) => waiter.client_id = count(id),
            _ => (),
        }
    }
    waiter
}

/// A lease that is negative has no end.
fn lease_left(ms: i64) -> Duration {
    u64::try_from(ms).map_or(Duration::MAX, Duration::from_millis)
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

fn pairs(value: Value) -> Vec<(Vec<u8>, Value)> {
    let Value::Map(pairs) = value else { return Vec::new() };
    pairs.into_iter().map(|(field, value)| (bytes(field), value)).collect()
}

fn bytes(value: Value) -> Vec<u8> {
    match value {
        Value::BulkString(bytes) => bytes,
        Value::SimpleString(text) => text.into_bytes(),
        _ => Vec::new(),
    }
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::Nil => None,
        value => Some(String::from_utf8_lossy(&bytes(value)).into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It was read as a free lock.
    #[test]
    fn an_unknown_reply_is_not_read_as_a_free_lock() {
        for reply in [Value::Nil, Value::Okay, Value::Array(vec![Value::Int(1)]), Value::Map(Vec::new())] {
            assert!(Info::read(reply).is_err());
        }
    }

    /// Owners were lists of numbers.
    #[test]
    fn the_debug_output_shows_owners_as_text() {
        let map = |fields: &[(&str, Value)]| {
            let field = |(name, value): &(&str, Value)| (Value::SimpleString((*name).into()), value.clone());
            Value::Map(fields.iter().map(field).collect())
        };
        let owner = ("owner", Value::BulkString(b"job:1\t\xff".to_vec()));
        let holder = map(&[owner.clone(), ("holds", Value::Int(1)), ("lease-ms", Value::Int(500))]);
        let waiter = map(&[owner, ("via", Value::SimpleString("block".into()))]);
        let info = map(&[("holders", Value::Array(vec![holder])), ("queue", Value::Array(vec![waiter]))]);
        let shown = format!("{:?}", Info::read(info).unwrap());
        let owner = "owner: \"job:1\\t\u{fffd}\", mode: None";
        let holder = format!("holders: [Holder {{ {owner}, holds: 1, remaining: 500ms, session: None }}]");
        let waiter =
            format!("queue: [Waiter {{ {owner}, via: \"block\", age: 0ns, wait_left: None, client_id: 0 }}]");
        assert!(shown.contains(&holder) && shown.contains(&waiter), "{shown}");
    }
}
