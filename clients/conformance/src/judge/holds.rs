//! Rules about what clients say of their holds, against what the server confirmed: by one clock.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::backing::{Backing, By, Granted, confirmations, end_of, messages};
use super::{Book, grants, lasting};
use crate::proxy::transcript::Entry;
use crate::run::{Asked, Problem, Run};
use rlock_testkit::Frame;

const MS: i64 = 1_000_000;

/// A loss is reported within this time after the end of the lease.
const TELL: i64 = 1_000 * MS;

/// How late a renewal may go out: a quarter of the third of a lease, and a moment.
const RENEWAL_SLACK: i64 = 150 * MS;

/// A guard of the scenario, as its acquisition was answered.
pub(super) struct Hold<'a> {
    pub(super) guard: String,
    pub(super) lock: String,
    pub(super) owner: String,
    reader: bool,
    /// Of a semaphore.
    permits: Option<usize>,
    fixed: bool,
    /// When its acquisition was answered.
    pub(super) from: i64,
    /// The last moment at which it was certainly held: as the client said.
    to: i64,
    pub(super) lease: i64,
    /// The grace of its session.
    pub(super) session: Option<i64>,
    /// When its acquisition was asked for.
    pub(super) asked: i64,
    pub(super) at_least: Option<i64>,
    pub(super) max_hold: Option<i64>,
    /// The end of the time for which it is held after its release.
    kept: i64,
    pub(super) book: &'a Book,
    /// The requests and messages from which its lease counts.
    pub(super) backings: Vec<Backing>,
}

pub(crate) fn judge(run: &Run<'_>, books: &[Book]) -> Result<(), Problem> {
    let holds = holds(run, books)?;
    exclusion(&holds)?;
    checks(run, &holds)?;
    for hold in &holds {
        grants::judge(run, hold)?;
        renewals(run, hold)?;
        lasting::judge(run, hold)?;
    }
    losses(run, &holds)
}

pub(super) fn text<'a>(asked: &'a Asked, name: &str) -> &'a str {
    asked.request.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn holds<'a>(run: &Run<'_>, books: &'a [Book]) -> Result<Vec<Hold<'a>>, Problem> {
    let mut holds = Vec::new();
    let last_held = last_held(run);
    let confirmed: HashMap<&str, _> =
        books.iter().map(|book| (book.client.as_str(), confirmations(book))).collect();
    for asked in run.asked.iter().filter(|asked| ["acquire", "adopt"].contains(&text(asked, "do"))) {
        let Some(answer) = asked.answer.as_ref().filter(|answer| answer.error.is_none()) else { continue };
        let guard = text(asked, "guard");
        let book = books.iter().find(|book| book.client == text(asked, "client")).ok_or("unknown client")?;
        let own = run.parties.get(&book.client).map_or(0, |party| party.lease_ms);
        let number = |name: &str| asked.request.get(name).and_then(Value::as_i64);
        let (fixed, ms) = (number("lease_ms"), |name: &str| number(name).map(|time| time * MS));
        let adopts = text(asked, "do") == "adopt";
        let owner = if adopts { asked.request.get("owner") } else { answer.fields.get("owner") };
        let owner = owner.and_then(Value::as_str).unwrap_or_default();
        let confirmed = confirmed.get(book.client.as_str()).and_then(|confirmed| confirmed.get(owner));
        let backings = backings(run, book, asked, owner, confirmed);
        let at_least = ms("at_least_ms");
        holds.push(Hold {
            guard: guard.to_string(),
            lock: text(asked, "lock").to_string(),
            owner: owner.to_string(),
            reader: text(asked, "kind") == "read",
            permits: number("permits").and_then(|permits| permits.try_into().ok()),
            fixed: fixed.is_some(),
            from: answer.at,
            to: last_held.get(guard).map_or(answer.at, |last| answer.at.max(*last)),
            lease: fixed.unwrap_or(own) * MS,
            session: ms("session_ms"),
            asked: asked.sent,
            at_least,
            max_hold: ms("max_hold_ms"),
            kept: at_least.and_then(|time| lasting::kept_until(run, guard, &backings, time)).unwrap_or(0),
            book,
            backings,
        });
    }
    Ok(holds)
}

/// What backs a hold that was acquired or adopted, with the requests of its owner that were confirmed.
fn backings(
    run: &Run<'_>,
    book: &Book,
    asked: &Asked,
    owner: &str,
    confirmed: Option<&Vec<Backing>>,
) -> Vec<Backing> {
    let mut backings = confirmed.cloned().unwrap_or_default();
    if text(asked, "do") == "adopt" {
        // An earlier hold of this owner backs nothing.
        backings.retain(|backing| backing.sent >= asked.sent);
    }
    // A named owner may have been used before, and so may be meant by an older message.
    if run.one_trip() && !asked.request.contains_key("owner") {
        let fenced = asked.request.get("fenced") == Some(&true.into());
        backings.extend(messages(book, &Granted { lock: text(asked, "lock"), owner, fenced }));
    }
    backings
}

/// For each guard the latest moment at which a check or a release was begun that said that the lock was held.
fn last_held<'a>(run: &'a Run<'_>) -> HashMap<&'a str, i64> {
    let mut latest = HashMap::new();
    let asked = run
        .asked
        .iter()
        .filter(|asked| ["check", "release", "reenter", "detach"].contains(&text(asked, "do")));
    for (asked, answer) in asked.filter_map(|asked| Some((asked, asked.answer.as_ref()?))) {
        if answer.error.is_none() {
            let at = latest.entry(text(asked, "guard")).or_insert(answer.from);
            *at = answer.from.max(*at);
        }
    }
    latest
}

/// No two owners hold a lock at one time, unless both read.
fn exclusion(holds: &[Hold<'_>]) -> Result<(), Problem> {
    for (place, one) in holds.iter().enumerate() {
        for other in holds.iter().skip(place + 1) {
            let shared = one.reader && other.reader || one.permits.is_some() && other.permits.is_some();
            let apart = one.lock != other.lock || one.owner == other.owner || shared;
            if !apart && one.from.max(other.from) < one.to.max(one.kept).min(other.to.max(other.kept)) {
                return Err(format!(
                    "exclusion: {} and {} held {} at one time",
                    one.guard, other.guard, one.lock
                )
                .into());
            }
        }
    }
    holds.iter().try_for_each(|one| permits(one, holds))
}

/// No more owners hold a semaphore at one time than there are permits.
fn permits(one: &Hold<'_>, holds: &[Hold<'_>]) -> Result<(), Problem> {
    let Some(permits) = one.permits else { return Ok(()) };
    let beside = |other: &&Hold<'_>| other.lock == one.lock && other.from <= one.from && one.from < other.to;
    let owners: BTreeSet<&str> = holds.iter().filter(beside).map(|other| &*other.owner).collect();
    if owners.len() > permits {
        let text = format!("permits: {} owners held {} with {permits} permits", owners.len(), one.lock);
        return Err(text.into());
    }
    Ok(())
}

/// No later than this is the end of the lease by the client's clock.
fn lease_end(hold: &Hold<'_>, by: i64) -> Option<i64> {
    let known = hold.backings.iter().filter(|backing| backing.known <= by);
    known.max_by_key(|backing| backing.sent).map(|last| last.end(hold.lease))
}

/// No later than this is the end of the hold by the client's clock: by the last backing that it knew of, and with a session by the last
/// request that was answered on the same connection.
fn latest_end(hold: &Hold<'_>, by: i64) -> Option<i64> {
    let last =
        hold.backings.iter().filter(|backing| backing.known <= by).max_by_key(|backing| backing.sent)?;
    let Some(grace) = hold.session else { return Some(last.end(hold.lease)) };
    let entries = hold.book.entries.iter().filter(|entry| entry.at <= by);
    let answered = entries.filter(|entry| entry.connection == last.connection && entry.is_answered());
    let proven = answered.map(|entry| entry.at).max()?;
    Some(last.end(hold.lease).min(end_of(proven, grace)))
}

/// A check that says "held" is right: the lease counts from sending, less 1 % and 2 ms.
fn checks(run: &Run<'_>, holds: &[Hold<'_>]) -> Result<(), Problem> {
    for asked in run.asked.iter().filter(|asked| ["check", "detach"].contains(&text(asked, "do"))) {
        let Some(hold) = holds.iter().find(|hold| hold.guard == text(asked, "guard")) else { continue };
        let Some(answer) = asked.answer.as_ref().filter(|answer| answer.error.is_none()) else { continue };
        let left = answer.fields.get("left_ms").and_then(Value::as_i64).ok_or("left_ms is not a number")?;
        // A hold that was detached has no session any more.
        let end = match text(asked, "do") {
            "detach" => lease_end(hold, answer.at),
            _ => latest_end(hold, answer.at),
        };
        let Some(end) = end else {
            return Err(grants::unbacked(hold));
        };
        if answer.from + left * MS > end {
            let over = (answer.from + left * MS - end) / MS;
            return Err(format!("deadline: {} says {left} ms, that is {over} ms too long", hold.guard).into());
        }
    }
    Ok(())
}

/// While a renewed lock is held and its connection stays, a RENEW goes out every third of its lease.
fn renewals(run: &Run<'_>, hold: &Hold<'_>) -> Result<(), Problem> {
    let process = run.parties.get(&hold.book.client).map(|party| &party.process);
    if hold.fixed || process.is_some_and(|process| run.disturbed.contains(process)) {
        return Ok(());
    }
    let mut last: Option<i64> = None;
    let renewed = hold.backings.iter().filter(|backing| backing.by == By::Reply && backing.sent <= hold.to);
    for backing in renewed {
        if let Some(before) = last {
            let gap = backing.sent - before;
            let most = hold.lease / 3 + hold.lease / 12 + RENEWAL_SLACK;
            let troubled = hold
                .book
                .entries
                .iter()
                .any(|other| other.at > before && other.at < backing.sent && is_trouble(other));
            if gap > most && !troubled {
                let text = format!(
                    "renewal: {} renewed after {} ms, its lease has {}",
                    hold.guard,
                    gap / MS,
                    hold.lease / MS
                );
                return Err(Problem::Late(text));
            }
        }
        last = Some(backing.sent);
    }
    Ok(())
}

/// What may keep a renewal from going out on time: a broken connection, or an answer that never came.
fn is_trouble(entry: &Entry) -> bool {
    use crate::proxy::transcript::What;
    match &entry.what {
        What::Opened | What::Closed => true,
        What::Request { words, reply } => {
            words.first().is_some_and(|word| word == "RLOCK.RENEW")
                && !reply.as_ref().is_some_and(|reply| reply.delivered && reply.value == Frame::Int(1))
        }
        What::Message(_) => false,
    }
}

/// A loss by expiry is reported after the lease has ended, and soon.
fn losses(run: &Run<'_>, holds: &[Hold<'_>]) -> Result<(), Problem> {
    let mut told: HashMap<&str, usize> = HashMap::new();
    for (guard, why, at) in run.losses() {
        let Some(hold) = holds.iter().find(|hold| hold.guard == guard) else { continue };
        *told.entry(hold.guard.as_str()).or_default() += 1;
        if hold.to > at {
            return Err(format!("lost for good: {guard} was lost, and held again later").into());
        }
        if why == "overdue" && hold.max_hold.is_none() {
            return Err(format!("limit: {guard} is overdue, and has no max_hold").into());
        }
        let expired = ["expired", "overdue"].contains(&why.as_str());
        let Some(end) = latest_end(hold, at).filter(|_| expired) else { continue };
        // Sending came before the proxy saw it; a client with a coarse clock takes 20 ms more off.
        if at < end - 1_000 * MS {
            return Err(format!("deadline: {guard} was lost {} ms too early", (end - at) / MS).into());
        }
        if at > end + TELL {
            return Err(Problem::Late(format!("{guard}: its loss was reported {} ms late", (at - end) / MS)));
        }
    }
    match told.iter().find(|(_, count)| **count > 1) {
        Some((guard, count)) => Err(format!("{guard}: its loss was reported {count} times").into()),
        None => Ok(()),
    }
}
