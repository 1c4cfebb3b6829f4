//! A participant of the mixed run: its process, and a proxy for its client.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rlock_testkit::TestServer;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{LEASE_MS, LOCK};
use crate::clock::boot_ns;
use crate::driver::{Driver, Ear, Launch};
use crate::proxy::Proxy;

/// Longer than any wait, any outage and any lease together.
const ANSWER: Duration = Duration::from_secs(30);

/// Two clocks of one machine differ by at most this, in ns.
const STAMP_ERROR: i64 = 1_000_000;

pub(super) struct Team {
    pub(super) name: String,
    driver: Mutex<Driver>,
    ear: Ear,
    pub(super) proxy: Proxy,
    ids: AtomicU64,
}

impl Team {
    /// Connects, and takes the lock once: the connections of the client are there before something breaks.
    pub(super) fn start(name: &str, launch: &Launch, server: &TestServer) -> Result<Team, String> {
        let driver = Driver::start(launch)?;
        let proxy = Proxy::to(server.port()).map_err(|error| error.to_string())?;
        let ear = driver.ear();
        let team =
            Team { name: name.to_string(), driver: Mutex::new(driver), ear, proxy, ids: AtomicU64::new(1) };
        let url = format!("redis://127.0.0.1:{}", team.proxy.port());
        for request in [
            json!({"do": "hello", "protocol": 1}),
            json!({"do": "connect", "client": "c", "url": url, "lease_ms": LEASE_MS, "response_ms": 250}),
            Team::acquire("first"),
            json!({"do": "release", "guard": "first"}),
        ] {
            let answer = team.ask(request)?;
            if answer.get("ok") != Some(&json!(true)) {
                return Err(format!("{name}: {answer}"));
            }
        }
        Ok(team)
    }

    pub(super) fn acquire(guard: &str) -> Value {
        json!({"do": "acquire", "client": "c", "guard": guard, "lock": LOCK, "timeout_ms": 4_000, "fenced": true})
    }

    pub(super) fn ask(&self, mut request: Value) -> Result<Value, String> {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        request["id"] = id.into();
        let sent = boot_ns();
        self.driver.lock().unwrap_or_else(PoisonError::into_inner).send(&request)?;
        let line = self.ear.take(id, ANSWER).map_err(|error| format!("{}: {error}: {request}", self.name))?;
        let answer = Value::from(line.fields);
        let [from, at] = ["from", "at"].map(|name| stamp(&answer, name));
        // Intervals of several processes are compared by their stamps.
        if from < sent - STAMP_ERROR || at < from || at > line.received + STAMP_ERROR {
            return Err(format!("{}: stamps that are not those of the boot clock: {answer}", self.name));
        }
        Ok(answer)
    }

    pub(super) fn signal(&self, signal: Signal) {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner).signal(signal);
    }
}

pub(super) fn stamp(answer: &Value, name: &str) -> i64 {
    answer.get(name).and_then(Value::as_i64).unwrap_or_default()
}
