//! Requests and answers: sent, awaited, and compared with what the protocol allows.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Answer, Asked, DEADLINE, Problem, Run};
use crate::clock::boot_ns;
use crate::driver::Line;
use crate::scenario::Expect;

/// The largest apparent difference between two clocks of one machine.
const STAMP_ERROR: i64 = 1_000_000;

const ERRORS: [&str; 15] = [
    "LockLost",
    "Timeout",
    "Denied",
    "OutcomeUnknown",
    "ModuleMissing",
    "Unsupported",
    "Permission",
    "NotALock",
    "QueueFull",
    "Refused",
    "Unreachable",
    "Closed",
    "Cancelled",
    "Invalid",
    "Unflushed",
];

/// The fields that an answer has beside `id`, `ok`, `from` and `at`.
fn fields_of(request: &str) -> &'static [&'static str] {
    match request {
        "hello" => &["protocol", "client", "version", "driver", "capabilities"],
        "connect" => &["identity"],
        "acquire" => &["token", "owner"],
        "check" => &["left_ms"],
        "detach" => &["owner", "left_ms"],
        "reenter" => &["token"],
        "locked" | "force_release" => &["value"],
        "info" => &["holders", "waiters"],
        "threads" => &["count"],
        "fork" => &["check", "acquire"],
        _ => &[],
    }
}

impl Run<'_> {
    pub(super) fn hello(&mut self, process: &str) -> Result<(), Problem> {
        let mut request = Map::new();
        request.insert("do".into(), "hello".into());
        request.insert("protocol".into(), 1.into());
        let id = self.send(process, request)?;
        let answer = self.answer(id, DEADLINE)?;
        if answer.error.is_some() || answer.fields.get("protocol") != Some(&json!(1)) {
            return Err(format!("hello: {:?}", answer.fields).into());
        }
        self.pool.hello = Some(answer.fields);
        Ok(())
    }

    /// Sends a request to a process; its id.
    pub(super) fn send(&mut self, process: &str, request: Map<String, Value>) -> Result<u64, Problem> {
        let id = self.pool.next_id;
        self.pool.next_id += 1;
        let mut line = request.clone();
        line.insert("id".into(), id.into());
        for handle in ["client", "guard", "as"] {
            if let Some(Value::String(name)) = line.get(handle) {
                let name = format!("{}{name}", self.prefix);
                line.insert(handle.into(), name.into());
            }
        }
        let sent = boot_ns();
        self.driver(process)?.send(&Value::Object(line))?;
        self.asked.push(Asked { id, process: process.to_string(), sent, request, answer: None });
        Ok(id)
    }

    /// The answer to a request, waiting for it.
    pub(super) fn answer(&mut self, id: u64, within: Duration) -> Result<Answer, Problem> {
        let asked = self.asked.iter().rev().find(|asked| asked.id == id).ok_or("unknown request")?.clone();
        let driver = self.pool.drivers.get(&asked.process).ok_or("its process is gone")?;
        let mine = |line: &Line| line.fields.get("id") == Some(&json!(id));
        let line = driver.line(within, mine)?;
        let line = line.ok_or_else(|| {
            format!("no answer to {} within {within:?}", Value::from(asked.request.clone()))
        })?;
        let answer = read(&asked, &line)?;
        if let Some(asked) = self.asked.iter_mut().rev().find(|asked| asked.id == id) {
            asked.answer = Some(answer.clone());
        }
        Ok(answer)
    }

    /// Compares an answer with what is expected.
    pub(super) fn compare(&mut self, id: u64, answer: &Answer, expect: &Expect) -> Result<(), Problem> {
        let found = answer.error.clone().unwrap_or_else(|| "ok".to_string());
        let right = match expect.error.as_slice() {
            [] => found == "ok",
            errors => errors.contains(&found),
        };
        let said = || format!("the answer to {id}: {}", Value::from(answer.fields.clone()));
        if !right {
            let wanted = if expect.error.is_empty() { "ok".to_string() } else { expect.error.join(" or ") };
            return Err(format!("{found}, not {wanted}; {}", said()).into());
        }
        if let Some(why) = &expect.why
            && answer.fields.get("why").and_then(Value::as_str) != Some(why)
        {
            return Err(format!("not why {why}: {}", said()).into());
        }
        for (name, value) in &expect.fields {
            if answer.fields.get(name) != Some(value) {
                return Err(format!("{name} is not {value}: {}", said()).into());
            }
        }
        if let Some(unreachable) = expect.unreachable {
            self.compare_cause(answer, unreachable)?;
        }
        self.compare_numbers(answer, expect)
    }

    /// An error of an outage names a server, and a time-out says that it is one of an outage, or that it is not.
    fn compare_cause(&self, answer: &Answer, unreachable: bool) -> Result<(), Problem> {
        let error = answer.error.as_deref().unwrap_or_default();
        let said = Value::from(answer.fields.clone());
        if error == "Timeout" && answer.fields.contains_key("cause") != unreachable {
            let what = if unreachable { "a time-out of an outage without" } else { "another time-out with" };
            return Err(format!("{what} the cause unreachable: {said}").into());
        }
        let names_it = ["Timeout", "Unreachable", "OutcomeUnknown"].contains(&error) && unreachable;
        let message = answer.fields.get("message").and_then(Value::as_str).unwrap_or_default();
        let mut addresses = self.parties.values().map(|party| format!("127.0.0.1:{}", party.port));
        if names_it && !addresses.any(|address| message.contains(&address)) {
            return Err(format!("no server is named: {said}").into());
        }
        Ok(())
    }

    fn compare_numbers(&mut self, answer: &Answer, expect: &Expect) -> Result<(), Problem> {
        let number = |field: &str| {
            answer.fields.get(field).and_then(Value::as_f64).ok_or(format!("no number {field}"))
        };
        if let Some((field, name)) = &expect.save {
            self.saved.insert(name.clone(), number(field)?);
        }
        if let Some((field, name)) = &expect.greater {
            let (found, kept) = (number(field)?, self.saved.get(name).copied().ok_or("nothing was kept")?);
            if found <= kept {
                return Err(format!("{field} is {found}, and not greater than {kept}").into());
            }
        }
        let Some((least, most)) = expect.took_ms else { return Ok(()) };
        let took = (answer.at - answer.from) / 1_000_000;
        if took < least {
            return Err(format!("answered after {took} ms, before {least} ms").into());
        }
        if took > most {
            return Err(Problem::Late(format!("answered after {took} ms, not within {most} ms")));
        }
        Ok(())
    }
}

/// An answer, if it is one by the protocol.
fn read(asked: &Asked, line: &Line) -> Result<Answer, String> {
    let kind = asked.request.get("do").and_then(Value::as_str).unwrap_or_default();
    let fields = &line.fields;
    let wrong = |what: &str| Err(format!("{what}: {}", Value::from(fields.clone())));
    let stamp = |name: &str| fields.get(name).and_then(Value::as_i64);
    let (Some(ok), Some(from), Some(at)) =
        (fields.get("ok").and_then(Value::as_bool), stamp("from"), stamp("at"))
    else {
        return wrong("an answer without ok, from or at");
    };
    if from < asked.sent - STAMP_ERROR || at < from || at > line.received + STAMP_ERROR {
        return wrong("stamps that are not those of the boot clock");
    }
    let error = fields.get("error").and_then(Value::as_str).map(str::to_string);
    let lost = error.as_deref() == Some("LockLost");
    let known: &[&str] = match (ok, lost) {
        (true, _) => fields_of(kind),
        (false, true) => &["error", "message", "why"],
        (false, false) => &["error", "message"],
    };
    let general = ["id", "ok", "from", "at", "cause", if kind == "fork" { "owner" } else { "id" }];
    if fields.keys().any(|name| !general.contains(&name.as_str()) && !known.contains(&name.as_str())) {
        return wrong("an unknown field");
    }
    let causes = matches!((error.as_deref(), fields.get("cause")), (_, None) | (Some("Timeout"), Some(_)));
    if !causes || fields.get("cause").is_some_and(|cause| cause != "unreachable") {
        return wrong("an unknown cause");
    }
    if known.iter().any(|name| !fields.contains_key(*name)) {
        return wrong("a missing field");
    }
    if error.as_deref().is_some_and(|error| !ERRORS.contains(&error)) {
        return wrong("an unknown error");
    }
    Ok(Answer { from, at, error, fields: fields.clone() })
}

/// An event, if it is one by the protocol.
pub(super) fn check_event(fields: &Map<String, Value>) -> Result<(), String> {
    let has =
        |names: &[&str]| names.len() == fields.len() && names.iter().all(|name| fields.contains_key(*name));
    let right = match fields.get("event").and_then(Value::as_str) {
        Some("lost") => has(&["event", "guard", "why", "at"]),
        Some("hook") => {
            has(&["event", "client", "name", "lock", "at"]) || has(&["event", "client", "name", "at"])
        }
        _ => false,
    };
    if right { Ok(()) } else { Err(format!("no event of the protocol: {}", Value::from(fields.clone()))) }
}
