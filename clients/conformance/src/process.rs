//! A driver program that several threads ask.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::clock::boot_ns;
use crate::driver::{Driver, Ear, Launch};

/// Two clocks of one machine differ by at most this, in ns.
const STAMP_ERROR: i64 = 1_000_000;

pub(crate) struct Process {
    name: String,
    driver: Mutex<Driver>,
    ear: Ear,
    ids: AtomicU64,
}

impl Process {
    pub(crate) fn start(name: &str, launch: &Launch) -> Result<Process, String> {
        let driver = Driver::start(launch)?;
        let ear = driver.ear();
        let process =
            Process { name: name.to_string(), driver: Mutex::new(driver), ear, ids: AtomicU64::new(1) };
        process.must(json!({"do": "hello", "protocol": 1}), Duration::from_secs(30))?;
        Ok(process)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The answer to a request; an error is a breach of the protocol, or no answer in time.
    pub(crate) fn ask(&self, mut request: Value, within: Duration) -> Result<Value, String> {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        request["id"] = id.into();
        let sent = boot_ns();
        self.driver.lock().unwrap_or_else(PoisonError::into_inner).send(&request)?;
        let line = self.ear.take(id, within).map_err(|error| format!("{}: {error}: {request}", self.name))?;
        let answer = Value::from(line.fields);
        let [from, at] = ["from", "at"].map(|name| stamp(&answer, name));
        // Intervals of several processes are compared by their stamps.
        if from < sent - STAMP_ERROR || at < from || at > line.received + STAMP_ERROR {
            return Err(format!("{}: stamps that are not those of the boot clock: {answer}", self.name));
        }
        Ok(answer)
    }

    /// The answer to a request that must succeed.
    pub(crate) fn must(&self, request: Value, within: Duration) -> Result<Value, String> {
        let shown = request.to_string();
        let answer = self.ask(request, within)?;
        if outcome(&answer) == "ok" { Ok(answer) } else { Err(format!("{}: {shown}: {answer}", self.name)) }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner).signal(signal);
    }
}

/// `ok`, or the name of the error.
pub(crate) fn outcome(answer: &Value) -> &str {
    match answer.get("ok").and_then(Value::as_bool) {
        Some(true) => "ok",
        _ => answer.get("error").and_then(Value::as_str).unwrap_or("no error"),
    }
}

pub(crate) fn stamp(answer: &Value, name: &str) -> i64 {
    answer.get(name).and_then(Value::as_i64).unwrap_or_default()
}
