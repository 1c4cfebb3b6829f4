//! Requests: the fields of a line.

use serde::Deserialize;
use serde_json::Value;

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    #[default]
    Lock,
    Read,
    Write,
    Permit,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Request {
    Hello {
        protocol: u32,
    },
    Connect {
        client: String,
        url: String,
        name: Option<String>,
        lease_ms: Option<u64>,
        response_ms: Option<u64>,
    },
    Acquire(Acquire),
    AcquireAll(AcquireAll),
    Cancel {
        acquire: u64,
    },
    Check {
        guard: String,
    },
    Reenter {
        guard: String,
        r#as: String,
    },
    Release {
        guard: String,
    },
    Downgrade {
        guard: String,
        r#as: String,
    },
    Detach {
        guard: String,
    },
    Adopt(Adopt),
    Locked {
        client: String,
        lock: String,
        #[serde(default)]
        kind: Kind,
    },
    Info {
        client: String,
        lock: String,
        #[serde(default)]
        kind: Kind,
    },
    ForceRelease {
        client: String,
        lock: String,
        #[serde(default)]
        kind: Kind,
    },
    Busy {
        ms: u64,
    },
    Close {
        client: String,
        within_ms: Option<u64>,
    },
    Exit {},
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Acquire {
    pub(super) client: String,
    pub(super) guard: String,
    pub(super) lock: String,
    #[serde(default)]
    pub(super) kind: Kind,
    #[serde(default)]
    pub(super) r#try: bool,
    pub(super) timeout_ms: Option<u64>,
    pub(super) lease_ms: Option<u64>,
    #[serde(default)]
    pub(super) fair: bool,
    #[serde(default)]
    pub(super) fenced: bool,
    /// Of a semaphore.
    pub(super) permits: Option<u32>,
    pub(super) session_ms: Option<u64>,
    pub(super) owner: Option<String>,
    pub(super) at_least_ms: Option<u64>,
    pub(super) max_hold_ms: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AcquireAll {
    pub(super) client: String,
    pub(super) guard: String,
    pub(super) locks: Vec<String>,
    #[serde(default)]
    pub(super) r#try: bool,
    pub(super) timeout_ms: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Adopt {
    pub(super) client: String,
    pub(super) guard: String,
    pub(super) lock: String,
    pub(super) owner: String,
    #[serde(default)]
    pub(super) kind: Kind,
    pub(super) session_ms: Option<u64>,
}

/// The id of a line and its request; the error is for the caller where there is an id.
pub(super) fn read(line: &str) -> Option<(u64, Result<Request, String>)> {
    let Value::Object(mut fields) = serde_json::from_str(line).ok()? else { return None };
    let id = fields.remove("id")?.as_u64()?;
    if fields.values().any(Value::is_null) {
        return Some((id, Err("null is not a value".to_string())));
    }
    Some((id, serde_json::from_value(fields.into()).map_err(|error| error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_strict() {
        let good = r#"{"id":7,"do":"acquire","client":"c","guard":"g","lock":"a","timeout_ms":8000}"#;
        assert!(matches!(read(good), Some((7, Ok(Request::Acquire(_))))));
        for bad in [
            r#"{"id":7,"do":"acquire","client":"c","guard":"g","lock":"a","wait":8000}"#,
            r#"{"id":7,"do":"release"}"#,
            r#"{"id":7,"do":"busy","ms":"5"}"#,
            r#"{"id":7,"do":"close","client":"c","within_ms":null}"#,
            r#"{"id":7,"do":"sing"}"#,
        ] {
            assert!(matches!(read(bad), Some((7, Err(_)))), "{bad}");
        }
        assert!(read("hello").is_none() && read("[]").is_none() && read(r#"{"do":"exit"}"#).is_none());
    }
}
