//! Rules about what goes over the wire.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::Book;
use crate::proxy::transcript::What;
use crate::run::{Problem, Run};
use rlock_testkit::Frame;

const MS: i64 = 1_000_000;

/// The shortest time between two requests for one waiter that has received no message.
const CLOSEST_REPEAT: i64 = 900 * MS;

/// How long after a message the client may send a request before it has read it.
const CROSSING: i64 = 20 * MS;

pub(crate) fn judge(run: &Run<'_>, books: &[Book]) -> Result<(), Problem> {
    for book in books {
        holds_in_every_acquire(book)?;
        nothing_after_close(book)?;
        no_polling(book)?;
    }
    owners(run, books)
}

fn holds_in_every_acquire(book: &Book) -> Result<(), Problem> {
    for entry in &book.entries {
        let Some((words, _)) = entry.command("RLOCK.ACQUIRE") else { continue };
        let has = |option: &str| words.iter().skip(4).any(|word| word.eq_ignore_ascii_case(option));
        if !has("HOLDS") {
            return Err(format!("rule HOLDS: {} sent {}", book.client, words.join(" ")).into());
        }
        if has("BLOCK") {
            return Err(format!("rule BLOCK: {} sent {}", book.client, words.join(" ")).into());
        }
    }
    Ok(())
}

fn nothing_after_close(book: &Book) -> Result<(), Problem> {
    let Some(closed) = book.closed else { return Ok(()) };
    let late = book.entries.iter().find(|entry| {
        // A request that was written before the close may pass the proxy a moment after it.
        entry.at > closed + 50 * MS && matches!(entry.what, What::Opened | What::Request { .. })
    });
    match late {
        None => Ok(()),
        Some(entry) => Err(format!("rule close: after it, {}", entry.line(&book.client, closed)).into()),
    }
}

/// A waiter asks again for a reason: a message, another connection or subscription, an error; or after a second. One that was denied may
/// ask for a place in the queue. A process that continues after a stop may send a request that was due before it reads the messages that have
/// arrived; so may any other for a moment.
fn no_polling(book: &Book) -> Result<(), Problem> {
    // Owners with a message that may not be read, and until when.
    let mut unread: Vec<(&str, i64)> = Vec::new();
    // By owner, as messages write it, and lock.
    let mut last: HashMap<String, HashMap<&str, Asked>> = HashMap::new();
    for entry in &book.entries {
        if let What::Message(words) = &entry.what {
            // granted <db> <owner> …: this owner has received a message.
            let payload = words.last().map(String::as_str).unwrap_or_default();
            let owner = payload.split(' ').nth(2).unwrap_or_default();
            last.remove(owner);
            let stopped = book.stops.iter().any(|stop| stop.contains(&entry.at));
            unread.push((owner, if stopped { i64::MAX } else { entry.at + CROSSING }));
        }
        if entry.command("SUBSCRIBE").is_some() {
            last.clear();
        }
        let Some((words, reply)) = entry.command("RLOCK.ACQUIRE") else { continue };
        let (Some(lock), Some(owner)) = (words.get(1), words.get(2)) else { continue };
        let denied = reply.is_some_and(|reply| reply.value == Frame::Null && reply.delivered);
        let waits = reply.is_some_and(|reply| is_waiting(&reply.value) && reply.delivered);
        let queues = words.iter().any(|word| word.eq_ignore_ascii_case("ENQUEUE"));
        let waiter = encoded(owner);
        let asked = last.entry(waiter.clone()).or_default();
        if let Some(before) = asked.get(lock.as_str()) {
            let gap = entry.at - before.at;
            let soon = entry.connection == before.connection && gap < CLOSEST_REPEAT;
            let reason = unread.iter().position(|(owner, until)| *owner == waiter && before.at <= *until);
            if let (true, Some(reason)) = (soon, reason) {
                unread.remove(reason);
            } else if (soon || before.denied) && !(before.denied && queues) {
                let gap = gap / MS;
                return Err(format!("rule polling: {owner} asked for {lock} again after {gap} ms").into());
            }
        }
        if denied || waits {
            asked.insert(lock, Asked { at: entry.at, connection: entry.connection, denied });
        } else {
            asked.remove(lock.as_str());
        }
    }
    Ok(())
}

/// The last request of a waiter that was not granted.
struct Asked {
    at: i64,
    connection: u64,
    denied: bool,
}

/// A name as messages write it.
pub(super) fn encoded(owner: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~:{}".contains(&byte);
    owner
        .bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn is_waiting(reply: &Frame) -> bool {
    matches!(reply, Frame::Array(items) if items.first() == Some(&Frame::Int(0)))
}

/// An owner has one lock, one client, and no life after its release; there are no more owners than acquisitions.
fn owners(run: &Run<'_>, books: &[Book]) -> Result<(), Problem> {
    let text = |asked: &'_ crate::run::Asked, name: &str| {
        asked.request.get(name).and_then(Value::as_str).map(str::to_string)
    };
    // The owner of an adoption is the one of its acquisition, and keeps to the rules.
    let acquired = run.asked.iter().filter(|asked| text(asked, "do").as_deref() == Some("acquire"));
    let named: HashSet<String> = acquired.filter_map(|asked| text(asked, "owner")).collect();
    let mut users = HashMap::new();
    for book in books {
        owners_of(book, &named, &mut users)?;
    }
    // The child of a fork acquires one, too.
    let acquires = |kind: Option<&str>| matches!(kind, Some("acquire" | "fork"));
    let most = run.asked.iter().filter(|asked| acquires(text(asked, "do").as_deref())).count();
    // Of several locks as one, those that were released for the sake of the order are asked for by further owners.
    let several: HashSet<String> = run.several().collect();
    let owners = users.values().filter(|(_, lock)| !several.contains(lock)).count();
    if owners > most {
        return Err(format!("rule owner: {owners} owners for {most} acquisitions").into());
    }
    Ok(())
}

/// The owners that the scenario did not name, each with its user: the client and the lock.
fn owners_of(
    book: &Book,
    named: &HashSet<String>,
    users: &mut HashMap<String, (String, String)>,
) -> Result<(), Problem> {
    let mut released: HashSet<&str> = HashSet::new();
    for entry in &book.entries {
        let What::Request { words, reply } = &entry.what else { continue };
        let [command, lock, owner, ..] = words.as_slice() else { continue };
        if named.contains(owner) {
            continue;
        }
        let asks = command == "RLOCK.ACQUIRE" || command == "RLOCK.RENEW";
        if asks && released.contains(owner.as_str()) {
            return Err(
                format!("rule owner: {command} after the release of {owner}: {}", words.join(" ")).into()
            );
        }
        if command == "RLOCK.ACQUIRE" {
            let user = (book.client.clone(), lock.clone());
            let first = users.entry(owner.clone()).or_insert_with(|| user.clone());
            if *first != user {
                return Err(format!("rule owner: {owner} is of {user:?}, and was of {first:?}").into());
            }
        }
        let gone = reply.as_ref().is_some_and(|reply| reply.value == Frame::Int(1) && reply.delivered);
        // A writer that becomes a reader releases its write hold, and reads on.
        if command == "RLOCK.RELEASE" && gone && !words.iter().any(|word| word.eq_ignore_ascii_case("WRITE"))
        {
            released.insert(owner);
        }
    }
    Ok(())
}
