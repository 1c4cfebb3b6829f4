//! Locks that are held all the time, each with a waiter.

use std::sync::OnceLock;
use std::time::Duration;

use redis::Connection;
use rlock_testkit::{TestServer, poll};
use serde_json::{Value, json};

use super::{ANSWER, Client};
use crate::process::{outcome, stamp};
use crate::run::Problem;

/// How soon a waiter has the lock that was released.
const GRANTED: Duration = Duration::from_secs(5);

/// A lock that one client holds from before the fail-over until it is done, and another waits for.
pub(super) struct Long<'p> {
    lock: String,
    holder: &'p Client<'p>,
    owner: String,
    waiter: &'p Client<'p>,
    granted: OnceLock<Result<Value, String>>,
}

impl<'p> Long<'p> {
    /// Each client acquires one, and the next one will wait for it.
    pub(super) fn acquire(clients: &'p [Client<'p>], tag: &str) -> Result<Vec<Long<'p>>, String> {
        let waiters = clients.iter().cycle().skip(1);
        let acquire = |(holder, waiter): (&'p Client<'p>, &'p Client<'p>)| {
            let lock = format!("{tag}long-{}", holder.handle);
            let guard = format!("{}-long", holder.handle);
            let request =
                json!({"do": "acquire", "client": holder.handle, "guard": guard, "lock": lock, "try": true});
            let answer = holder.process.must(request, ANSWER)?;
            let owner = answer.get("owner").and_then(Value::as_str).unwrap_or_default().to_string();
            Ok(Long { lock, holder, owner, waiter, granted: OnceLock::new() })
        };
        clients.iter().zip(waiters).map(acquire).collect()
    }

    fn guards(&self) -> [String; 2] {
        [format!("{}-long", self.holder.handle), format!("{}-wait", self.waiter.handle)]
    }

    /// Waits for the lock; to be called beside.
    pub(super) fn wait(&self) {
        let [_, guard] = self.guards();
        let request =
            json!({"do": "acquire", "client": self.waiter.handle, "guard": guard, "lock": self.lock});
        let _ = self.granted.set(self.waiter.process.ask(request, 2 * ANSWER));
    }

    /// After the fail-over: it is held still, at the new primary, and its release there serves the waiter.
    pub(super) fn end(&self, new: &TestServer) -> Vec<Problem> {
        let ([held, awaited], mut new) = (self.guards(), new.connect());
        let mut problems = Vec::new();
        let checked = ask(self.holder, "check", &held);
        let released = if outcome(&checked) == "ok" {
            self.is_released(&held, &mut new, &mut problems)
        } else {
            problems.push(Problem::Late(format!("{}: its hold did not survive: {checked}", self.lock)));
            i64::MIN
        };
        let granted = poll(GRANTED, || self.granted.get());
        match granted.map(|granted| granted.as_ref().map(|answer| (outcome(answer), answer))) {
            // A client that does not wait on such servers.
            Some(Ok(("Unsupported", _))) => return problems,
            Some(Ok(("ok", answer))) => {
                let owner = answer.get("owner").and_then(Value::as_str).unwrap_or_default();
                let early = stamp(answer, "at") < released;
                self.note(early, &mut problems, || "its waiter had it before it was released".to_string());
                let known = self.has(owner, &mut new);
                self.note(!known, &mut problems, || {
                    "the new primary does not know the waiter that has it".to_string()
                });
            }
            other => self.note(true, &mut problems, || format!("its waiter was not served: {other:?}")),
        }
        let released = ask(self.waiter, "release", &awaited);
        self.note(outcome(&released) != "ok", &mut problems, || {
            format!("the release of its waiter: {released}")
        });
        problems
    }

    /// Releases it; when that began.
    fn is_released(&self, held: &str, new: &mut Connection, problems: &mut Vec<Problem>) -> i64 {
        let is_there = self.has(&self.owner, new);
        self.note(!is_there, problems, || "its holder has it, and the new primary does not".to_string());
        let released = ask(self.holder, "release", held);
        let is_there = self.has(&self.owner, new);
        let failed = outcome(&released) != "ok";
        self.note(failed, problems, || format!("its release: {released}"));
        self.note(is_there && !failed, problems, || {
            "it was released, and not at the new primary".to_string()
        });
        stamp(&released, "from")
    }

    fn has(&self, owner: &str, new: &mut Connection) -> bool {
        redis::cmd("HEXISTS").arg(&self.lock).arg(owner).query(new).unwrap_or_default()
    }

    fn note(&self, wrong: bool, problems: &mut Vec<Problem>, what: impl FnOnce() -> String) {
        if wrong {
            let waiter = &self.waiter.handle;
            problems.push(Problem::Wrong(format!("{}, awaited by {waiter}: {}", self.lock, what())));
        }
    }
}

fn ask(client: &Client<'_>, what: &str, guard: &str) -> Value {
    let answer = client.process.ask(json!({"do": what, "guard": guard}), ANSWER);
    answer.unwrap_or_else(|error| json!({"error": error}))
}
