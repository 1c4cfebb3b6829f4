//! Writes of other clients to a lock's key, without the module: the same for `rlock-core` and the oracle.

use super::hash::{Hash, Leases};
use super::op::{Count, Ms, OtherWrite};
use super::redisson;
use super::values::Value;

/// The value of the key afterwards; nothing where it is not written.
pub(super) fn run(what: OtherWrite, value: Value, leases: &mut Leases, now: i64) -> Option<Value> {
    let after = |Ms(ms): Ms| now + ms;
    Some(match (what, value) {
        (OtherWrite::Delete, _) => Value::Nothing,
        (OtherWrite::Take { owner, lease }, Value::Nothing) => {
            Value::Held { by: owner, holds: 1, ends: lease.map(after) }
        }
        (OtherWrite::Put { owner, holds: Count(holds), lease }, _) => {
            Value::Held { by: owner, holds: holds.max(1), ends: lease.map(after) }
        }
        (OtherWrite::Spoil, _) => Value::Other,
        (OtherWrite::Expire(ms), _) => return with_end(value, Some(after(ms))),
        (OtherWrite::Persist, _) => return with_end(value, None),
        (OtherWrite::RemovePermit(owner), Value::Permits(mut ends, key_end)) => {
            ends[owner.0] = None;
            if ends.iter().all(Option::is_none) { Value::Nothing } else { Value::Permits(ends, key_end) }
        }
        (OtherWrite::Redisson { script, owner, lease: Ms(lease) }, Value::Nothing | Value::ReadWrite(_)) => {
            let before = if let Value::ReadWrite(hash) = value { Some(hash) } else { None };
            let hash = redisson::run(script, owner, lease, before, leases, now);
            return (hash != before).then_some(hash.map_or(Value::Nothing, Value::ReadWrite));
        }
        _ => return None,
    })
}

/// The same with another expiry, if there is a lock.
fn with_end(value: Value, ends: Option<i64>) -> Option<Value> {
    match value {
        Value::Held { by, holds, .. } => Some(Value::Held { by, holds, ends }),
        Value::ReadWrite(hash) => Some(Value::ReadWrite(Hash { ends, ..hash })),
        Value::Permits(of, _) => Some(Value::Permits(of, ends)),
        Value::Nothing | Value::Other => None,
    }
}
