//! Ties: holds and waits that end with a connection. A tie is in its lock's record; the index by client points at it.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;

use super::forgotten::Forgotten;
use super::{Databases, LockName, LockRef, Locks, Place, Ticket, Via, Waiter};
use crate::types::{LeaseMs, Mode, UnixMs};

/// What a call with SESSION asks for: its connection, and the lease that remains when the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// The client id of the connection.
    pub client: u64,
    /// The longest lease after its end.
    pub grace: LeaseMs,
}

/// The tie after a call that succeeded; `gone`: the connection of the present tie has ended. Commands of a closed socket
/// still run after those of its successor: a tie moves only to a younger connection, or away from one that is gone.
pub fn tied(before: Option<Session>, asked: Option<Session>, gone: bool) -> Option<Session> {
    match (before, asked) {
        (Some(before), Some(asked)) if !gone && asked.client < before.client => Some(before),
        _ => asked,
    }
}

/// An owner in a mode.
type Party = (Box<[u8]>, Mode);

/// A hold: its lock, and its owner in a mode.
pub(super) type Hold = (LockRef, Box<[u8]>, Mode);

/// The ties of the holds of one lock.
pub(super) type Ties = BTreeMap<Party, Tie>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tie {
    session: Session,
    /// Its number: ties of before a FLUSHALL or SWAPDB count no more.
    serial: u64,
}

/// A hold that a connection's end must shorten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedTie {
    /// Its lock.
    pub lock: LockRef,
    /// Its owner.
    pub owner: Box<[u8]>,
    /// Its mode.
    pub mode: Mode,
    /// The longest lease that remains.
    pub grace: LeaseMs,
}

/// All ties, by connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Sessions {
    /// The tied holds.
    pub(super) holds: BTreeMap<u64, BTreeSet<Hold>>,
    /// The tied waiters that wait for a message; blocked ones leave by themselves.
    pub(super) waits: BTreeMap<u64, BTreeSet<Ticket>>,
    /// How many ties there are, those of all waiters included.
    pub(super) count: usize,
    /// The connections that have ended, and still have holds or waiters.
    pub(super) ended_holds: BTreeSet<u64>,
    pub(super) ended_waits: BTreeSet<u64>,
    /// The server refuses writes: holds are shortened after the next beat.
    pub(super) is_parked: bool,
    /// When the shortened leases end of locks that may have waiting Redisson clients.
    pub(super) ends: BTreeMap<LockRef, (UnixMs, Mode)>,
    pub(super) by_end: BTreeSet<(UnixMs, LockRef)>,
    pub(super) last_serial: u64,
    /// Ties up to this number, of all databases or of one, count no more.
    pub(super) void: u64,
    pub(super) void_in: BTreeMap<i32, u64>,
    /// Where the sweep goes on.
    pub(super) swept_up_to: Option<(u64, Hold)>,
    /// What counts no more, and is still in memory.
    forgotten: Forgotten,
}

impl Sessions {
    fn has_ended(&self, client: u64) -> bool {
        self.ended_holds.contains(&client) || self.ended_waits.contains(&client)
    }

    fn counts(&self, db: i32, tie: &Tie) -> bool {
        tie.serial > self.void.max(self.void_in.get(&db).copied().unwrap_or(0))
    }

    fn remove_hold(&mut self, client: u64, entry: &Hold) {
        let Some(holds) = self.holds.get_mut(&client) else { return };
        if holds.remove(entry) {
            self.count = self.count.saturating_sub(1);
        }
        if holds.is_empty() {
            self.holds.remove(&client);
            self.ended_holds.remove(&client);
        }
    }

    /// A waiter has joined a queue.
    pub(super) fn joined(&mut self, waiter: &Waiter) {
        let Some(Session { client, .. }) = waiter.session else { return };
        self.count = self.count.saturating_add(1);
        if matches!(waiter.via, Via::Enqueue(_)) {
            self.waits.entry(client).or_default().insert(waiter.ticket);
        }
    }

    /// A waiter has left its queue.
    pub(super) fn left(&mut self, waiter: &Waiter) {
        let Some(Session { client, .. }) = waiter.session else { return };
        self.count = self.count.saturating_sub(1);
        let Some(waits) = self.waits.get_mut(&client) else { return };
        waits.remove(&waiter.ticket);
        if waits.is_empty() {
            self.waits.remove(&client);
            self.ended_waits.remove(&client);
        }
    }

    /// The time until its next work, in ms.
    pub(super) fn next_in(&self, now: UnixMs) -> Option<u64> {
        let due = !self.ended_waits.is_empty() || !self.is_parked && !self.ended_holds.is_empty();
        let end = self.by_end.first().map(|(at, _)| at.0.saturating_sub(now.0).max(0).unsigned_abs());
        if due { Some(0) } else { end }
    }

    /// No hold is tied any more: this server is a replica now. There may be a million ties: see [`Self::free_forgotten`].
    pub(super) fn forget_holds(&mut self) {
        let holds: usize = self.holds.values().map(BTreeSet::len).sum();
        self.count = self.count.saturating_sub(holds);
        self.forgotten.add_holds(take(&mut self.holds));
        self.forgotten.add_ends(take(&mut self.ends), take(&mut self.by_end));
        self.ended_holds.clear();
        self.is_parked = false;
    }

    /// These ties of one lock are of before a demotion.
    pub(super) fn forget_ties(&mut self, ties: Option<Box<Ties>>) {
        self.forgotten.add_ties(ties);
    }

    /// Frees the memory of what was forgotten: `most` of each kind.
    pub(super) fn free_forgotten(&mut self, most: usize) {
        self.forgotten.free(most);
    }
}

impl Locks {
    /// The connection to which a hold is tied.
    pub fn session(&self, lock: LockName<'_>, owner: &[u8], mode: Mode) -> Option<Session> {
        let ties = self.known(lock)?.ties.as_deref()?;
        let tie = ties.get(&(Box::from(owner), mode)).filter(|tie| self.sessions.counts(lock.db, tie));
        tie.map(|tie| tie.session)
    }

    /// The tie of an entry in this place of a queue, which may replace an earlier one of its owner.
    pub(super) fn session_in(
        &self,
        lock: LockName<'_>,
        place: Place,
        asked: Option<Session>,
    ) -> Option<Session> {
        let entry = self.queue(lock).and_then(|queue| queue.order.get(&place));
        self.tied_after(entry.and_then(|entry| entry.session), asked)
    }

    fn tied_after(&self, before: Option<Session>, asked: Option<Session>) -> Option<Session> {
        tied(before, asked, before.is_some_and(|before| self.sessions.has_ended(before.client)))
    }

    fn has_tied_holds(&self, lock: LockName<'_>) -> bool {
        // First what costs a plain lock nothing.
        self.has_ties() && self.known(lock).is_some_and(|record| record.ties.is_some())
    }

    /// Whether one more tie of this owner is allowed.
    pub fn may_tie(&self, lock: LockName<'_>, owner: &[u8], mode: Mode, most: usize) -> bool {
        self.sessions.count < most || self.session(lock, owner, mode).is_some()
    }

    /// A call of an owner has succeeded: its tie is the one that was asked for, or none.
    pub fn tie(&mut self, lock: LockName<'_>, owner: &[u8], mode: Mode, asked: Option<Session>) {
        let before = self.session(lock, owner, mode);
        let after = self.tied_after(before, asked);
        self.untie(lock, owner, mode);
        let Some(session) = after else { return };
        self.sessions.last_serial = self.sessions.last_serial.saturating_add(1);
        let tie = Tie { session, serial: self.sessions.last_serial };
        self.edit(lock, |record| record.ties.get_or_insert_default().insert((owner.into(), mode), tie));
        let name = self.shared_name(lock);
        let client = session.client;
        self.sessions.count = self.sessions.count.saturating_add(1);
        if self.sessions.has_ended(client) {
            // A grant to a waiter whose connection has ended.
            self.sessions.ended_holds.insert(client);
            self.agenda.change();
        }
        self.sessions.holds.entry(client).or_default().insert((name, owner.into(), mode));
    }

    /// A hold is not tied any more.
    pub fn untie(&mut self, lock: LockName<'_>, owner: &[u8], mode: Mode) {
        if !self.has_tied_holds(lock) {
            return;
        }
        let name = self.shared_name(lock);
        let removed = self.edit_known(lock, |record| {
            let ties = record.ties.as_deref_mut()?;
            let tie = ties.remove(&(Box::from(owner), mode));
            if ties.is_empty() {
                record.ties = None;
            }
            tie
        });
        if let Some(tie) = removed.flatten() {
            self.sessions.remove_hold(tie.session.client, &(name, owner.into(), mode));
        }
    }

    /// No hold of a lock is tied any more, and the end of its lease is not watched.
    pub fn untie_all(&mut self, lock: LockName<'_>) {
        self.forget_end(lock);
        self.untie_holds(lock);
    }

    /// No hold of a lock is tied any more.
    pub fn untie_holds(&mut self, lock: LockName<'_>) {
        if !self.has_tied_holds(lock) {
            return;
        }
        let name = self.shared_name(lock);
        let ties = self.edit_known(lock, |record| record.ties.take()).flatten();
        let Some(ties) = ties else { return };
        for ((owner, mode), tie) in *ties {
            self.sessions.remove_hold(tie.session.client, &(name.clone(), owner, mode));
        }
    }

    /// The owner has released some of its holds: it lives, whatever became of the connection of the tie.
    pub fn supersede_ended(&mut self, lock: LockName<'_>, owner: &[u8], mode: Mode) {
        if self.session(lock, owner, mode).is_some_and(|tie| self.sessions.has_ended(tie.client)) {
            self.untie(lock, owner, mode);
        }
    }

    /// The keys of databases were replaced without an event for each: their ties count no more.
    pub fn void_ties(&mut self, databases: Databases) {
        let serial = self.sessions.last_serial;
        match databases {
            Databases::All => self.sessions.void = serial,
            Databases::One(db) => drop(self.sessions.void_in.insert(db, serial)),
        }
    }

    /// Removes the ties of a lock that count no more.
    pub(super) fn remove_void_ties(&mut self, lock: LockName<'_>) {
        let Some(ties) = self.known(lock).and_then(|record| record.ties.as_deref()) else { return };
        let void = ties.iter().filter(|(_, tie)| !self.sessions.counts(lock.db, tie));
        let void: Vec<Party> = void.map(|(party, _)| party.clone()).collect();
        for (owner, mode) in void {
            self.untie(lock, &owner, mode);
        }
    }
}

#[cfg(test)]
#[path = "ties_tests.rs"]
mod tests;
