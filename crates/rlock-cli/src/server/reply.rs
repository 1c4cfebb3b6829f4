//! Reading answers, in RESP2 and RESP3.

use redis::Value;

/// The pairs of a map, or of a flat array of names and values.
pub(crate) fn fields(value: Value) -> Vec<(String, Value)> {
    match value {
        Value::Map(pairs) => {
            pairs.into_iter().filter_map(|(name, value)| Some((text(&name)?, value))).collect()
        }
        Value::Array(items) => {
            let mut items = items.into_iter();
            let mut pairs = Vec::new();
            while let (Some(name), Some(value)) = (items.next(), items.next()) {
                pairs.extend(text(&name).map(|name| (name, value)));
            }
            pairs
        }
        _ => Vec::new(),
    }
}

/// An integer, also one that is written out.
pub(crate) fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        other => text(other)?.parse().ok(),
    }
}

/// A text; what is not UTF-8 is replaced.
pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.clone()),
        Value::Okay => Some("OK".to_string()),
        _ => None,
    }
}
