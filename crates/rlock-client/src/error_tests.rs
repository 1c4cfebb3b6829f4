//! Every error says what to do next.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::error::{Error, Lost};
use rlock_links::Cause;

/// The instructions that an error's text and its advice must contain. Without a default: a new variant does
/// not compile until it has both.
fn advice(error: &Error) -> (usize, &'static [&'static str], &'static [&'static str]) {
    match error {
        Error::Timeout { .. } => (0, &["wait longer", "RLOCK.INFO lock"], &[]),
        Error::LockLost { .. } => (
            1,
            &["stop the work and check its results", "forced release"],
            &["another owner may hold it", "Builder::lease", "Lock::fenced"],
        ),
        Error::Denied { .. } => (2, &["another owner holds", "try again later"], &[]),
        Error::OutcomeUnknown { .. } => (3, &["it is free now or at its lease end"], &["RLOCK.INFO"]),
        Error::Durability { .. } => (4, &["ask for fewer", "allow more time"], &["INFO replication"]),
        Error::ModuleMissing { .. } => (5, &["loadmodule /path/to/librlock.so"], &["restart", "MODULE LOAD"]),
        Error::Permission { .. } => {
            let grants = &["+@rlock", "+subscribe", "&rlock:grants:*", "+cluster|slots", "Waiting::Polling"];
            (6, &["check the user's password and permissions"], grants)
        }
        Error::QueueFull { .. } => (
            7,
            &["try again later", "raise the server's limit"],
            &["rlock.max-waiters-per-key", "Waiting::Polling"],
        ),
        Error::NotALock { .. } => (8, &["choose another name"], &[]),
        Error::Refused { .. } => (9, &["fix the cause", "try again"], &[]),
        Error::Transport { .. } => (10, &["check its address, its state and the network"], &[]),
        Error::Tls { .. } => (
            11,
            &["check its port and the certificates"],
            &["TLS port", "root_certificates", "client_certificate"],
        ),
        // What is wrong differs, and so does what would be right: see the test of bad settings.
        Error::Invalid { .. } => (12, &[], &[]),
        // As with Invalid.
        Error::Unsupported { .. } => (15, &[], &[]),
        Error::Closed => (13, &["create a new one"], &[]),
        Error::Unflushed { .. } => {
            (14, &["drop their guards earlier, or allow more time"], &["free at their lease ends"])
        }
    }
}

/// How many variants there are.
const VARIANTS: usize = 16;

fn one_of_each() -> Vec<Error> {
    let (lock, message) = (|| "lock".to_string(), || "what was said".to_string());
    let waited = Duration::from_millis(1_500);
    vec![
        Error::Timeout { lock: lock(), waited, source: None },
        Error::LockLost { lock: lock(), why: Lost::Taken },
        Error::denied(b"lock"),
        Error::unknown(b"lock", Error::Refused { message: message() }),
        Error::Durability { lock: lock(), wanted: 2, reached: 1 },
        Error::ModuleMissing { message: message() },
        Error::Permission { message: message() },
        Error::QueueFull { lock: lock(), message: message() },
        Error::NotALock { lock: lock(), message: message() },
        Error::Refused { message: message() },
        Error::transport("what was said", message()),
        Error::Tls { server: message(), source: Cause::new(message()) },
        Error::Unsupported { message: message() },
        Error::Invalid { message: message() },
        Error::Closed,
        Error::Unflushed { locks: 3 },
    ]
}

#[test]
fn every_message_tells_what_to_do_and_what_about() {
    let all = one_of_each();
    let numbers: BTreeSet<usize> = all.iter().map(|error| advice(error).0).collect();
    assert_eq!(numbers, (0..VARIANTS).collect(), "an example of each");
    for error in all {
        let (message, (_, words, more)) = (error.to_string(), advice(&error));
        for word in words {
            assert!(message.contains(word), "{error:?} does not say {word:?}: {message}");
        }
        assert!(message.len() < 140, "a short text: {message}");
        assert_eq!(error.advice().is_some(), !more.is_empty(), "{error:?}");
        let advice = error.advice().unwrap_or_default();
        for word in more {
            assert!(advice.contains(word), "{error:?} does not advise {word:?}: {advice}");
        }
        // The text contains what the error knows: the lock and the server's words. The driver's words are its source.
        let known = format!("{error:#?}");
        let source = std::error::Error::source(&error).map(ToString::to_string);
        let message = message + source.as_deref().unwrap_or_default();
        for fact in ["lock", "what was said"] {
            assert!(!known.contains(&format!("\"{fact}\"")) || message.contains(fact), "{message}");
        }
    }
    let reasons = [Lost::Expired, Lost::Taken, Lost::Unreachable, Lost::Closed, Lost::Forked, Lost::Released];
    let told: BTreeSet<String> = reasons.iter().map(Lost::to_string).collect();
    assert_eq!(told.len(), reasons.len(), "{told:?}");
}

/// A `main` that returned an error printed `ModuleMissing { message: … }`, and never the advice.
#[test]
fn the_debug_output_shows_text_cause_and_advice() {
    for error in one_of_each() {
        let shown = format!("{error:?}");
        assert!(shown.starts_with(&error.to_string()), "{shown}");
        assert_eq!(shown.contains("\n  → "), error.advice().is_some(), "{shown}");
        assert!(shown.ends_with(error.advice().unwrap_or_default()), "{shown}");
    }
    let error = Error::transport("one:6379", "connection refused");
    let text = "the server one:6379 is unreachable; check its address, its state and the network";
    assert_eq!(format!("{error:?}"), format!("{text}\n  cause: connection refused"));
    let unknown = Error::unknown(b"lock", error.clone());
    let shown = format!("{unknown:?}");
    let causes = format!("\n  cause: {text}\n  cause: connection refused\n  → RLOCK.INFO");
    assert!(shown.starts_with(&unknown.to_string()) && shown.contains(&causes), "{shown}");
    assert!(unknown.line().ends_with("; cause: connection refused"), "{}", unknown.line());
    // The text has the cause already; its advice is still missing.
    let timeout = |cause| Error::timeout(b"lock", Duration::from_secs(1), Some(cause));
    assert_eq!(format!("{:?}", timeout(error)).matches("connection refused").count(), 1);
    let denied = Error::Permission { message: "NOPERM".to_string() };
    let advice = denied.advice().unwrap();
    let shown = format!("{:?}", timeout(denied));
    assert!(shown.ends_with(&format!("\n  → {advice}")) && shown.matches("NOPERM").count() == 1, "{shown}");
}

#[test]
fn the_alternate_debug_output_shows_the_variant_and_its_fields() {
    let names: BTreeSet<String> = one_of_each()
        .iter()
        .map(|error| format!("{error:#?}").lines().next().unwrap_or_default().to_string())
        .collect();
    assert_eq!(names.len(), VARIANTS, "{names:?}");
    let error = Error::transport("one:6379", "connection refused");
    let fields = "Transport {\n    server: \"one:6379\",\n    source: Cause(\n        \"connection refused\",\n    ),\n}";
    assert_eq!(format!("{error:#?}"), fields);
    assert_eq!(format!("{:#?}", Error::Closed), "Closed");
}
