//! A client that acquires the lock again and again while the primary is replaced.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::Client;
use super::board::{Board, Eye, Phase};
use super::report::{Interval, Log};
use crate::mixed::WITNESS;
use crate::process::{outcome, stamp};

/// Longer than each wait here.
const ANSWER: Duration = Duration::from_secs(40);

/// Longer than a fail-over and a turn of each other worker.
const WAIT_MS: u64 = 20_000;

pub(super) struct Worker<'w, 's> {
    pub(super) client: &'w Client<'w>,
    pub(super) board: &'w Board<'s>,
    pub(super) log: &'w Mutex<Log>,
    pub(super) lock: String,
    pub(super) witness: String,
    eye: Eye<'w, 's>,
    /// It waits for the lock, or asks again.
    waits: AtomicBool,
}

impl<'w, 's> Worker<'w, 's> {
    pub(super) fn of(
        client: &'w Client<'w>,
        board: &'w Board<'s>,
        log: &'w Mutex<Log>,
        tag: &str,
    ) -> Worker<'w, 's> {
        let (lock, witness) = (format!("{tag}one"), format!("{tag}witness"));
        Worker { client, board, log, lock, witness, eye: Eye::on(board), waits: AtomicBool::new(true) }
    }

    /// Works until all is over; an error is a client that did not do what it should.
    pub(super) fn run(mut self) -> Result<(), String> {
        let mut turn = 0;
        while !self.board.is_over() {
            turn += 1;
            let guard = format!("{}-{turn}", self.client.handle);
            let answer = self.acquire(&guard)?;
            let outcome = match outcome(&answer) {
                "ok" => self.hold(&guard, &answer)?,
                "Unsupported" if self.waits.swap(false, Ordering::Relaxed) => {
                    self.log().asking.insert(self.client.handle.clone());
                    continue;
                }
                // One that asks again is denied, or comes in the middle of the fail-over.
                error @ ("Denied" | "Unreachable" | "Refused") if !self.waits.load(Ordering::Relaxed) => {
                    std::thread::sleep(Duration::from_millis(20));
                    error.to_string()
                }
                _ => return Err(format!("{guard}: {answer}")),
            };
            self.log().count(&self.client.handle, &outcome);
        }
        Ok(())
    }

    fn log(&self) -> std::sync::MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn acquire(&self, guard: &str) -> Result<Value, String> {
        let mut request =
            json!({"do": "acquire", "client": self.client.handle, "guard": guard, "lock": self.lock});
        request["fenced"] = true.into();
        match self.waits.load(Ordering::Relaxed) {
            true => request["timeout_ms"] = WAIT_MS.into(),
            false => request["try"] = true.into(),
        }
        self.client.process.ask(request, ANSWER)
    }

    /// Holds the lock for a while; how that ended.
    fn hold(&mut self, guard: &str, acquired: &Value) -> Result<String, String> {
        let owner = acquired.get("owner").and_then(Value::as_str).unwrap_or_default();
        let mut hold =
            Interval { from: stamp(acquired, "at"), to: stamp(acquired, "at"), guard: guard.to_string() };
        let held = self.check(&mut hold, owner, stamp(acquired, "token"));
        let from = hold.from;
        self.log().holds.push(hold);
        // Others wait for it, even if something was wrong.
        let released = self.client.process.ask(json!({"do": "release", "guard": guard}), ANSWER)?;
        held?;
        match outcome(&released) {
            "ok" if self.eye.number(&["HEXISTS", &self.lock, owner])? == Some(1) => {
                Err(format!("{guard} was released, and the primary still has it"))
            }
            "LockLost" => {
                self.log().lost.push((from, guard.to_string()));
                Ok("LockLost".to_string())
            }
            known @ ("ok" | "OutcomeUnknown") => Ok(known.to_string()),
            _ => Err(format!("{guard}: {released}")),
        }
    }

    /// Compares what the client says for a while with what the primary has.
    fn check(&mut self, hold: &mut Interval, owner: &str, token: i64) -> Result<(), String> {
        for _ in 0..fastrand::u32(2..5) {
            let has = self.eye.number(&["HEXISTS", &self.lock, owner])?;
            let largest = self.eye.number(&["EVAL", WITNESS, "1", &self.witness, &token.to_string()])?;
            let answer = self.client.process.ask(json!({"do": "check", "guard": hold.guard}), ANSWER)?;
            if outcome(&answer) != "ok" {
                break;
            }
            hold.to = hold.to.max(stamp(&answer, "from"));
            let guard = &hold.guard;
            if has == Some(0) {
                return Err(format!("{guard} holds the lock, and the primary does not have it"));
            }
            if let Some(largest) = largest.filter(|largest| *largest > token) {
                return Err(format!("a second holder: {guard} has token {token}, and {largest} was there"));
            }
            if has.is_some() && self.board.phase() == Phase::AtTheNew {
                self.log().at_the_new.insert(self.client.handle.clone());
            }
            std::thread::sleep(Duration::from_millis(fastrand::u64(0..30)));
        }
        Ok(())
    }
}
