//! Holds and waits that end with a connection: the index by connection of all ties.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::ops::Bound;

use super::forgotten::Forgotten;
use super::ties::{Hold, Ties};
use super::{Call, Databases, LockName, LockRef, Session, Ticket, Tie, User, Via, Waiter};
use crate::types::{Mode, UnixMs};

/// How many rounds of the sweep are hurried after a tie was refused. The first one is under way, and only the second checks every tie.
const HURRIED_ROUNDS: u8 = 2;

/// All ties, by connection. Holds that were tied and untied have entries too, until they end.
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    /// The tied holds, each with the user for which it counts. An entry is stale while its tie is in `untied`, unless the same
    /// hold is tied to the connection again.
    pub(super) holds: BTreeMap<u64, BTreeMap<Hold, Option<User>>>,
    /// The ties of locks whose holds all ended at one moment: `holds` may still have their entries.
    pub(super) untied: Vec<(LockRef, Ties)>,
    /// The tied enqueued waiters; a blocked waiter leaves when its client disconnects.
    waits: BTreeMap<u64, BTreeSet<Ticket>>,
    /// How many entries `holds` has, and how many waiters are tied.
    count: usize,
    /// The connections that have ended, and still have holds or waiters.
    pub(super) ended_holds: BTreeSet<u64>,
    pub(super) ended_waits: BTreeSet<u64>,
    /// The server refuses writes: holds are shortened after the next beat.
    pub(super) is_parked: bool,
    /// When the shortened leases end of locks that may have waiting Redisson clients.
    pub(super) ends: BTreeMap<LockRef, (UnixMs, Mode)>,
    by_end: BTreeSet<(UnixMs, LockRef)>,
    /// How often the keys of databases were replaced.
    replaced: u64,
    /// The number in `replaced` when the keys of all databases were last replaced.
    all_replaced: u64,
    /// The number in `replaced` when the keys of one database were last replaced. The larger of both is the database's generation.
    one_replaced: BTreeMap<i32, u64>,
    /// The rounds of the sweep that are hurried, since a tie was refused.
    hurried_rounds: u8,
    /// Where the sweep continues.
    swept_up_to: Option<(u64, Hold)>,
    /// Data that does not count any more, but is still in memory.
    pub(super) forgotten: Forgotten,
}

impl Sessions {
    /// Whether anything is tied to this connection.
    pub fn has_session(&self, client: u64) -> bool {
        self.holds.contains_key(&client) || self.waits.contains_key(&client)
    }

    /// Whether anything is tied.
    pub fn has_ties(&self) -> bool {
        self.count > 0
    }

    /// How many ties there are, of holds and of waiters.
    pub fn tie_count(&self) -> usize {
        self.count
    }

    pub(super) fn has_ended(&self, client: u64) -> bool {
        self.ended_holds.contains(&client) || self.ended_waits.contains(&client)
    }

    /// The generation of ties in this database.
    pub(super) fn generation(&self, db: i32) -> u64 {
        self.all_replaced.max(self.one_replaced.get(&db).copied().unwrap_or(0))
    }

    /// Whether these ties of a lock in this database count.
    pub(super) fn counts(&self, db: i32, ties: &Ties) -> bool {
        ties.generation == self.generation(db)
    }

    /// Adds an entry; returns the user for which an earlier entry of the same hold counted.
    pub(super) fn add_hold(&mut self, client: u64, entry: Hold, user: Option<User>) -> Option<User> {
        let before = self.holds.entry(client).or_default().insert(entry, user);
        if before.is_none() {
            self.count = self.count.saturating_add(1);
        }
        before.flatten()
    }

    /// Removes an entry; returns the user for which it counted.
    pub(super) fn remove_hold(&mut self, client: u64, entry: &Hold) -> Option<User> {
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

    /// Frees the memory of what was forgotten: `most` of each kind.
    pub(super) fn free_forgotten(&mut self, most: usize) {
        self.forgotten.free(most);
    }
}

/// What follows from the calls of owners.
impl Sessions {
    /// The tie after a grant, or after a call that succeeded.
    pub(super) fn tied_after(before: Option<Tie>, call: Call) -> Option<Tie> {
        let stays = |tie: &Tie| call.grace.is_some() && tie.has_left(call.client);
        before.filter(stays).or_else(|| Tie::after(before, call))
    }

    /// Whether the hold is tied to a connection that has ended.
    pub(super) fn is_over(&self, tie: Tie) -> bool {
        tie.session().is_some_and(|session| self.has_ended(session.client))
    }

    /// The user for which the tie of a hold counts.
    pub(super) fn user_of(&self, client: u64, hold: &Hold) -> Option<User> {
        self.holds.get(&client)?.get(hold)?.clone()
    }

    /// Hurries the sweep after a tie was refused, since some ties may be those of holds that have ended.
    pub(super) fn hurry_sweep(&mut self) {
        self.hurried_rounds = HURRIED_ROUNDS;
    }

    /// Whether a tie was refused since the sweep last checked every tie.
    pub fn hurries_sweep(&self) -> bool {
        self.hurried_rounds > 0
    }

    /// The next tied hold that the sweep checks; `None` at the end of a round. One hold at a time, since a lock may have very many.
    pub(crate) fn next_swept_tie(&mut self) -> Option<Hold> {
        let after = self.swept_up_to.take();
        let mut clients = self.holds.range(after.as_ref().map_or(0, |(client, _)| *client)..);
        let next = clients.find_map(|(client, holds)| {
            let last = after.as_ref().filter(|(last, _)| last == client);
            let from = last.map_or(Bound::Unbounded, |(_, hold)| Bound::Excluded(hold));
            let (hold, _) = holds.range((from, Bound::Unbounded)).next()?;
            Some((*client, hold.clone()))
        });
        if next.is_none() {
            self.hurried_rounds = self.hurried_rounds.saturating_sub(1);
        }
        self.swept_up_to.clone_from(&next);
        next.map(|(_, hold)| hold)
    }
}

/// Connections that have ended.
impl Sessions {
    /// A connection has ended. This only notes it.
    pub(super) fn note_ended(&mut self, client: u64) {
        if self.holds.contains_key(&client) {
            self.ended_holds.insert(client);
        }
        if self.waits.contains_key(&client) {
            self.ended_waits.insert(client);
        }
    }

    /// A hold was tied to this connection, which may have ended before. Returns whether it has.
    pub(super) fn note_tied(&mut self, client: u64) -> bool {
        let has_ended = self.has_ended(client);
        if has_ended {
            // A grant to a waiter whose connection has ended.
            self.ended_holds.insert(client);
        }
        has_ended
    }

    /// The next enqueued waiter whose connection has ended.
    pub(super) fn next_ended_wait(&self) -> Option<Ticket> {
        let mut ended = self.ended_waits.iter().filter_map(|client| self.waits.get(client)).flatten();
        ended.next().copied()
    }

    /// The next entry of a hold whose connection has ended.
    pub(super) fn next_ended_hold(&mut self) -> Option<(u64, Hold)> {
        loop {
            let client = *self.ended_holds.first()?;
            if let Some(hold) = self.holds.get(&client).and_then(|holds| holds.keys().next()) {
                return Some((client, hold.clone()));
            }
            self.ended_holds.remove(&client);
        }
    }

    /// The server refuses writes: sessions end after the next beat.
    pub(super) fn park(&mut self) {
        self.is_parked = !self.ended_holds.is_empty();
    }

    /// Sessions that were parked end now; false if none were.
    pub(super) fn unpark(&mut self) -> bool {
        take(&mut self.is_parked)
    }
}

/// Ties that end together.
impl Sessions {
    /// The holds of this lock are not tied any more.
    pub(super) fn add_untied(&mut self, lock: LockRef, ties: Ties) {
        self.untied.push((lock, ties));
    }

    /// Whether ties are still to be freed.
    pub(super) fn has_untied(&self) -> bool {
        !self.untied.is_empty()
    }

    /// The next tie to be freed, which it is with this call.
    pub(super) fn next_untied(&mut self) -> Option<(u64, Hold)> {
        loop {
            let (lock, ties) = self.untied.last_mut()?;
            let (lock, next) = (lock.clone(), ties.holds.pop_first());
            if ties.holds.is_empty() {
                self.untied.pop();
            }
            if let Some(((owner, mode), tie)) = next {
                return Some((tie.indexed_by(), (lock, owner, mode)));
            }
        }
    }

    /// The keys of databases were replaced without an event for each: their ties do not count any more.
    pub fn void_ties(&mut self, databases: Databases) {
        self.replaced = self.replaced.saturating_add(1);
        match databases {
            Databases::All => self.all_replaced = self.replaced,
            Databases::One(db) => drop(self.one_replaced.insert(db, self.replaced)),
        }
    }
}

/// Shortened leases, whose ends waiting Redisson clients do not know.
impl Sessions {
    /// A shortened lease ends at this time.
    pub(super) fn watch_end(&mut self, lock: LockRef, at: UnixMs, mode: Mode) {
        self.ends.insert(lock.clone(), (at, mode));
        self.by_end.insert((at, lock));
    }

    /// Makes the end of a shortened lease due now. Returns whether the end is watched.
    pub(super) fn make_end_due(&mut self, lock: LockRef, now: UnixMs) -> bool {
        let Some((at, mode)) = self.ends.get(&lock).copied() else { return false };
        self.by_end.remove(&(at, lock.clone()));
        self.watch_end(lock, now, mode);
        true
    }

    /// Whether the end of a shortened lease of this lock is watched.
    pub fn knows_end(&self, lock: LockName<'_>) -> bool {
        self.knows_ends() && self.ends.contains_key(&lock.to_ref())
    }

    /// Whether the end of any shortened lease is watched.
    pub fn knows_ends(&self) -> bool {
        !self.ends.is_empty()
    }

    /// The end of a lock's lease is not watched any more; false if it was not.
    pub(super) fn forget_end(&mut self, lock: LockName<'_>) -> bool {
        if self.ends.is_empty() {
            return false;
        }
        let name = lock.to_ref();
        let Some((at, _)) = self.ends.remove(&name) else { return false };
        self.by_end.remove(&(at, name));
        true
    }

    /// Takes a lock whose shortened lease has ended.
    pub fn next_end(&mut self, now: UnixMs) -> Option<(LockRef, Mode)> {
        let (at, _) = self.by_end.first()?;
        if *at > now {
            return None;
        }
        let (_, lock) = self.by_end.pop_first()?;
        let (_, mode) = self.ends.remove(&lock)?;
        Some((lock, mode))
    }
}
