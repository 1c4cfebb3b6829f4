//! Ties: holds and waits that end with a connection. A tie is in its lock's record; the index by client points at it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::{Databases, LockName, LockRef, Locks, Ticket, Via, Waiter};
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

/// The ties of the holds of one lock.
pub(super) type Ties = BTreeMap<Party, Tie>;

#[derive(Clone, Copy, Debug)]
pub(super) struct Tie {
    session: Session,
    /// Its number: ties of before a FLUSHALL or SWAPDB count no more.
    serial: u64,
}

/// A hold that a connection's end has to shorten.
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
    holds: BTreeMap<u64, BTreeSet<(LockRef, Box<[u8]>, Mode)>>,
    /// The tied waiters that wait for a message; blocked ones leave by themselves.
    waits: BTreeMap<u64, BTreeSet<Ticket>>,
    /// How many ties there are, those of all waiters included.
    count: usize,
    /// The connections that have ended, and still have holds or waiters.
    ended_holds: BTreeSet<u64>,
    ended_waits: BTreeSet<u64>,
    /// The server refuses writes: holds are shortened after the next beat.
    is_parked: bool,
    /// When the shortened leases end of locks that may have waiting Redisson clients.
    ends: BTreeMap<LockRef, (UnixMs, Mode)>,
    by_end: BTreeSet<(UnixMs, LockRef)>,
    last_serial: u64,
    /// Ties up to this number, of all databases or of one, count no more.
    void: u64,
    void_in: BTreeMap<i32, u64>,
    /// Where the sweep goes on.
    swept_up_to: Option<LockRef>,
}

impl Sessions {
    fn has_ended(&self, client: u64) -> bool {
        self.ended_holds.contains(&client) || self.ended_waits.contains(&client)
    }

    fn counts(&self, db: i32, tie: &Tie) -> bool {
        tie.serial > self.void.max(self.void_in.get(&db).copied().unwrap_or(0))
    }

    fn remove_hold(&mut self, client: u64, entry: &(LockRef, Box<[u8]>, Mode)) {
        self.count = self.count.saturating_sub(1);
        let Some(holds) = self.holds.get_mut(&client) else { return };
        holds.remove(entry);
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

    /// No hold is tied any more: a replica, or a server whose queues are in doubt.
    pub(super) fn forget_holds(&mut self) {
        let holds: usize = self.holds.values().map(BTreeSet::len).sum();
        self.count = self.count.saturating_sub(holds);
        self.holds.clear();
        self.ended_holds.clear();
        self.ends.clear();
        self.by_end.clear();
        self.is_parked = false;
    }
}

impl Locks {
    /// The connection to which a hold is tied.
    pub fn session(&self, lock: LockName<'_>, owner: &[u8], mode: Mode) -> Option<Session> {
        let ties = self.records.get(lock)?.ties.as_deref()?;
        let tie = ties.get(&(Box::from(owner), mode)).filter(|tie| self.sessions.counts(lock.db, tie));
        tie.map(|tie| tie.session)
    }

    /// The tie of a queue entry that another call of its owner replaces.
    pub(super) fn session_of_entry(
        &self,
        before: Option<Session>,
        asked: Option<Session>,
    ) -> Option<Session> {
        tied(before, asked, before.is_some_and(|before| self.sessions.has_ended(before.client)))
    }

    fn has_tied_holds(&self, lock: LockName<'_>) -> bool {
        self.records.get(lock).is_some_and(|record| record.ties.is_some())
    }

    /// Whether one more tie of this party is allowed.
    pub fn may_tie(&self, lock: LockName<'_>, owner: &[u8], mode: Mode, most: usize) -> bool {
        self.sessions.count < most || self.session(lock, owner, mode).is_some()
    }

    /// A call of an owner has succeeded: its tie is the one that was asked for, or none.
    pub fn tie(&mut self, lock: LockName<'_>, owner: &[u8], mode: Mode, asked: Option<Session>) {
        let before = self.session(lock, owner, mode);
        let after = self.session_of_entry(before, asked);
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

    /// No hold of a lock is tied any more, and nobody is told of the end of its lease.
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
        let Some(ties) = self.records.get(lock).and_then(|record| record.ties.as_deref()) else { return };
        let void = ties.iter().filter(|(_, tie)| !self.sessions.counts(lock.db, tie));
        let void: Vec<Party> = void.map(|(party, _)| party.clone()).collect();
        for (owner, mode) in void {
            self.untie(lock, &owner, mode);
        }
    }

    /// Whether anything is tied to this connection.
    pub fn has_session(&self, client: u64) -> bool {
        self.sessions.holds.contains_key(&client) || self.sessions.waits.contains_key(&client)
    }

    /// Whether anything is tied.
    pub fn has_ties(&self) -> bool {
        self.sessions.count > 0
    }

    /// A connection has ended. This only notes it.
    pub fn session_ended(&mut self, client: u64) {
        if self.sessions.holds.contains_key(&client) {
            self.sessions.ended_holds.insert(client);
        }
        if self.sessions.waits.contains_key(&client) {
            self.sessions.ended_waits.insert(client);
        }
        self.agenda.change();
    }

    /// Removes enqueued waiters whose connections have ended, `most` at most.
    pub fn next_ended_waiters(&mut self, most: usize) -> Vec<(LockRef, Waiter)> {
        let Sessions { ended_waits, waits, .. } = &self.sessions;
        let tickets = ended_waits.iter().filter_map(|client| waits.get(client)).flatten().copied();
        let tickets: Vec<_> = tickets.take(most).collect();
        tickets.into_iter().filter_map(|ticket| self.leave(ticket)).collect()
    }

    /// A hold whose connection has ended; the same one until it is untied. Grants are revoked before that.
    pub fn next_ended_tie(&mut self) -> Option<EndedTie> {
        if self.agenda.has(super::Job::Revoke) {
            return None;
        }
        loop {
            let client = *self.sessions.ended_holds.first()?;
            let first = self.sessions.holds.get(&client).and_then(|holds| holds.first().cloned());
            let Some((lock, owner, mode)) = first else {
                self.sessions.ended_holds.remove(&client);
                continue;
            };
            match self.session(lock.name(), &owner, mode) {
                Some(Session { grace, .. }) => return Some(EndedTie { lock, owner, mode, grace }),
                None => self.untie(lock.name(), &owner, mode),
            }
        }
    }

    /// The server refuses writes: sessions end after the next beat. This arms no timer, and hinders no unload.
    pub fn park_sessions(&mut self) {
        self.sessions.is_parked = !self.sessions.ended_holds.is_empty();
        self.agenda.change();
    }

    /// Sessions that were parked end now.
    pub fn unpark_sessions(&mut self) {
        if std::mem::take(&mut self.sessions.is_parked) {
            self.agenda.change();
        }
    }

    /// A shortened lease ends then, which waiting Redisson clients do not know.
    pub fn watch_end(&mut self, lock: LockName<'_>, at: UnixMs, mode: Mode) {
        self.forget_end(lock);
        let (name, at) = (self.shared_name(lock), UnixMs(at.0.saturating_add(1)));
        self.sessions.ends.insert(name.clone(), (at, mode));
        self.sessions.by_end.insert((at, name));
        self.agenda.change();
    }

    /// The shortened lease of a lock has ended, as an event says.
    pub fn end_is_due(&mut self, lock: LockName<'_>, now: UnixMs) -> bool {
        let name = lock.to_ref();
        let Some((at, mode)) = self.sessions.ends.get(&name).copied() else { return false };
        self.sessions.by_end.remove(&(at, name.clone()));
        self.sessions.ends.insert(name.clone(), (now, mode));
        self.sessions.by_end.insert((now, name));
        self.agenda.change();
        true
    }

    /// Whether the end of a shortened lease of this lock is watched.
    pub fn knows_end(&self, lock: LockName<'_>) -> bool {
        !self.sessions.ends.is_empty() && self.sessions.ends.contains_key(&lock.to_ref())
    }

    /// Whether the end of any shortened lease is watched.
    pub fn knows_ends(&self) -> bool {
        !self.sessions.ends.is_empty()
    }

    fn forget_end(&mut self, lock: LockName<'_>) {
        if self.sessions.ends.is_empty() {
            return;
        }
        let name = lock.to_ref();
        if let Some((at, _)) = self.sessions.ends.remove(&name) {
            self.sessions.by_end.remove(&(at, name));
        }
    }

    /// Takes a lock whose shortened lease has ended.
    pub fn next_end(&mut self, now: UnixMs) -> Option<(LockRef, Mode)> {
        let (at, _) = self.sessions.by_end.first()?;
        if *at > now {
            return None;
        }
        let (_, lock) = self.sessions.by_end.pop_first()?;
        let (_, mode) = self.sessions.ends.remove(&lock)?;
        Some((lock, mode))
    }

    /// The tied holds of the next `most` records; the next call continues after them.
    pub fn next_swept_ties(&mut self, most: usize) -> Vec<(LockRef, Box<[u8]>, Mode)> {
        if self.sessions.holds.is_empty() {
            return Vec::new();
        }
        let after = self.sessions.swept_up_to.take();
        let start = after.as_ref().map_or(Bound::Unbounded, |after| Bound::Excluded(after.name()));
        let (mut seen, mut last, mut found) = (0_usize, None, Vec::new());
        for (lock, record) in self.records.from(start).take(most) {
            if let Some(ties) = record.ties.as_deref() {
                found.extend(ties.keys().map(|(owner, mode)| (lock.clone(), owner.clone(), *mode)));
            }
            (seen, last) = (seen.saturating_add(1), Some(lock));
        }
        self.sessions.swept_up_to = last.filter(|_| seen == most);
        found
    }
}

#[cfg(test)]
#[path = "ties_tests.rs"]
mod tests;
