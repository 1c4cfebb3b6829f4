//! The rules of the read/write lock, on Redisson's layout: the hash counts holds, `mode` says which kind they are,
//! and each read hold has a lease key of its own, by whose end a reader that died is known.
//!
//! Readers hold together, a writer alone; the writer may read too, and keeps that when it releases the write.

mod give_back;
mod take;

pub use give_back::{force_release, release, take_back};
pub use take::{acquire, hand_off};

use crate::bugs::{Bug, planted};
use crate::decide::nothing;
use crate::decision::{Change, Decision, ReadLeases, Reply};
use crate::error::Error;
use crate::types::{Expiry, Holds, LeaseMs, Mode, UnixMs};

/// The most lease keys of one owner that one call writes, or looks at: an owner of more holds has them in its lower
/// lease keys as well, which nothing but their number makes different.
pub const MAX_LEASE_KEYS: i64 = 1_000;

/// A read/write lock as one owner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There is no key.
    Free,
    /// A hash is there, but nobody holds it.
    Abandoned,
    /// Somebody holds it.
    Held(Held),
}

/// A read/write lock that somebody holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Whether there is a writer; else there are readers.
    pub writing: bool,
    /// The owner's read holds, if they live.
    pub reads: Option<Reads>,
    /// How many write holds the owner has.
    pub writes: Option<Holds>,
    /// How many fields of others there are, those of dead readers included.
    pub others: usize,
    /// Until when the key is there.
    pub expiry: Expiry,
}

/// An owner's read holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reads {
    /// How many.
    pub holds: Holds,
    /// Until when.
    pub until: Expiry,
}

/// What is known of the other readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// How many of them are dead.
    pub dead: usize,
    /// The latest end of the leases of all the others, where all were looked at and one lives.
    pub latest: Option<Expiry>,
}

/// Whether the owner holds the lock in any way.
pub(crate) fn holds_any(state: State) -> bool {
    matches!(state, State::Held(held) if held.reads.is_some() || held.writes.is_some())
}

/// Which holds a call without READ and WRITE means: those that the owner has.
pub fn meant(state: State, asked: Option<Mode>) -> Result<Mode, Error> {
    let State::Held(held) = state else { return Ok(asked.unwrap_or(Mode::Read)) };
    match (asked, held.reads, held.writes) {
        (Some(mode), ..) => Ok(mode),
        (None, Some(_), Some(_)) => Err(Error::WhichMode),
        (None, _, Some(_)) => Ok(Mode::Write),
        (None, _, None) => Ok(Mode::Read),
    }
}

/// RLOCK.RENEW: the lease counts from now, also where that is sooner than before.
pub fn renew(state: State, asked: Option<Mode>, lease: LeaseMs, now: UnixMs) -> Result<Decision, Error> {
    let mode = meant(state, asked)?;
    let State::Held(held) = state else { return Ok(nothing(Reply::NotRenewed)) };
    let ends = now.after(lease);
    let change = match (mode, held.reads, held.writes) {
        (Mode::Write, reads, Some(_)) => {
            let ends = reads.and_then(|_| own_reads(held)).map_or(ends, |reads| ends.max(reads));
            let expire_at = (Expiry::At(ends) != held.expiry).then_some(ends);
            Change { mode, expire_at, ..Change::default() }
        }
        (Mode::Read, Some(reads), _) => {
            let (first, last) = newest(1, reads.holds);
            let longer =
                matches!(held.expiry, Expiry::At(at) if ends > at || planted(Bug::RenewReadLowersKey));
            let leases = ReadLeases { set: Some((first, last, ends)), gone: None };
            Change { mode, leases, expire_at: longer.then_some(ends), ..Change::default() }
        }
        _ => return Ok(nothing(Reply::NotRenewed)),
    };
    Ok(Decision { reply: Reply::Renewed, change })
}

/// When the owner's own read leases end, if it has some that do.
fn own_reads(held: Held) -> Option<UnixMs> {
    match held.reads?.until {
        Expiry::At(at) => Some(at),
        Expiry::Never => None,
    }
}

/// The lease keys from this one on, of so many holds.
fn newest(from: i64, holds: Holds) -> (i64, i64) {
    (from.max(holds.get().saturating_sub(MAX_LEASE_KEYS - 1)), holds.get())
}

#[cfg(test)]
mod tests;
