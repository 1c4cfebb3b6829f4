//! Rules about holds that a message granted: when they may begin, and when RENEW must confirm them.

use std::collections::HashSet;

use super::backing::{Backing, By};
use super::holds::{Hold, text};
use crate::proxy::transcript::{Entry, What};
use crate::run::{Problem, Run};

const MS: i64 = 1_000_000;

/// How much later than promised a client may act on a machine that does not stall.
const SLACK: i64 = 50 * MS;

/// The time after which a confirmation that was not sent is missing, and not late.
const MISSING: i64 = 1_000 * MS;

/// A hold is backed when the caller gets it. A grant by message is confirmed soon.
pub(super) fn judge(run: &Run<'_>, hold: &Hold<'_>) -> Result<(), Problem> {
    let known = || hold.backings.iter().filter(|backing| backing.known <= hold.from);
    let Some(last) = known().max_by_key(|backing| backing.sent) else {
        return Err(unbacked(hold));
    };
    if known().any(|backing| backing.by == By::Reply) {
        return Ok(());
    }
    let half = last.end(hold.lease) - last.lease.unwrap_or(hold.lease) / 2;
    if hold.from > half + SLACK {
        let over = (hold.from - half) / MS;
        return Err(Problem::Late(format!("grant: {} was held by its message {over} ms late", hold.guard)));
    }
    confirmed_in_time(run, hold, last)
}

pub(super) fn unbacked(hold: &Hold<'_>) -> Problem {
    format!("confirmation: {} is held, and the server confirmed nothing", hold.guard).into()
}

/// A RENEW goes out a tenth of the message's lease after the grant, or on the next connection; unless the hold has ended before.
fn confirmed_in_time(run: &Run<'_>, hold: &Hold<'_>, granted: &Backing) -> Result<(), Problem> {
    let process = run.parties.get(&hold.book.client).map(|party| &party.process);
    if process.is_some_and(|process| run.disturbed.contains(process)) {
        return Ok(());
    }
    let due = hold.from + granted.lease.unwrap_or(hold.lease) / 10;
    let Some(due) = on_a_link(hold, granted, due) else { return Ok(()) };
    let of_owner = |entry: &&Entry, name| {
        entry.at >= granted.known
            && entry.command(name).is_some_and(|(words, _)| words.get(2) == Some(&hold.owner))
    };
    let entries = || hold.book.entries.iter();
    let renewed = entries().find(|entry| of_owner(entry, "RLOCK.RENEW")).map(|entry| entry.at);
    let released = entries().find(|entry| of_owner(entry, "RLOCK.RELEASE")).map(|entry| entry.at);
    let end = [released, lost(run, hold), closed(run, hold)].into_iter().flatten().min().unwrap_or(i64::MAX);
    let sent = renewed.unwrap_or(end);
    match renewed {
        _ if sent.min(end) <= due + SLACK => Ok(()),
        None if end > due + MISSING => {
            Err(format!("grant: {} was never confirmed by RENEW", hold.guard).into())
        }
        _ => {
            let late = (sent.min(end) - due) / MS;
            Err(Problem::Late(format!("grant: {} was confirmed {late} ms late", hold.guard)))
        }
    }
}

/// When the confirmation is due, if the connection broke before: with the first command of a lock on one that was opened later. `None` if
/// no command followed.
fn on_a_link(hold: &Hold<'_>, granted: &Backing, due: i64) -> Option<i64> {
    let entries = || hold.book.entries.iter();
    let closed =
        |entry: &&Entry| entry.connection == granted.connection && matches!(entry.what, What::Closed);
    let Some(broke) = entries().find(closed).map(|entry| entry.at).filter(|at| *at <= due) else {
        return Some(due);
    };
    let opened = entries().filter(|entry| entry.at > broke && matches!(entry.what, What::Opened));
    let later: HashSet<u64> = opened.map(|entry| entry.connection).collect();
    let first = entries().find(|entry| later.contains(&entry.connection) && entry.lock_command().is_some());
    first.map(|entry| entry.at)
}

fn lost(run: &Run<'_>, hold: &Hold<'_>) -> Option<i64> {
    run.losses().into_iter().find(|(guard, ..)| *guard == hold.guard).map(|(_, _, at)| at)
}

/// When the close of its client was asked for.
fn closed(run: &Run<'_>, hold: &Hold<'_>) -> Option<i64> {
    let is_its = |asked: &&crate::run::Asked| {
        text(asked, "do") == "close" && text(asked, "client") == hold.book.client
    };
    run.asked.iter().find(is_its).map(|asked| asked.sent)
}
