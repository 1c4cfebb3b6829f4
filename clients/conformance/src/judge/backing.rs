//! What backs a hold: a reply of the server that confirmed it, or the message of its grant.

use std::collections::{HashMap, HashSet};

use super::Book;
use super::transcript::encoded;
use crate::proxy::transcript::{Entry, What};
use rlock_testkit::Frame;

const MS: i64 = 1_000_000;

/// A moment from which the lease of a hold counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backing {
    /// When the request was sent from which the lease counts.
    pub(super) sent: i64,
    /// The client knew of it at this time at the earliest.
    pub(super) known: i64,
    /// The connection of that request.
    pub(super) connection: u64,
    /// The lease, unless it is that of the lock.
    pub(super) lease: Option<i64>,
    pub(super) by: By,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Reply,
    Message,
}

impl Backing {
    /// When the hold that is backed by it ends by the client's clock.
    pub(super) fn end(&self, lease: i64) -> i64 {
        end_of(self.sent, self.lease.unwrap_or(lease))
    }
}

/// When a time that counts from a request ends by the client's clock.
pub(super) fn end_of(sent: i64, time: i64) -> i64 {
    sent + time / 100 * 99 - 2 * MS
}

/// The requests of each owner that extended its hold, with a positive answer of the server.
pub(super) fn confirmations(book: &Book) -> HashMap<&str, Vec<Backing>> {
    let mut by_owner = HashMap::<&str, Vec<Backing>>::new();
    for entry in &book.entries {
        if let Some((owner, backing)) = confirmation(entry) {
            by_owner.entry(owner).or_default().push(backing);
        }
    }
    by_owner
}

fn confirmation(entry: &Entry) -> Option<(&str, Backing)> {
    let holds = |value: &Frame| matches!(value, Frame::Array(items) if matches!(items.first(), Some(Frame::Int(holds)) if *holds > 0));
    let acquire = entry.command("RLOCK.ACQUIRE");
    let (words, reply) = acquire.or_else(|| entry.command("RLOCK.RENEW"))?;
    let reply = reply.filter(|reply| reply.delivered)?;
    let confirms = if acquire.is_some() { holds(&reply.value) } else { reply.value == Frame::Int(1) };
    // A fixed lease that was tied anew has a shorter one in that request.
    let renewed = words.get(3).filter(|_| acquire.is_none());
    let lease = renewed.and_then(|lease| lease.parse().ok()).map(|lease: i64| lease * MS);
    let backing =
        Backing { sent: entry.at, known: reply.at, connection: entry.connection, lease, by: By::Reply };
    confirms.then_some((words.get(2)?, backing))
}

/// The acquisition of an owner that was never used before.
pub(super) struct Granted<'a> {
    pub(super) lock: &'a str,
    pub(super) owner: &'a str,
    pub(super) fenced: bool,
}

/// The messages that back the hold of this acquisition: each can only be about a grant that the server made after the first request.
pub(super) fn messages(book: &Book, granted: &Granted<'_>) -> Vec<Backing> {
    // Thousands of holds are compared with thousands of messages.
    let names = format!(" {} {} ", encoded(granted.owner), encoded(granted.lock));
    let named = |entry: &Entry| matches!(&entry.what, What::Message(words) if words.last().is_some_and(|text| text.contains(&names)));
    let found = book.entries.iter().enumerate().filter(|(_, entry)| named(entry));
    found.filter_map(|(place, entry)| message(book.entries.get(..place)?, entry, granted)).collect()
}

/// The backing by a message, with the entries before it.
fn message(before: &[Entry], entry: &Entry, granted: &Granted<'_>) -> Option<Backing> {
    let (channel, lease) = grant(entry)?;
    let asked = |entry: &&Entry| {
        entry.command("RLOCK.ACQUIRE").is_some_and(|(words, _)| {
            let named = words.get(1..3).unwrap_or_default();
            named.iter().map(String::as_str).eq([granted.lock, granted.owner])
        })
    };
    let asks: Vec<&Entry> = before.iter().filter(asked).collect();
    let first = asks.first()?;
    // With a link that broke, the message may be older than a restart that lost the lock.
    let connections: HashSet<u64> = asks.iter().map(|entry| entry.connection).collect();
    let channels: HashSet<Option<&str>> = asks.iter().map(|entry| channel_of(entry)).collect();
    let broke = before
        .iter()
        .any(|entry| connections.contains(&entry.connection) && matches!(entry.what, What::Closed));
    let one_link = connections.len() == 1 && channels == HashSet::from([Some(channel)]) && !broke;
    // After a repeat, the token of the message may be that of an earlier grant.
    let token = !granted.fenced || asks.len() == 1;
    let in_time = end_of(first.at, lease) - entry.at >= lease / 2;
    let backing = Backing {
        sent: first.at,
        known: entry.at,
        connection: first.connection,
        lease: Some(lease),
        by: By::Message,
    };
    (one_link && token && in_time).then_some(backing)
}

/// The channel and the lease of a message that grants a lock.
fn grant(entry: &Entry) -> Option<(&str, i64)> {
    let What::Message(words) = &entry.what else { return None };
    let fields: Vec<&str> = words.last()?.split(' ').collect();
    let ["granted", _database, _owner, _lock, _holds, lease, ..] = fields.as_slice() else { return None };
    let lease: i64 = lease.parse().ok()?;
    Some((words.get(1)?, lease * MS))
}

/// The channel that an ENQUEUE names.
fn channel_of(entry: &Entry) -> Option<&str> {
    let (words, _) = entry.command("RLOCK.ACQUIRE")?;
    let place = words.iter().position(|word| word.eq_ignore_ascii_case("ENQUEUE"))?;
    words.get(place + 2).map(String::as_str)
}
