//! Ties: holds and waits that end with a connection. A tie is in its lock's record; the index by client points at it.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;

use super::forgotten::Forgotten;
use super::{LockName, LockRef, Locks, Place, Ticket, User, Via, Waiter};
use crate::types::{LeaseMs, Mode, UnixMs};
use crate::weight::Weighed;

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
type OwnerInMode = (Box<[u8]>, Mode);

/// A hold: its lock, and its owner in a mode.
pub(super) type Hold = (LockRef, Box<[u8]>, Mode);

impl Weighed for Hold {
    fn bytes(&self) -> usize {
        self.0.bytes().saturating_add(self.1.len())
    }
}

/// The ties of the holds of one lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ties {
    pub(super) sessions: BTreeMap<OwnerInMode, Session>,
    /// The generation of the database: ties of before a FLUSHALL or SWAPDB do not count.
    generation: u64,
}

/// A hold that was tied to a connection that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedTie {
    /// The client id of the connection.
    pub client: u64,
    /// Its lock.
    pub lock: LockRef,
    /// Its owner.
    pub owner: Box<[u8]>,
    /// Its mode.
    pub mode: Mode,
    /// The longest lease that remains; `None` if the hold is not tied to that connection any more.
    pub grace: Option<LeaseMs>,
}

impl Weighed for EndedTie {
    fn bytes(&self) -> usize {
        self.lock.bytes().saturating_add(self.owner.len())
    }
}

/// All ties, by connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Sessions {
    /// The tied holds, each with the user for which it counts. An entry is stale while its tie is in `untied`, unless the same
    /// hold is tied to the connection again.
    pub(super) holds: BTreeMap<u64, BTreeMap<Hold, Option<User>>>,
    /// The ties of locks whose holds all ended at one moment: `holds` may still have their entries.
    pub(super) untied: Vec<(LockRef, Ties)>,
    /// The tied enqueued waiters; a blocked waiter leaves when its client disconnects.
    pub(super) waits: BTreeMap<u64, BTreeSet<Ticket>>,
    /// How many entries `holds` has, and how many waiters are tied.
    pub(super) count: usize,
    /// The connections that have ended, and still have holds or waiters.
    pub(super) ended_holds: BTreeSet<u64>,
    pub(super) ended_waits: BTreeSet<u64>,
    /// The server refuses writes: holds are shortened after the next beat.
    pub(super) is_parked: bool,
    /// When the shortened leases end of locks that may have waiting Redisson clients.
    pub(super) ends: BTreeMap<LockRef, (UnixMs, Mode)>,
    pub(super) by_end: BTreeSet<(UnixMs, LockRef)>,
    /// How often the keys of databases were replaced.
    pub(super) replaced: u64,
    /// That number when the keys of all databases were last replaced, and those of one: the larger one is its generation.
    pub(super) all_replaced: u64,
    pub(super) one_replaced: BTreeMap<i32, u64>,
    /// The rounds of the sweep that are hurried, since a tie was refused.
    pub(super) hurried_rounds: u8,
    /// Where the sweep continues.
    pub(super) swept_up_to: Option<(u64, Hold)>,
    /// Data that does not count any more, but is still in memory.
    forgotten: Forgotten,
}

impl Sessions {
    fn has_ended(&self, client: u64) -> bool {
        self.ended_holds.contains(&client) || self.ended_waits.contains(&client)
    }

    fn generation(&self, db: i32) -> u64 {
        self.all_replaced.max(self.one_replaced.get(&db).copied().unwrap_or(0))
    }

    pub(super) fn counts(&self, db: i32, ties: &Ties) -> bool {
        ties.generation == self.generation(db)
    }

    /// Adds an entry; returns the user for which an earlier entry of the same hold counted.
    fn add_hold(&mut self, client: u64, entry: Hold, user: Option<User>) -> Option<User> {
        let before = self.holds.entry(client).or_default().insert(entry, user);
        if before.is_none() {
            self.count = self.count.saturating_add(1);
        }
        before.flatten()
    }

    /// Removes an entry; returns the user for which it counted.
    fn remove_hold(&mut self, client: u64, entry: &Hold) -> Option<User> {
        let holds = self.holds.get_mut(&client)?;
        let removed = holds.remove(entry);
        if removed.is_some() {
            self.count = self.count.saturating_sub(1);
        }
        if holds.is_empty() {
            self.holds.remove(&client);
            self.ended_holds.remove(&client);
        }
        removed.flatten()
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
        let ended = !self.ended_waits.is_empty() || !self.is_parked && !self.ended_holds.is_empty();
        let due = ended || !self.untied.is_empty();
        let end = self.by_end.first().map(|(at, _)| at.0.saturating_sub(now.0).max(0).unsigned_abs());
        if due { Some(0) } else { end }
    }

    /// No hold is tied any more: this server is a replica now. There may be a million ties: see [`Self::free_forgotten`].
    pub(super) fn forget_holds(&mut self) {
        let holds: usize = self.holds.values().map(BTreeMap::len).sum();
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
        let ties = self.known(lock)?.ties.as_deref().filter(|ties| self.sessions.counts(lock.db, ties))?;
        ties.sessions.get(&(Box::from(owner), mode)).copied()
    }

    /// Whether a hold is tied to this connection.
    pub(super) fn is_tied_to(&self, client: u64, (lock, owner, mode): &Hold) -> bool {
        self.session(lock.name(), owner, *mode).is_some_and(|tie| tie.client == client)
    }

    /// The tie of a waiter in this place of a queue, which may replace an earlier one of its owner. A blocked waiter is tied to
    /// the connection that it blocks, with which it leaves: the end of a younger one would not be noticed.
    pub(super) fn session_in(&self, lock: LockName<'_>, place: Place, waiter: &Waiter) -> Option<Session> {
        if waiter.via == Via::Block {
            return waiter.session;
        }
        let entry = self.queue(lock).and_then(|queue| queue.waiters.get(place));
        self.tied_after(entry.and_then(|entry| entry.session), waiter.session)
    }

    fn tied_after(&self, before: Option<Session>, asked: Option<Session>) -> Option<Session> {
        tied(before, asked, before.is_some_and(|before| self.sessions.has_ended(before.client)))
    }

    pub(super) fn has_tied_holds(&self, lock: LockName<'_>) -> bool {
        // First what costs a plain lock nothing.
        self.has_ties() && self.known(lock).is_some_and(|record| record.ties.is_some())
    }

    /// A call of an owner has succeeded: its tie is the one that was asked for, or none. It counts for this user.
    pub fn tie(
        &mut self,
        lock: LockName<'_>,
        owner: &[u8],
        mode: Mode,
        (asked, user): (Option<Session>, Option<User>),
    ) {
        let before = self.session(lock, owner, mode);
        let after = self.tied_after(before, asked);
        self.remove_void_ties(lock);
        self.untie(lock, owner, mode);
        let Some(session) = after else { return };
        let generation = self.sessions.generation(lock.db);
        self.edit(lock, |record| {
            let ties = record.ties.get_or_insert_default();
            ties.generation = generation;
            ties.sessions.insert((owner.into(), mode), session);
        });
        let name = self.shared_name(lock);
        let client = session.client;
        if self.sessions.has_ended(client) {
            // A grant to a waiter whose connection has ended.
            self.sessions.ended_holds.insert(client);
            self.agenda.change();
        }
        let user = user.map(|user| self.users.tied(user));
        if let Some(before) = self.sessions.add_hold(client, (name, owner.into(), mode), user) {
            self.users.untied(&before);
        }
    }

    /// An entry of a hold by its connection is not needed any more.
    pub(super) fn remove_hold(&mut self, client: u64, hold: &Hold) {
        if let Some(user) = self.sessions.remove_hold(client, hold) {
            self.users.untied(&user);
        }
    }

    /// A hold is not tied any more.
    pub fn untie(&mut self, lock: LockName<'_>, owner: &[u8], mode: Mode) {
        if !self.has_tied_holds(lock) {
            return;
        }
        let name = self.shared_name(lock);
        let removed = self.edit_known(lock, |record| {
            let ties = record.ties.as_deref_mut()?;
            let tie = ties.sessions.remove(&(Box::from(owner), mode));
            if ties.sessions.is_empty() {
                record.ties = None;
            }
            tie
        });
        if let Some(session) = removed.flatten() {
            self.remove_hold(session.client, &(name, owner.into(), mode));
        }
    }

    /// The owner has released some of its holds: it lives, whatever became of the connection of the tie.
    pub fn supersede_ended(&mut self, lock: LockName<'_>, owner: &[u8], mode: Mode) {
        if self.session(lock, owner, mode).is_some_and(|tie| self.sessions.has_ended(tie.client)) {
            self.untie(lock, owner, mode);
        }
    }
}

#[cfg(test)]
#[path = "ties_tests.rs"]
mod tests;
