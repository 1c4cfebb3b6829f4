//! The probe of a connection, which says the server's role.

use redis::{Cmd, Value, cmd};

/// HELLO without arguments, which changes nothing and shows the role. No ACL can refuse it, unlike PING and ROLE, so it
/// leaves no entry in ACL LOG.
pub(super) fn pulse() -> Cmd {
    cmd("HELLO")
}

/// Whether the answer to [`pulse`] is that of a replica.
pub(super) fn is_replica(answer: &Value) -> bool {
    field(answer, "role").is_some_and(|role| !is_text(role, "master"))
}

/// A field of a reply that is a map.
pub(super) fn field<'a>(reply: &'a Value, name: &str) -> Option<&'a Value> {
    let Value::Map(fields) = reply else { return None };
    fields.iter().find(|(key, _)| is_text(key, name)).map(|(_, value)| value)
}

/// A text of a reply.
pub(super) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(string) => Some(string),
        _ => None,
    }
}

fn is_text(value: &Value, wanted: &str) -> bool {
    text(value) == Some(wanted)
}
