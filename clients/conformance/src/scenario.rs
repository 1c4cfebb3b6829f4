//! Scenarios: the format of the files in clients/conformance/scenarios/.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use crate::proxy::gate::Act;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    /// The name of its file.
    #[serde(skip)]
    pub(crate) file: String,
    #[serde(rename = "story")]
    pub(crate) _story: String,
    #[serde(default)]
    pub(crate) needs: Vec<String>,
    #[serde(default)]
    pub(crate) server: Server,
    /// Some hold or waiter is meant to be left in the server.
    #[serde(default)]
    pub(crate) leaves: bool,
    /// Takes long: only `--long` runs it.
    #[serde(default)]
    pub(crate) long: bool,
    #[serde(deserialize_with = "steps")]
    pub(crate) steps: Vec<Step>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Server {
    #[serde(default)]
    pub(crate) conf: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) without_module: bool,
    pub(crate) cluster: Option<Primaries>,
}

/// The three primaries of a cluster. Transcript, gates and cuts of a client are those of all servers together, and a command of the
/// runner goes to the primary that has the slot of its key.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Primaries {
    Alone,
    /// Each with a replica that takes over soon.
    Replicated,
}

/// One step of a scenario. Steps run one after the other, each within 20 s.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Step {
    /// Makes a client behind a proxy of its own.
    Connect(Connect),
    /// Sends a request of the protocol, and compares its answer unless a later step awaits it.
    Ask(Ask),
    /// Compares the answer of a named request.
    Await {
        answer: String,
        #[serde(default)]
        expect: Expect,
    },
    /// A named request has no answer yet.
    Pending { answer: String },
    /// Says what happens to a request, a reply or a message of a client.
    Gate(GateStep),
    /// Waits until the gate has been met.
    Met { client: String, gate: String },
    /// Opens the gate.
    Open { client: String, gate: String },
    /// Waits for the nth request of a command.
    Requested {
        client: String,
        command: String,
        #[serde(default = "one")]
        nth: usize,
    },
    /// Cuts the client's connections.
    Cut { client: String },
    /// Cuts the client's connections, and refuses new ones.
    Down { client: String },
    /// Serves the client's connections again.
    Up { client: String },
    /// The client's connections stay open and silent.
    Silence {
        client: String,
        /// New connections are silent too, until `up`.
        #[serde(default)]
        new: bool,
        /// The server does not notice the end of those that are open.
        #[serde(default)]
        kept: bool,
    },
    /// The loss of this guard is reported within a time.
    Lost {
        guard: String,
        why: String,
        #[serde(default = "ten_seconds")]
        within_ms: u64,
    },
    /// No loss of this guard was reported.
    Quiet { guard: String },
    /// A command of the runner, repeated until `reply` is its reply.
    Server {
        command: Vec<String>,
        reply: Option<String>,
        /// The next step does not wait for its end.
        #[serde(default)]
        aside: bool,
    },
    /// A time that must pass: a lease, an outage.
    Pause { ms: u64 },
    /// Transfers between accounts, each under both accounts' locks.
    Transfers { clients: Vec<String>, accounts: usize, count: usize },
    /// Sends a signal to a process.
    Signal { process: String, signal: Signal },
    /// The server is killed, and started on its data.
    Restart {
        #[serde(default)]
        after_ms: u64,
    },
    /// The process ends by itself.
    Ends { process: String },
    /// Counts the process's threads.
    Threads { process: String, save: Option<String>, at_most: Option<String> },
    /// Many waiters in one queue, each with its turn.
    Crowd { client: String, lock: String, guard: String, count: usize },
    /// The first requests of a command were sent together: not further apart than their ACQUIREs, but for `within_ms`.
    Batched { client: String, command: String, count: usize, within_ms: i64 },
    /// A user with the rules of docs/SECURITY.md for these uses.
    User { name: String, uses: Vec<String> },
    /// The entries of ACL LOG for this user.
    Refusals { user: String, at_most: usize },
    /// No more requests of a command than this were sent.
    AtMost { client: String, command: String, count: usize },
    /// In a cluster, the slot of a lock moves to another primary, key by key.
    MoveSlot {
        lock: String,
        /// The time in which the keys are at one primary and the slot at the other.
        half_way_ms: u64,
    },
    /// In a cluster, the primary of a lock is killed once its replica has all.
    KillPrimary { lock: String },
    /// All that the client has sent about locks.
    Sent { client: String, commands: Vec<String> },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Connect {
    pub(crate) client: String,
    #[serde(default = "first_process")]
    pub(crate) process: String,
    pub(crate) lease_ms: Option<u64>,
    pub(crate) response_ms: Option<u64>,
    /// User and password, as they stand before the host in a URL.
    pub(crate) login: Option<String>,
    /// An outage that began before the client did.
    pub(crate) server: Option<Outage>,
    #[serde(default)]
    pub(crate) expect: Expect,
}

/// How a server is out of reach.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outage {
    /// Its connections are cut as soon as they are open.
    Down,
    /// Its connections are open and silent.
    Silent,
    /// Nothing listens at its address.
    Absent,
}

/// A request of the protocol: `do` and its fields, and what the runner needs. In an `adopt`, `of` names the detached guard in place of
/// its owner.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ask {
    pub(crate) request: Map<String, Value>,
    /// Only for requests without client and guard.
    pub(crate) process: Option<String>,
    /// With a name, the answer is awaited by a later step.
    pub(crate) r#as: Option<String>,
    #[serde(default)]
    pub(crate) expect: Expect,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GateStep {
    pub(crate) client: String,
    pub(crate) name: String,
    /// A command of a request or reply, or a message as `message:granted`.
    pub(crate) on: String,
    #[serde(default = "one_u32")]
    pub(crate) nth: u32,
    #[serde(default)]
    pub(crate) every: bool,
    pub(crate) act: Act,
}

/// The expected answer; ok, if no error is named.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    /// One of these errors. `ok` among them allows success.
    #[serde(default)]
    pub(crate) error: Vec<String>,
    pub(crate) why: Option<String>,
    #[serde(default)]
    pub(crate) fields: Map<String, Value>,
    /// At least (hard) and at most (a promptness bound), by the driver's stamps.
    pub(crate) took_ms: Option<(i64, i64)>,
    /// No server answered: the error names the server, and a time-out says so. `false`: a time-out does not say so.
    pub(crate) unreachable: Option<bool>,
    /// Keeps this field under this name.
    pub(crate) save: Option<(String, String)>,
    /// This field is greater than what was kept under this name.
    pub(crate) greater: Option<(String, String)>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Signal {
    Stop,
    Cont,
    Kill,
}

/// The clients that a scenario has from its beginning if it names them and no step connects them, and their processes.
const USUAL: [(&str, &str); 2] = [("x", "p1"), ("y", "p2")];

/// Steps as a file has them. `{"repeat": n, "steps": […]}` stands for steps that are done n times: `{i}` in their texts is 1, then 2, and so
/// on. After a request with `waiters`, its lock has this number of them.
fn steps<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Step>, D::Error> {
    let mut entries: Vec<Value> = Vec::new();
    for entry in Vec::<Value>::deserialize(deserializer)? {
        let Some(count) = entry.get("repeat").and_then(Value::as_u64) else {
            entries.push(entry);
            continue;
        };
        for number in 1..=count {
            let again = entry["steps"].to_string().replace("{i}", &number.to_string());
            entries.extend(serde_json::from_str::<Vec<Value>>(&again).map_err(D::Error::custom)?);
        }
    }
    let mut steps: Vec<Value> = Vec::new();
    for (client, process) in USUAL.into_iter().filter(|(client, _)| is_usual(client, &entries)) {
        steps.push(json!({"connect": {"client": client, "process": process}}));
    }
    for mut step in entries {
        let ask = step.get_mut("ask").and_then(Value::as_object_mut);
        let waiters = ask.and_then(|ask| Some((ask.remove("waiters")?, ask["request"]["lock"].clone())));
        steps.push(step);
        if let Some((count, lock)) = waiters {
            let reply = count.as_str().map_or(count.to_string(), str::to_string);
            steps.push(json!({"server": {"command": ["EVAL", WAITERS, "1", lock], "reply": reply}}));
        }
    }
    steps.into_iter().map(|step| Step::deserialize(step).map_err(D::Error::custom)).collect()
}

const WAITERS: &str = "return redis.call('RLOCK.INFO',KEYS[1])[12]";

/// Whether the steps name the client, and none connects it.
fn is_usual(client: &str, steps: &[Value]) -> bool {
    let is_its = |step: &Value| step["client"] == client || step["request"]["client"] == client;
    let bodies = || steps.iter().filter_map(Value::as_object).flat_map(Map::iter);
    bodies().any(|(_, step)| is_its(step)) && !bodies().any(|(what, step)| what == "connect" && is_its(step))
}

fn one() -> usize {
    1
}

fn one_u32() -> u32 {
    1
}

fn ten_seconds() -> u64 {
    10_000
}

fn first_process() -> String {
    "p1".to_string()
}

/// All scenarios, in the order of their files and of their places there.
pub(crate) fn load(dir: &Path) -> Result<Vec<Scenario>, String> {
    let entries = fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let mut all: Vec<Scenario> = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let mut found: Vec<Scenario> =
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        found.iter_mut().for_each(|scenario| scenario.file = stem.to_string());
        all.extend(found);
    }
    let mut names: Vec<&str> = all.iter().map(|scenario| scenario.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair.first() == pair.last()) {
        Some(twice) => Err(format!("two scenarios are called {twice:?}")),
        None => Ok(all),
    }
}
