//! Which readers of a read/write lock are alive: a dead reader keeps its field in the hash, and only the end of its lease
//! keys reveals it.
//!
//! The lock's own key must be closed while lease keys are read: the server may delete an expired one, and other modules
//! are notified of that and may delete the lock.

use std::ops::ControlFlow;

use crate::bugs::{Bug, planted};
use crate::decision::ReadLeases;
use crate::error::Error;
use crate::port::{ReadLease, Reader, Server, Site};
use crate::read_write::{self, Held, MAX_LEASE_KEYS, Others, Reads, State};
use crate::shape::{LockState, ReadWrite};
use crate::types::{Expiry, Holds, Mode, UnixMs};

/// How many of the other readers are looked at when one goes, so that fields of the dead go over time.
const LOOKED_AT: usize = 8;

/// More readers than this are not all looked at.
const MANY: usize = 64;

/// What becomes of the fields of dead readers that are found on the way to one that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dead {
    /// They stay: writing may not be allowed.
    Stay,
    /// They are removed, so that nobody looks at them twice.
    ClearedAway,
}

/// The lock as this owner sees it, asked for as a read/write lock.
pub(crate) fn state<S: Site>(site: &S, owner: Option<&[u8]>) -> Result<(LockState, State), Error> {
    let seen = site.state(&site.open(), owner)?;
    let state = match seen {
        LockState::Free => State::Free,
        LockState::Abandoned => State::Abandoned,
        LockState::Mine { .. } | LockState::Theirs => return Err(Error::Mutex),
        LockState::ReadWrite(hash) => State::Held(Held {
            writing: hash.writing,
            reads: hash.reads.zip(owner).and_then(|(holds, owner)| own_reads(site, owner, holds, &hash)),
            writes: hash.writes,
            others: hash.others,
            expiry: hash.expiry,
        }),
    };
    Ok((seen, state))
}

/// The same to whoever wants to acquire in this mode: to a writer a lock whose readers are all dead is free.
pub(crate) fn state_to_acquire<S: Site>(
    site: &S,
    owner: Option<&[u8]>,
    mode: Mode,
) -> Result<(LockState, State), Error> {
    let (seen, state) = state(site, owner)?;
    let abandoned = match state {
        State::Held(held) if mode == Mode::Write && !held.writing && held.reads.is_none() => {
            held.others == 0 || first_living(site, owner, held.expiry, Dead::ClearedAway)?.is_none()
        }
        _ => false,
    };
    Ok((seen, if abandoned { State::Abandoned } else { state }))
}

/// Whether this owner writes, or reads and lives.
pub(crate) fn holds_any<S: Site>(site: &S, owner: &[u8], hash: &ReadWrite) -> bool {
    let reads = || hash.reads.and_then(|holds| own_reads(site, owner, holds, hash));
    hash.writes.is_some() || reads().is_some()
}

/// When the reads of this owner end; `None` if it has none.
pub(crate) fn read_end<S: Site>(site: &S, reader: &[u8]) -> Option<Expiry> {
    let Ok(LockState::ReadWrite(hash)) = site.state(&site.open(), Some(reader)) else { return None };
    latest_of_all(site, reader, hash.reads?, hash.expiry)
}

fn own_reads<S: Site>(site: &S, owner: &[u8], holds: Holds, hash: &ReadWrite) -> Option<Reads> {
    let until = lease_end(site, owner, holds, hash.expiry)?;
    Some(Reads { holds, until })
}

/// Refuses a caller that may not write its lease keys, where it is its reads that it renews or gives back. Before dead
/// readers are cleared away: an error changes nothing.
pub(crate) fn check_own_leases<S: Site>(
    site: &S,
    owner: &[u8],
    state: State,
    asked: Option<Mode>,
) -> Result<(), Error> {
    let reads = matches!(state, State::Held(held) if held.reads.is_some());
    if reads && read_write::meant(state, asked)? == Mode::Read { site.check_leases(owner) } else { Ok(()) }
}

/// Refuses to write the lease keys of holds that the owner has had before, while one of them may be on another server:
/// then it would be on both, and the one that comes later could not be moved to where the other is.
pub(crate) fn check_own_leases_local<S: Site>(
    site: &S,
    owner: Option<&[u8]>,
    seen: LockState,
    leases: ReadLeases,
) -> Result<(), Error> {
    let LockState::ReadWrite(ReadWrite { reads: Some(holds), .. }) = seen else { return Ok(()) };
    let (Some(owner), Some((first, last, _))) = (owner, leases.set) else { return Ok(()) };
    let elsewhere = |hold| site.read_lease(owner, hold) == ReadLease::Unknown;
    if (first..=last.min(holds.get())).any(elsewhere) { Err(Error::LeaseElsewhere) } else { Ok(()) }
}

/// When a reader's lease ends; `None` if it has. `key_until` is the end of the lock's key, which ends all holds.
fn lease_end<S: Site>(site: &S, reader: &[u8], holds: Holds, key_until: Expiry) -> Option<Expiry> {
    if planted(Bug::DeadReaderHolds) {
        return Some(key_until);
    }
    let newest = holds.get();
    let oldest = newest.saturating_sub(MAX_LEASE_KEYS).max(0);
    // The newest hold's lease is the longest, as rlock makes them; Redisson's may be the other way round.
    for hold in (oldest.saturating_add(1)..=newest).rev() {
        match site.read_lease(reader, hold) {
            ReadLease::Until(until) => return Some(until),
            // In doubt it lives: it ends with the lock's own key at last.
            ReadLease::Unknown => return Some(key_until),
            ReadLease::Gone => {}
        }
    }
    // Nobody counts so far; what cannot be looked at lives until the lock's own key ends.
    (oldest > 0).then_some(key_until)
}

/// The same by all of its holds: one of Redisson's may have been taken for a shorter time than one before it.
fn latest_of_all<S: Site>(site: &S, reader: &[u8], holds: Holds, key_until: Expiry) -> Option<Expiry> {
    let mut latest = lease_end(site, reader, holds, key_until)?;
    let newest = holds.get();
    for hold in newest.saturating_sub(MAX_LEASE_KEYS).max(0).saturating_add(1)..newest {
        if let ReadLease::Until(until) = site.read_lease(reader, hold) {
            latest = latest.later(until);
        }
    }
    Some(latest)
}

/// When the lease of a reader ends that is alive, the first that is found; `None` if all are dead. The dead that were
/// found before it are cleared away, so that nobody looks at them twice; not the one that asks, whose field is in what
/// it was told.
pub(crate) fn first_living<S: Site>(
    site: &S,
    asks: Option<&[u8]>,
    key_until: Expiry,
    fields: Dead,
) -> Result<Option<Expiry>, Error> {
    if planted(Bug::WriterBesideReaders) {
        return Ok(None);
    }
    let (mut dead, mut living) = (Vec::new(), None);
    site.readers(&mut |reader| {
        living = lease_end(site, &reader.owner, reader.holds, key_until);
        if living.is_some() {
            return ControlFlow::Break(());
        }
        if asks != Some(&*reader.owner) {
            dead.push(reader);
        }
        ControlFlow::Continue(())
    })?;
    if living.is_some() && !dead.is_empty() && fields == Dead::ClearedAway {
        site.clear_away(&dead);
    }
    Ok(living)
}

/// Looks at the readers besides this one where they are few, and now and then at a few of many, and clears the dead
/// among them away.
pub(crate) fn check_others<S: Site>(site: &S, but: &[u8], held: Held) -> Others {
    let few = held.others <= LOOKED_AT;
    if !few && !site.server().locks(|locks| locks.is_check_due()) {
        return Others::default();
    }
    let looked_at = site.some_readers(LOOKED_AT.saturating_add(1));
    let looked_at: Vec<Reader> = looked_at.into_iter().filter(|reader| *reader.owner != *but).collect();
    let all = looked_at.len() >= held.others;
    let mut latest: Option<Expiry> = None;
    let (count, mut dead) = (looked_at.len(), Vec::new());
    for reader in looked_at {
        match latest_of_all(site, &reader.owner, reader.holds, held.expiry) {
            Some(end) => latest = Some(latest.map_or(end, |latest| latest.later(end))),
            None => dead.push(reader),
        }
    }
    let found = Others { dead: dead.len(), latest: latest.filter(|_| all) };
    if found.dead > 0 && !(all && found.dead == count) {
        site.clear_away(&dead);
        // Cleared away, they are no others any more; what is left of those lives, or was not looked at.
        return Others { dead: 0, ..found };
    }
    found
}

/// The latest end of the leases of those who read, where they are few; else what it was to be, `at_most`. `None` where
/// nobody lives.
pub(crate) fn latest_end<S: Site>(site: &S, hash: ReadWrite, at_most: UnixMs) -> Option<Expiry> {
    if hash.others > MANY {
        return Some(Expiry::At(at_most));
    }
    let readers = site.some_readers(MANY);
    let ends =
        readers.iter().filter_map(|reader| latest_of_all(site, &reader.owner, reader.holds, hash.expiry));
    ends.reduce(Expiry::later)
}
