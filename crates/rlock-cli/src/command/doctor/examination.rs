//! What is asked of each server.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::{Cmd, Value, cmd};

use crate::error::Error;
use crate::server::facts::Fields;
use crate::server::servers::{Described, Found, ask_all, described};
use crate::server::{Hindrance, Link, PATIENCE, Place, certificate_left, fields, hindrance, integer, text};

/// The sections of INFO.
const SECTIONS: [&str; 6] = ["server", "replication", "cluster", "memory", "persistence", "rlock"];

/// The commands of a user of locks, with arguments that the server can check.
const USES: [&str; 6] = [
    "RLOCK.ACQUIRE rlock:probe o 1000 ENQUEUE 1000 rlock:grants:probe",
    "RLOCK.RELEASE rlock:probe o",
    "RLOCK.RENEW rlock:probe o 1000",
    "RLOCK.CANCEL rlock:probe o",
    "RLOCK.INFO rlock:probe",
    "SUBSCRIBE rlock:grants:probe",
];

/// A server that is examined.
pub(super) struct Patient {
    pub(super) address: String,
    pub(super) state: Result<Answers, Error>,
}

/// What a server answered.
pub(super) struct Answers {
    pub(super) fields: Fields,
    pub(super) described: Described,
    pub(super) hindrance: Option<Hindrance>,
    /// The options `rlock.*`, where this user may read them.
    pub(super) options: BTreeMap<String, String>,
    /// How the AOF is written, where this user may read it.
    pub(super) fsync: Option<String>,
    /// How far its clock is ahead of this machine's, in ms.
    pub(super) ahead: Option<i64>,
    /// The commands that this user may not use, where it may ask that.
    pub(super) denied: Vec<String>,
    /// How long its certificate is valid still.
    pub(super) certificate_left: Option<Duration>,
}

impl Answers {
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    pub(super) fn number(&self, name: &str) -> u64 {
        self.field(name).and_then(|value| value.parse().ok()).unwrap_or_default()
    }

    pub(super) fn is(&self, name: &str, value: &str) -> bool {
        self.field(name) == Some(value)
    }
}

/// Asks all servers.
pub(super) fn examine(place: &Place) -> Result<Vec<Patient>, Error> {
    let found = ask_all(place, &SECTIONS, |link, fields| {
        let hindrance = hindrance(link, fields)?;
        let mut options = options(link)?;
        let fsync = options.remove("appendfsync");
        let (ahead, denied) = (ahead(link)?, denied(link)?);
        Ok(Answers {
            fields: fields.clone(),
            described: described(fields),
            hindrance,
            options,
            fsync,
            ahead,
            denied,
            certificate_left: certificate_left(link),
        })
    });
    let patient = |Found { address, outcome }| {
        let state = outcome.map(|(_, answers): (Fields, Answers)| answers);
        Patient { address, state }
    };
    Ok(found?.into_iter().map(patient).collect())
}

/// The answer; nothing where the server refuses, which it does for users with few rights.
fn allowed(link: &mut Link, command: &Cmd) -> Result<Option<Value>, Error> {
    match link.ask(command, PATIENCE) {
        Ok(value) => Ok(Some(value)),
        Err(Error::Refused { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn options(link: &mut Link) -> Result<BTreeMap<String, String>, Error> {
    let pairs =
        allowed(link, cmd("CONFIG").arg(&["GET", "rlock.*", "appendfsync"]))?.map(fields).unwrap_or_default();
    Ok(pairs.into_iter().filter_map(|(name, value)| Some((name, text(&value)?))).collect())
}

/// How far the server's clock is ahead; the answer took half of the time between question and answer.
fn ahead(link: &mut Link) -> Result<Option<i64>, Error> {
    let before = now_ms();
    let answer = allowed(link, &cmd("TIME"))?;
    let here = before.midpoint(now_ms());
    let Some(Value::Array(parts)) = answer else { return Ok(None) };
    let [seconds, micros] = parts.as_slice() else { return Ok(None) };
    let there = integer(seconds).zip(integer(micros));
    Ok(there.map(|(seconds, micros)| {
        seconds.saturating_mul(1_000).saturating_add(micros.div_euclid(1_000)).saturating_sub(here)
    }))
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn denied(link: &mut Link) -> Result<Vec<String>, Error> {
    let user = allowed(link, cmd("ACL").arg("WHOAMI"))?;
    let Some(user) = user.as_ref().and_then(text) else { return Ok(Vec::new()) };
    let mut denied = Vec::new();
    for line in USES {
        let words: Vec<&str> = line.split(' ').collect();
        match allowed(link, cmd("ACL").arg("DRYRUN").arg(&user).arg(&words))?.as_ref().and_then(text) {
            // This user may not ask, or the module that has the command is missing.
            None => return Ok(denied),
            Some(answer) if answer == "OK" => (),
            Some(_) => denied.extend(words.first().map(ToString::to_string)),
        }
    }
    Ok(denied)
}
