//! `rlock ls`: the locks that are held, found by the shape of their keys, or those that are waited for.

use std::rc::Rc;

use redis::{Cmd, Pipeline, Value, cmd, pipe};

use super::YES;
use super::status::{holder_text, lease, state};
use crate::error::Error;
use crate::names;
use crate::output::Output;
use crate::owners::Owners;
use crate::server::primaries::primaries;
use crate::server::{Link, LockInfo, Locks, PATIENCE, Place, fields, integer, text};

/// How many keys, or entries of RLOCK.LIST, the server reads for one page.
const STEP: u32 = 1_000;

/// Lists the locks on all primaries: one server, or those of a cluster. With a pattern of holders only theirs.
pub(crate) fn ls(
    place: &Place,
    pattern: &[u8],
    holders: Option<&Owners>,
    output: Output,
) -> Result<u8, Error> {
    each_held(place, pattern, holders, |_, info| output.either(&info, || line(&info)))?;
    Ok(YES)
}

/// Calls `found` with each lock that is held, of these holders if a pattern is given, and the client of its server.
pub(crate) fn each_held(
    place: &Place,
    pattern: &[u8],
    holders: Option<&Owners>,
    mut found: impl FnMut(&Rc<Locks>, LockInfo) -> Result<(), Error>,
) -> Result<(), Error> {
    for (kind, candidates) in [("hash", hashes as Candidates), ("zset", sorted_sets)] {
        let page = |link: &mut Link, cursor: &[u8]| {
            let (next, keys) = scan(link, cursor, pattern, kind)?;
            Ok((next, candidates(link, &keys)?))
        };
        each_page(place, page, |locks, mut info| {
            if let Some(wanted) = holders {
                info.holders.retain(|holder| wanted.contain(&holder.owner));
            }
            let is_meant = info.held && (holders.is_none() || !info.holders.is_empty());
            if is_meant { found(locks, info) } else { Ok(()) }
        })?;
    }
    Ok(())
}

/// Which of these keys of one type may be locks: the module would count a question about any other key as an error.
type Candidates = fn(&mut Link, &[Vec<u8>]) -> Result<Vec<Vec<u8>>, Error>;

/// Lists the locks that are waited for, on all primaries.
pub(crate) fn waiting(place: &Place, output: Output) -> Result<u8, Error> {
    each_page(place, waited_for, |_, info| match info.waiter_count {
        0 => Ok(()),
        _ => output.either(&info, || line(&info)),
    })?;
    Ok(YES)
}

/// Calls `found` with the locks of each page; `page` takes a cursor, and returns the next cursor and keys.
fn each_page(
    place: &Place,
    mut page: impl FnMut(&mut Link, &[u8]) -> Result<(Vec<u8>, Vec<Vec<u8>>), Error>,
    mut found: impl FnMut(&Rc<Locks>, LockInfo) -> Result<(), Error>,
) -> Result<(), Error> {
    for primary in primaries(place)? {
        let locks = Rc::new(Locks::on(primary.clone())?);
        let mut link = Link::new(primary);
        let mut cursor = b"0".to_vec();
        loop {
            let (next, keys) = page(&mut link, &cursor)?;
            for info in locks.infos(&keys)? {
                found(&locks, info)?;
            }
            if next == b"0" {
                break;
            }
            cursor = next;
        }
    }
    Ok(())
}

fn line(info: &LockInfo) -> String {
    let holder = match info.holders.first() {
        Some(_) if info.kind == "permits" => state(info).1,
        Some(holder) => holder_text(holder, usize::MAX),
        None => "free".to_string(),
    };
    let waiters = match info.waiter_count {
        0 => String::new(),
        count => format!(", {count} waiting"),
    };
    let doubt = if info.probably_no_lock { "  (probably no lock)" } else { "" };
    format!("{}  {holder}{}{waiters}{doubt}", names::shown(&info.key), lease(info.lease_ms))
}

/// One step through the keys: the next cursor, and the keys of this type that match.
fn scan(
    link: &mut Link,
    cursor: &[u8],
    pattern: &[u8],
    kind: &str,
) -> Result<(Vec<u8>, Vec<Vec<u8>>), Error> {
    let mut command = cmd("SCAN");
    command.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(STEP).arg("TYPE").arg(kind);
    let (next, keys) = ask_for_page(link, &command, "SCAN")?;
    let mut keys: Vec<Vec<u8>> = keys.iter().filter_map(binary).collect();
    // The server may name a key twice.
    keys.sort_unstable();
    keys.dedup();
    Ok((next, keys))
}

/// One page of the server's list of locks that are waited for.
fn waited_for(link: &mut Link, cursor: &[u8]) -> Result<(Vec<u8>, Vec<Vec<u8>>), Error> {
    let mut command = cmd("RLOCK.LIST");
    command.arg(cursor).arg("LIMIT").arg(STEP);
    let (next, entries) = ask_for_page(link, &command, "RLOCK.LIST")?;
    let key = |entry: Value| fields(entry).into_iter().find(|(name, _)| name == "key").map(|(_, key)| key);
    Ok((next, entries.into_iter().filter_map(key).filter_map(|key| binary(&key)).collect()))
}

/// Asks for a page: the next cursor, and the entries.
fn ask_for_page(link: &mut Link, command: &Cmd, what: &'static str) -> Result<(Vec<u8>, Vec<Value>), Error> {
    if let Value::Array(parts) = link.ask(command, PATIENCE)?
        && let Ok([Value::BulkString(next), Value::Array(entries)]) = <[Value; 2]>::try_from(parts)
    {
        return Ok((next, entries));
    }
    Err(Error::Unexpected { address: link.address(), what })
}

fn binary(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes.clone()),
        other => text(other).map(String::into_bytes),
    }
}

/// Hashes of one field, or with a field `mode`: a lock is nothing else.
fn hashes(link: &mut Link, keys: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, Error> {
    let mut questions = pipe();
    for key in keys {
        questions.cmd("HLEN").arg(key).cmd("HEXISTS").arg(key).arg("mode");
    }
    candidates(link, keys, &questions, |answers| answers.iter().any(|answer| integer(answer) == Some(1)))
}

/// Sorted sets whose keys expire, and whose lowest score is a time in ms: those of locks with permits are.
fn sorted_sets(link: &mut Link, keys: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, Error> {
    let mut questions = pipe();
    for key in keys {
        questions.cmd("ZRANGE").arg(key).arg(0).arg(0).arg("WITHSCORES").cmd("PTTL").arg(key);
    }
    candidates(link, keys, &questions, |answers| {
        let score = answers.first().and_then(lowest_score);
        let expires = answers.get(1).and_then(integer).is_some_and(|left| left > 0);
        expires && score.is_some_and(|score| score >= 1e12)
    })
}

/// The score in the reply to ZRANGE … 0 0 WITHSCORES, in RESP2 or RESP3.
fn lowest_score(reply: &Value) -> Option<f64> {
    match reply {
        Value::Array(parts) => parts.last().and_then(lowest_score),
        Value::Double(score) => Some(*score),
        score => text(score)?.parse().ok(),
    }
}

/// The keys that may be locks, by the answers to two questions for each.
fn candidates(
    link: &mut Link,
    keys: &[Vec<u8>],
    questions: &Pipeline,
    could_be: impl Fn(&[Value]) -> bool,
) -> Result<Vec<Vec<u8>>, Error> {
    let answers = if keys.is_empty() { Vec::new() } else { link.ask_all(questions, PATIENCE)? };
    let candidates = keys.iter().zip(answers.chunks(2)).filter(|(_, answers)| could_be(answers));
    Ok(candidates.map(|(key, _)| key.clone()).collect())
}
