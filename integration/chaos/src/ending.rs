//! The state after all clients have stopped: no waiters, no ties, only free locks, and no warning in any server's log.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::Value;
use rlock_testkit::poll;

use crate::clients::desk::Shared;
use crate::clients::look::{entries, number, word};
use crate::wire::{Trouble, Wires};

/// Until when all leases have ended, also those of locks whose release a fail-over forgot, with a clock set back.
const FREE: Duration = Duration::from_secs(15);

/// How long an answer may take.
const SOON: Duration = Duration::from_secs(5);

/// Checks the servers until all is as it must be, and records what is not.
pub(crate) fn check(shared: &Shared) {
    let (mut wires, mut left) = (Wires::default(), Vec::new());
    let gone = || {
        left = leftovers(shared, &mut wires);
        if !left.is_empty() {
            std::thread::sleep(Duration::from_millis(50));
        }
        left.is_empty().then_some(())
    };
    poll(FREE, gone);
    for (key, text) in left {
        shared.recorder.violation("end", key, text);
    }
    crate::hush::check(shared);
    crate::copies::check(shared);
    for warning in shared.place.warnings() {
        shared.recorder.violation("log", 0, warning);
    }
}

/// Counters that must be zero, by the section of INFO.
const NOTHING: [(&str, &[&str]); 2] = [
    ("rlock", &["rlock_waiters", "rlock_ties", "rlock_panics", "rlock_replication_failures"]),
    ("clients", &["blocked_clients"]),
];

/// Deviations from that state, each with its lock. A missing answer is one, too.
fn leftovers(shared: &Shared, wires: &mut Wires) -> Vec<(usize, String)> {
    let mut left = Vec::new();
    for port in shared.place.primaries() {
        for (section, names) in NOTHING {
            let info = info(wires, port, section);
            let wrong = names.iter().filter(|name| info.get(**name).is_none_or(|value| value != "0"));
            left.extend(wrong.map(|name| (0, format!("{name} is {:?} at the end", info.get(*name)))));
        }
        for (number, key) in shared.scene.keys.iter().enumerate() {
            let text = match wires.ask(port, &[&["RLOCK.INFO", &key.name]], SOON) {
                Ok(info) => left_of(&info),
                // Of a cluster one server has it.
                Err(Trouble::Refused(code, _)) if code == "MOVED" && shared.place.sharded() => None,
                Err(error) => Some(format!("RLOCK.INFO is answered {error:?}")),
            };
            left.extend(text.map(|text| (number, format!("{}: {text} at the end", key.name))));
        }
    }
    left
}

/// The holders and waiters that a lock still has, without Redisson waiters that died: the next caller passes them.
fn left_of(lock: &Value) -> Option<String> {
    let waiters = entries(lock, "queue").iter().filter(|waiter| word(waiter, "via") != "redisson");
    let waiters: Vec<String> = waiters.map(|waiter| word(waiter, "owner")).collect();
    if !waiters.is_empty() {
        return Some(format!("{} wait", waiters.join(", ")));
    }
    let holders: Vec<String> = entries(lock, "holders").iter().map(|holder| word(holder, "owner")).collect();
    let left = number(lock, "lease-ms");
    (word(lock, "kind") != "none").then(|| format!("held by {}, for another {left} ms", holders.join(", ")))
}

/// A section of INFO; nothing where it is not answered.
fn info(wires: &mut Wires, port: u16, section: &str) -> BTreeMap<String, String> {
    let text = match wires.ask(port, &[&["INFO", section]], SOON) {
        Ok(Value::BulkString(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
        _ => return BTreeMap::new(),
    };
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}
