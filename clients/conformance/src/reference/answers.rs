//! Answers and events: what the driver writes.

use std::io::Write;

use rlock_client::{Error, Event, Lost};
use serde_json::{Map, Value, json};

use crate::clock::boot_ns;

/// An answer without an error: its fields.
pub(super) type Fields = Map<String, Value>;

/// What is answered instead of [`Fields`].
pub(super) struct Fault {
    pub(super) error: &'static str,
    why: Option<&'static str>,
    cause: Option<&'static str>,
    message: String,
}

impl Fault {
    pub(super) fn new(error: &'static str, message: impl Into<String>) -> Fault {
        Fault { error, why: None, cause: None, message: message.into() }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Fault {
        Fault::new("Invalid", message)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        let why = match &error {
            Error::LockLost { why, .. } => Some(reason(*why)),
            _ => None,
        };
        let timed_out = matches!(error, Error::Timeout { .. });
        let causes = std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
        let message = causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
        // A time-out has a source only if no server answered.
        let cause = std::error::Error::source(&error).filter(|_| timed_out).map(|_| "unreachable");
        Fault { error: named(&error), why, cause, message }
    }
}

fn named(error: &Error) -> &'static str {
    match error {
        Error::Timeout { .. } => "Timeout",
        Error::Denied { .. } => "Denied",
        Error::LockLost { .. } => "LockLost",
        Error::OutcomeUnknown { .. } => "OutcomeUnknown",
        Error::ModuleMissing { .. } => "ModuleMissing",
        Error::Unsupported { .. } => "Unsupported",
        Error::Permission { .. } => "Permission",
        Error::QueueFull { .. } => "QueueFull",
        Error::NotALock { .. } => "NotALock",
        Error::Transport { .. } | Error::Tls { .. } => "Unreachable",
        Error::Invalid { .. } => "Invalid",
        Error::Closed => "Closed",
        Error::Unflushed { .. } => "Unflushed",
        _ => "Refused",
    }
}

pub(super) fn reason(why: Lost) -> &'static str {
    match why {
        Lost::Expired | Lost::Unreachable => "expired",
        Lost::Overdue => "overdue",
        Lost::Closed => "closed",
        Lost::Forked => "forked",
        _ => "taken",
    }
}

/// The hook's event, as the protocol names it.
pub(super) fn hook(client: &str, event: &Event<'_>) -> Option<Value> {
    let (name, lock) = match event {
        Event::Acquired { lock, .. } => ("acquired", Some(lock)),
        Event::Denied { lock, .. } => ("denied", Some(lock)),
        Event::TimedOut { lock, .. } => ("timed_out", Some(lock)),
        Event::Released { lock, .. } => ("released", Some(lock)),
        Event::Renewed { lock, .. } => ("renewed", Some(lock)),
        Event::RenewalFailed { lock, .. } => ("renewal_failed", Some(lock)),
        Event::Lost { lock, .. } => ("lost", Some(lock)),
        Event::Disconnected { .. } => ("disconnected", None),
        Event::Reconnected { .. } => ("reconnected", None),
        _ => return None,
    };
    let mut line = json!({"event": "hook", "client": client, "name": name, "at": boot_ns()});
    if let Some(lock) = lock {
        line["lock"] = String::from_utf8_lossy(lock).into();
    }
    Some(line)
}

pub(super) fn lost(guard: &str, why: &str) -> Value {
    json!({"event": "lost", "guard": guard, "why": why, "at": boot_ns()})
}

pub(super) fn answer(id: u64, from: i64, outcome: Result<Fields, Fault>) -> Value {
    let ok = outcome.is_ok();
    let mut line = json!({"id": id, "ok": ok, "from": from, "at": boot_ns()});
    match outcome {
        Ok(fields) => fields.into_iter().for_each(|(name, value)| line[name] = value),
        Err(fault) => {
            line["error"] = fault.error.into();
            line["message"] = fault.message.into();
            for (name, value) in [("why", fault.why), ("cause", fault.cause)] {
                if let Some(value) = value {
                    line[name] = value.into();
                }
            }
        }
    }
    line
}

pub(super) fn fields<const N: usize>(fields: [(&str, Value); N]) -> Fields {
    fields.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

/// Writes a line; without a reader the process ends.
pub(super) fn write(line: &Value) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}
