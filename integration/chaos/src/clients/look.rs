//! What RLOCK.INFO says.

use redis::Value;

/// A field of a map, which RESP2 has as a flat list.
pub(crate) fn field<'a>(map: &'a Value, name: &str) -> Option<&'a Value> {
    let Value::Array(parts) = map else { return None };
    parts.chunks(2).find_map(|pair| match pair {
        [Value::BulkString(key), value] if key.as_slice() == name.as_bytes() => Some(value),
        [Value::SimpleString(key), value] if key == name => Some(value),
        _ => None,
    })
}

/// A number in it; -1 without that field.
pub(crate) fn number(map: &Value, name: &str) -> i64 {
    match field(map, name) {
        Some(Value::Int(number)) => *number,
        _ => -1,
    }
}

/// A text in it.
pub(crate) fn word(map: &Value, name: &str) -> String {
    match field(map, name) {
        Some(Value::BulkString(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        Some(Value::SimpleString(word)) => word.clone(),
        _ => String::new(),
    }
}

/// The entries of one of its lists.
pub(crate) fn entries<'a>(info: &'a Value, list: &str) -> &'a [Value] {
    match field(info, list) {
        Some(Value::Array(entries)) => entries,
        _ => &[],
    }
}

/// Whether an owner is in its `queue`, or among its `holders`.
pub(crate) fn has(info: &Value, list: &str, owner: &str) -> bool {
    entries(info, list).iter().any(|entry| word(entry, "owner") == owner)
}
