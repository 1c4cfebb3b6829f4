//! A participant of the mixed run: its process, and a proxy for its client.

use std::time::Duration;

use rlock_testkit::TestServer;
use serde_json::{Value, json};

use super::{LEASE_MS, LOCK};
use crate::driver::Launch;
use crate::process::Process;
use crate::proxy::Proxy;

/// Longer than any wait, any outage and any lease together.
const ANSWER: Duration = Duration::from_secs(30);

pub(super) struct Team {
    pub(super) process: Process,
    pub(super) proxy: Proxy,
}

impl Team {
    /// Connects, and takes the lock once: the connections of the client are there before something breaks.
    pub(super) fn start(name: &str, launch: &Launch, server: &TestServer) -> Result<Team, String> {
        let process = Process::start(name, launch)?;
        let proxy = Proxy::to(server.port()).map_err(|error| error.to_string())?;
        let team = Team { process, proxy };
        let url = format!("redis://127.0.0.1:{}", team.proxy.port());
        for request in [
            json!({"do": "connect", "client": "c", "url": url, "lease_ms": LEASE_MS, "response_ms": 250}),
            Team::acquire("first"),
            json!({"do": "release", "guard": "first"}),
        ] {
            team.process.must(request, ANSWER)?;
        }
        Ok(team)
    }

    pub(super) fn name(&self) -> &str {
        self.process.name()
    }

    pub(super) fn acquire(guard: &str) -> Value {
        json!({"do": "acquire", "client": "c", "guard": guard, "lock": LOCK, "timeout_ms": 4_000, "fenced": true})
    }

    pub(super) fn ask(&self, request: Value) -> Result<Value, String> {
        self.process.ask(request, ANSWER)
    }
}
