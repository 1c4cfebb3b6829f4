//! The rules of the read/write lock, on Redisson's layout: the hash counts holds, `mode` names their kind, and each read
//! hold has its own lease key, whose end reveals a dead reader.
//!
//! Readers share the lock, a writer holds it exclusively. The writer may also read, and keeps its read holds when it
//! releases its write holds.

mod give_back;
mod take;

pub use give_back::{force_release, release, revoke};
pub use take::{acquire, hand_off};

use crate::bugs::{Bug, planted};
use crate::decide::nothing;
use crate::decision::{Change, Decision, ReadLeases, Reply};
use crate::error::Error;
use crate::types::{Expiry, Holds, LeaseMs, Mode, UnixMs};

/// The most lease keys of one owner that one call reads or writes. For an owner with more holds, its lower lease keys
/// suffice: they differ in nothing but their number.
pub const MAX_LEASE_KEYS: i64 = 1_000;

/// A read/write lock as one owner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The key does not exist.
    Free,
    /// The hash exists without a hold.
    Abandoned,
    /// The lock is held.
    Held(Held),
}

/// A held read/write lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Whether the lock has a writer; otherwise it has readers.
    pub writing: bool,
    /// The owner's read holds, if they are alive.
    pub reads: Option<Reads>,
    /// The owner's write holds.
    pub writes: Option<Holds>,
    /// The number of fields of other owners, including dead readers.
    pub others: usize,
    /// The expiry of the key.
    pub expiry: Expiry,
}

/// An owner's read holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reads {
    /// Their number.
    pub holds: Holds,
    /// Their lease end.
    pub until: Expiry,
}

/// The known facts about the other readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// The number of dead readers.
    pub dead: usize,
    /// The latest lease end of all other readers, if all were checked and one is alive.
    pub latest: Option<Expiry>,
}

/// Whether the owner holds the lock in any way.
pub(crate) fn holds_any(state: State) -> bool {
    matches!(state, State::Held(held) if held.reads.is_some() || held.writes.is_some())
}

/// The mode of a call without READ or WRITE: the mode of the owner's holds.
pub fn meant(state: State, asked: Option<Mode>) -> Result<Mode, Error> {
    let State::Held(held) = state else { return Ok(asked.unwrap_or(Mode::Read)) };
    match (asked, held.reads, held.writes) {
        (Some(mode), ..) => Ok(mode),
        (None, Some(_), Some(_)) => Err(Error::WhichMode),
        (None, _, Some(_)) => Ok(Mode::Write),
        (None, _, None) => Ok(Mode::Read),
    }
}

/// RLOCK.RENEW: the lease counts from now, even if it ends sooner than before.
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
