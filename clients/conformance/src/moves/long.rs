//! Locks that are held all the time, each with a waiter.

use std::sync::OnceLock;
use std::time::Duration;

use rlock_testkit::{TestServer, poll};
use serde_json::{Value, json};

use super::{ANSWER, Client};
use crate::process::{outcome, stamp};

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
    pub(super) fn end(&self, new: &TestServer) -> Vec<String> {
        let mut problems = Vec::new();
        let mut note = |wrong: bool, what: &str| {
            if wrong {
                problems.push(format!("{}: {what}", self.lock));
            }
        };
        let ([held, awaited], mut new) = (self.guards(), new.connect());
        let mut has = |owner: &str| {
            let found: redis::RedisResult<bool> =
                redis::cmd("HEXISTS").arg(&self.lock).arg(owner).query(&mut new);
            found.unwrap_or_default()
        };
        let ask = |client: &Client<'_>, what: &str, guard: &str| {
            let answer = client.process.ask(json!({"do": what, "guard": guard}), ANSWER);
            (answer.as_ref().map_or("no answer", outcome) == "ok", answer.unwrap_or_default())
        };
        let (is_held, said) = ask(self.holder, "check", &held);
        note(!is_held, &format!("its hold did not survive: {said}"));
        note(is_held && !has(&self.owner), "the new primary does not have it, and its holder does");
        let (released, said) = ask(self.holder, "release", &held);
        note(!released, &format!("its release: {said}"));
        note(released && has(&self.owner), "it was released, and not at the new primary");
        let granted = poll(GRANTED, || self.granted.get());
        match granted.map(|granted| granted.as_ref().map(|answer| (outcome(answer), answer))) {
            // A client that does not wait on such servers.
            Some(Ok(("Unsupported", _))) => return problems,
            Some(Ok(("ok", answer))) => {
                let owner = answer.get("owner").and_then(Value::as_str).unwrap_or_default();
                let early = stamp(answer, "at") < stamp(&said, "from");
                note(early, &format!("its waiter {} had it before it was released", self.waiter.handle));
                note(!has(owner), "the new primary does not know the waiter that has it");
            }
            other => note(true, &format!("its waiter {} was not served: {other:?}", self.waiter.handle)),
        }
        let (released, said) = ask(self.waiter, "release", &awaited);
        note(!released, &format!("the release of its waiter: {said}"));
        problems
    }
}
