//! Why a server that answers gives no locks now: it refuses or pauses writes, its memory is full, or it drains.

use std::time::Duration;

use redis::cmd;
use rlock_links::slot_of;

use super::facts::{self, Fields};
use super::link::{Link, Probe};
use super::nodes::nodes;
use crate::error::Error;

/// The key of the probe; in a cluster a number follows, by which the key is in a slot of the node.
const KEY: &str = "rlock:probe";

/// An owner that is in no queue.
const OWNER: &str = "rlock-probe";

/// How long a server that has answered another question may take to answer the probe.
const USUAL: Duration = Duration::from_secs(1);

/// Why a server gives no locks now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hindrance {
    /// The server refuses every write, with this text.
    Refuses(String),
    /// The server answers reads, and no writes.
    Pauses,
    /// ACQUIRE is refused with OOM.
    Full,
    /// The option `rlock.accept` is no.
    Drains,
}

impl Hindrance {
    /// One word for it: the first word of the server's error, or one like it.
    pub(crate) fn code(&self) -> &str {
        match self {
            Hindrance::Refuses(text) => text.split(' ').next().unwrap_or_default(),
            Hindrance::Pauses => "PAUSE",
            Hindrance::Full => "OOM",
            Hindrance::Drains => "DRAIN",
        }
    }

    /// What the server does, as the end of a sentence about the server.
    pub(crate) fn text(&self) -> String {
        match self {
            Hindrance::Refuses(text) => format!("refuses writes: {text}"),
            Hindrance::Pauses => "answers no writes: they are paused (CLIENT PAUSE)".to_string(),
            Hindrance::Full => "refuses new locks: its memory is full (maxmemory)".to_string(),
            Hindrance::Drains => "refuses new locks: it is drained (rlock.accept is no)".to_string(),
        }
    }

    /// What to do about the servers at `addresses`.
    pub(crate) fn advice(&self, addresses: &str) -> String {
        match self {
            Hindrance::Refuses(text) if text.starts_with("NOREPLICAS") => format!(
                "bring the replicas of {addresses} back, or lower min-replicas-to-write; until then no lock is acquired, \
                 renewed or released there"
            ),
            Hindrance::Refuses(text) if text.starts_with("LOADING") => {
                format!(
                    "wait until {addresses} has loaded its data; until then no lock is acquired, renewed or released there"
                )
            }
            Hindrance::Refuses(_) => format!(
                "fix what {addresses} names, such as a full disk; until then no lock is acquired, renewed or released there"
            ),
            Hindrance::Pauses => format!(
                "a fail-over may be under way: ask again after it, or end the pause of {addresses} with CLIENT UNPAUSE; until \
                 then no lock is acquired, renewed or released there"
            ),
            Hindrance::Full => {
                format!("raise maxmemory on {addresses}, or remove keys; releasing and renewing still work")
            }
            Hindrance::Drains => {
                format!("after the maintenance of {addresses}: CONFIG SET rlock.accept yes")
            }
        }
    }
}

/// Whether a primary that has the module takes acquisitions now. `fields` are those of INFO.
///
/// Nothing is written: the server refuses a CANCEL of an owner that is in no queue when it takes no writes, and otherwise it
/// changes nothing.
pub(crate) fn hindrance(link: &mut Link, fields: &Fields) -> Result<Option<Hindrance>, Error> {
    let is = |name: &str, value: &str| fields.get(name).is_some_and(|is| is == value);
    if !fields.contains_key("rlock_version") || !is("role", "master") {
        return Ok(None);
    }
    let refused = refused(link, fields)?;
    let full = || is_full(fields).then_some(Hindrance::Full);
    Ok(refused.or_else(full).or_else(|| is("rlock_accept", "0").then_some(Hindrance::Drains)))
}

/// Whether the server takes writes, and why not.
fn refused(link: &mut Link, fields: &Fields) -> Result<Option<Hindrance>, Error> {
    if link.probe == Probe::New {
        match key(link, fields)? {
            Some(key) => link.probe = Probe::With(key),
            // A node without slots has no locks.
            None => return Ok(None),
        }
    }
    let Probe::With(key) = &link.probe else { return Ok(None) };
    match link.ask(cmd("RLOCK.CANCEL").arg(key).arg(OWNER), USUAL) {
        Ok(_) => Ok(None),
        // A server that answers other questions.
        Err(Error::NoAnswer { .. }) => facts::info(link, &["server"]).map(|_| Some(Hindrance::Pauses)),
        Err(Error::Refused { text, .. }) => match text.split(' ').next().unwrap_or_default() {
            "NOPERM" => {
                link.probe = Probe::Forbidden;
                Ok(None)
            }
            // The slot has left.
            "MOVED" | "ASK" => {
                link.probe = Probe::New;
                Ok(None)
            }
            _ => Ok(Some(Hindrance::Refuses(text))),
        },
        Err(error) => Err(error),
    }
}

/// A key that the server has the slot of.
fn key(link: &mut Link, fields: &Fields) -> Result<Option<String>, Error> {
    if !facts::is_cluster(fields) {
        return Ok(Some(KEY.to_string()));
    }
    let target = link.target().clone();
    let nodes = nodes(link, &target)?;
    let Some(own) = nodes.iter().find(|node| node.is("myself")) else { return Ok(None) };
    // Each slot has one of these.
    let mut keys = (0..1_000_000_u32).map(|number| format!("{KEY}:{number}"));
    Ok(if own.slots.is_empty() { None } else { keys.find(|key| own.has(slot_of(key.as_bytes()))) })
}

/// Whether ACQUIRE is refused for lack of memory. Other commands of the module are not.
fn is_full(fields: &Fields) -> bool {
    let number = |name: &str| fields.get(name).and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
    let used = number("used_memory").saturating_sub(number("mem_not_counted_for_evict"));
    let may_evict = fields.get("maxmemory_policy").is_some_and(|policy| policy != "noeviction");
    number("maxmemory") > 0 && used > number("maxmemory") && !may_evict
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_full_where_nothing_may_be_evicted() {
        let fields = |used: &str, policy: &str| {
            let pairs = [("used_memory", used), ("maxmemory", "1000"), ("maxmemory_policy", policy)];
            pairs.map(|(name, value)| (name.to_string(), value.to_string())).into_iter().collect::<Fields>()
        };
        assert!(is_full(&fields("1001", "noeviction")));
        assert!(!is_full(&fields("1000", "noeviction")) && !is_full(&fields("1001", "allkeys-lru")));
        assert!(!is_full(&Fields::new()));
    }
}
