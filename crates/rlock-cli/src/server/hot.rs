//! The locks that cost most waiting on a server: RLOCK.HOT.

use redis::{Value, cmd};
use serde::Serialize;

use super::{Link, PATIENCE, fields, integer};
use crate::error::Error;
use crate::names::serialized;

/// A lock that cost waiting since it entered the server's table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct HotLock {
    /// The database.
    pub(crate) db: i64,
    /// The lock.
    #[serde(serialize_with = "serialized")]
    pub(crate) key: Vec<u8>,
    /// How long its waiters have waited together, in ms.
    pub(crate) waited_ms: u64,
    /// By how much `waited_ms` may be too large, in ms.
    pub(crate) error_ms: u64,
    /// The waits that have ended.
    pub(crate) waits: u64,
    /// The longest wait, ended or running, in ms.
    pub(crate) longest_ms: u64,
    /// The denials.
    pub(crate) denied: u64,
    /// The waiters now.
    pub(crate) waiters: u64,
}

/// The locks of all databases of a server that cost most waiting, at most `limit` of them.
pub(crate) fn hot(link: &mut Link, limit: u32) -> Result<Vec<HotLock>, Error> {
    let reply = link.ask(cmd("RLOCK.HOT").arg("LIMIT").arg(limit), PATIENCE)?;
    read(reply).ok_or_else(|| Error::Unexpected { address: link.address(), what: "RLOCK.HOT" })
}

/// Reads the reply, in RESP2 or RESP3. Unknown fields are skipped: replies may grow.
fn read(reply: Value) -> Option<Vec<HotLock>> {
    let Value::Array(locks) = reply else { return None };
    locks.into_iter().map(read_lock).collect()
}

fn read_lock(value: Value) -> Option<HotLock> {
    let mut hot = HotLock::default();
    let mut has_key = false;
    for (name, value) in fields(value) {
        let number = || u64::try_from(integer(&value)?).ok();
        match (name.as_str(), &value) {
            ("db", _) => hot.db = integer(&value)?,
            ("key", Value::BulkString(key)) => (hot.key, has_key) = (key.clone(), true),
            ("waited-ms", _) => hot.waited_ms = number()?,
            ("error-ms", _) => hot.error_ms = number()?,
            ("waits", _) => hot.waits = number()?,
            ("longest-ms", _) => hot.longest_ms = number()?,
            ("denied", _) => hot.denied = number()?,
            ("waiters", _) => hot.waiters = number()?,
            _ => {}
        }
    }
    has_key.then_some(hot)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn replies_of_both_protocols_are_read() {
        let pairs = [
            (text("db"), Value::Int(3)),
            (text("key"), Value::BulkString(b"a\xff".to_vec())),
            (text("waited-ms"), Value::Int(9)),
            (text("error-ms"), Value::Int(1)),
            (text("waits"), Value::Int(4)),
            (text("longest-ms"), Value::Int(5)),
            (text("denied"), Value::Int(6)),
            (text("waiters"), Value::Int(7)),
            (text("of-tomorrow"), Value::Nil),
        ];
        let flat = pairs.iter().flat_map(|(name, value)| [name.clone(), value.clone()]).collect();
        let expected = HotLock {
            db: 3,
            key: b"a\xff".to_vec(),
            waited_ms: 9,
            error_ms: 1,
            waits: 4,
            longest_ms: 5,
            denied: 6,
            waiters: 7,
        };
        for reply in [Value::Array(flat), Value::Map(pairs.to_vec())] {
            assert_eq!(read(Value::Array(vec![reply])), Some(vec![expected.clone()]));
        }
        assert_eq!(read(Value::Array(Vec::new())), Some(Vec::new()));
    }

    #[test]
    fn other_replies_are_refused() {
        let without_key = Value::Array(vec![text("db"), Value::Int(0)]);
        let negative = Value::Array(vec![text("key"), text("k"), text("waits"), Value::Int(-1)]);
        for reply in [Value::Nil, text("OK"), Value::Array(vec![without_key]), Value::Array(vec![negative])] {
            assert_eq!(read(reply.clone()), None, "{reply:?}");
        }
    }
}
