//! `rlock ls`: the locks that are held, found by the shape of their keys.

use redis::{Cmd, Value, cmd, pipe};

use super::YES;
use super::status::{holder_text, lease};
use crate::error::Error;
use crate::names;
use crate::output::Output;
use crate::server::{Link, LockInfo, Locks, PATIENCE, Place, integer, servers, text};

/// How many keys the server looks at in one go.
const STEP: u32 = 1_000;

/// Lists the locks on all primaries: one server, or those of a cluster.
pub(crate) fn ls(place: &Place, pattern: &[u8], output: Output) -> Result<u8, Error> {
    for primary in servers::primaries(place)? {
        let locks = Locks::on(primary.clone())?;
        let mut link = Link::new(primary);
        let mut cursor = String::from("0");
        loop {
            let (next, keys) = scan(&mut link, &cursor, pattern)?;
            let found = locks.infos(&candidates(&mut link, &keys)?)?;
            for info in found.into_iter().filter(|info| info.held) {
                output.either(&info, || line(&info))?;
            }
            if next == "0" {
                break;
            }
            cursor = next;
        }
    }
    Ok(YES)
}

fn line(info: &LockInfo) -> String {
    let holder = info.holders.first().map(holder_text).unwrap_or_default();
    let waiters = match info.waiter_count {
        0 => String::new(),
        count => format!(", {count} waiting"),
    };
    format!("{}  {holder}{}{waiters}", names::shown(&info.key), lease(info.lease_ms))
}

/// One step through the keys: where to go on, and the hashes that match.
fn scan(link: &mut Link, cursor: &str, pattern: &[u8]) -> Result<(String, Vec<Vec<u8>>), Error> {
    let mut command = cmd("SCAN");
    command.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(STEP).arg("TYPE").arg("hash");
    let unexpected = |link: &Link| Error::Unexpected { address: link.address(), what: "SCAN" };
    let Value::Array(parts) = link.ask(&command, PATIENCE)? else { return Err(unexpected(link)) };
    let [next, Value::Array(keys)] = parts.as_slice() else { return Err(unexpected(link)) };
    let next = text(next).ok_or_else(|| unexpected(link))?;
    let mut keys: Vec<Vec<u8>> = keys.iter().filter_map(binary).collect();
    // The server may name a key twice.
    keys.sort_unstable();
    keys.dedup();
    Ok((next, keys))
}

fn binary(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes.clone()),
        other => text(other).map(String::into_bytes),
    }
}

/// Hashes of one field, or with a field `mode`: a lock is nothing else, and so the module is not asked for
/// everybody's data, which it would count as errors.
fn candidates(link: &mut Link, keys: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, Error> {
    let questions = keys.iter().flat_map(|key| {
        let (mut length, mut mode) = (cmd("HLEN"), cmd("HEXISTS"));
        length.arg(key);
        mode.arg(key).arg("mode");
        [length, mode]
    });
    let answers = together(link, questions)?;
    let could_be = |answers: &[Value]| answers.iter().any(|answer| integer(answer) == Some(1));
    let candidates = keys.iter().zip(answers.chunks(2)).filter(|(_, answers)| could_be(answers));
    Ok(candidates.map(|(key, _)| key.clone()).collect())
}

fn together(link: &mut Link, commands: impl Iterator<Item = Cmd>) -> Result<Vec<Value>, Error> {
    let mut pipeline = pipe();
    commands.for_each(|command| {
        pipeline.add_command(command);
    });
    if pipeline.is_empty() { Ok(Vec::new()) } else { link.ask_all(&pipeline, PATIENCE) }
}
