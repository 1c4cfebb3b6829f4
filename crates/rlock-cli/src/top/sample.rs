//! The answers of one server at one moment.

use redis::{Cmd, Value, cmd, pipe};
use serde::Serialize;

use crate::clock::Moment;
use crate::error::Error;
use crate::names::serialized;
use crate::owners::{Origin, Process};
use crate::server::{Hindrance, HotLock, Link, PATIENCE, facts, fields, hindrance, hot, integer};

/// The most locks of one server in the table.
const MOST: u32 = 128;

/// One server at one moment.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) at: Moment,
    pub(super) counters: Counters,
    /// The waiters of the server now.
    pub(super) waiters: u64,
    /// Why it gives no locks now.
    pub(super) hindrance: Option<Hindrance>,
    pub(super) locks: Vec<Lock>,
}

/// Counters of `INFO rlock`, or their rates per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct Counters {
    pub(super) acquired: f64,
    pub(super) denied: f64,
    pub(super) hand_offs: f64,
    pub(super) timeouts: f64,
}

/// A lock that cost waiting, and its holder.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Lock {
    #[serde(flatten)]
    pub(super) hot: HotLock,
    /// The number of holders, unless the server answered with an error.
    pub(super) holders: Option<u64>,
    /// One of the holders.
    pub(super) holder: Option<Holder>,
    /// The code of the error in place of the holders, such as NOPERM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) holder_error: Option<String>,
}

/// A holder of a lock.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Holder {
    #[serde(serialize_with = "serialized")]
    pub(super) owner: Vec<u8>,
    /// The process, if the owner names one.
    pub(super) process: Option<Process>,
    /// The rest of its lease, in ms; -1: no expiry.
    pub(super) lease_ms: i64,
    /// The id of the connection that it is tied to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<i64>,
}

impl Sample {
    /// Asks a server, whose connection has this database.
    pub(super) fn of(link: &mut Link, database: i64) -> Result<Sample, Error> {
        let fields = facts::about(link)?;
        let number = |name: &str| fields.get(name).and_then(|value| value.parse::<u64>().ok());
        if !fields.contains_key("rlock_version") {
            return Err(Error::NoModule { address: link.address() });
        }
        let hindrance = hindrance(link, &fields)?;
        let at = Moment::now();
        let count = |name: &str| number(name).unwrap_or(0) as f64;
        let counters = Counters {
            acquired: count("rlock_acquired"),
            denied: count("rlock_denied"),
            hand_offs: count("rlock_hand_offs"),
            timeouts: count("rlock_timeouts"),
        };
        let mut locks: Vec<Lock> = hot(link, MOST)?.into_iter().map(Lock::of).collect();
        ask_for_holders(link, database, &mut locks)?;
        // The table of a node keeps the locks of slots that have moved: where the slot is now, another table has them.
        locks.retain(|lock| lock.holder_error.as_deref() != Some("MOVED"));
        Ok(Sample { at, counters, waiters: number("rlock_waiters").unwrap_or(0), hindrance, locks })
    }

    /// The rates since an earlier sample; none after a restart of the server.
    pub(super) fn rates_since(&self, before: &Sample) -> Option<Counters> {
        let seconds = self.at.since(before.at).as_secs_f64();
        let rate = |now: f64, before: f64| (now >= before && seconds > 0.0).then(|| (now - before) / seconds);
        let (now, before) = (&self.counters, &before.counters);
        Some(Counters {
            acquired: rate(now.acquired, before.acquired)?,
            denied: rate(now.denied, before.denied)?,
            hand_offs: rate(now.hand_offs, before.hand_offs)?,
            timeouts: rate(now.timeouts, before.timeouts)?,
        })
    }
}

impl Lock {
    fn of(hot: HotLock) -> Lock {
        Lock { hot, ..Lock::default() }
    }
}

/// Asks for the holders of all locks at once. A lock that moved, or that the user may not see, has an error in their place.
fn ask_for_holders(link: &mut Link, database: i64, locks: &mut [Lock]) -> Result<(), Error> {
    locks.sort_by_key(|lock| lock.hot.db);
    let select = |db: i64| cmd("SELECT").arg(db).to_owned();
    let (mut questions, mut selected) = (pipe(), database);
    for lock in &mut *locks {
        if lock.hot.db != selected {
            questions.add_command(select(lock.hot.db));
            selected = lock.hot.db;
        }
        let mut info: Cmd = cmd("RLOCK.INFO");
        questions.add_command(info.arg(&lock.hot.key).arg("LIMIT").arg(1).to_owned());
    }
    if selected != database {
        questions.add_command(select(database));
    }
    if questions.is_empty() {
        return Ok(());
    }
    let mut answers = link.ask_all(&questions, PATIENCE)?.into_iter();
    let (mut selected, mut elsewhere) = (database, None);
    for lock in locks {
        if lock.hot.db != selected {
            selected = lock.hot.db;
            // Without the permission the answers are those of another database.
            elsewhere = answers.next().as_ref().and_then(code);
        }
        let answer = answers.next().unwrap_or(Value::Nil);
        lock.holder_error = elsewhere.clone().or_else(|| code(&answer));
        if lock.holder_error.is_none() {
            (lock.holders, lock.holder) = read(answer);
        }
    }
    Ok(())
}

/// The code of an answer that is an error.
fn code(answer: &Value) -> Option<String> {
    match answer {
        Value::ServerError(error) => Some(error.code().to_string()),
        _ => None,
    }
}

/// The number of holders and one of them.
fn read(info: Value) -> (Option<u64>, Option<Holder>) {
    let (mut count, mut holder) = (None, None);
    for (name, value) in fields(info) {
        match (name.as_str(), value) {
            ("holder-count", value) => count = integer(&value).and_then(|count| u64::try_from(count).ok()),
            ("holders", Value::Array(holders)) => holder = holders.into_iter().next().and_then(read_holder),
            _ => {}
        }
    }
    (count, holder)
}

fn read_holder(value: Value) -> Option<Holder> {
    let (mut owner, mut lease_ms, mut session) = (None, 0, None);
    for (name, value) in fields(value) {
        match (name.as_str(), value) {
            ("owner", Value::BulkString(bytes)) => owner = Some(bytes),
            ("lease-ms", value) => lease_ms = integer(&value)?,
            ("session", value) => session = integer(&value),
            _ => {}
        }
    }
    let owner = owner?;
    let process = Origin::of(&owner).process().cloned();
    Some(Holder { owner, process, lease_ms, session })
}
