//! Connections that have ended: their holds and waiters, and the shortened leases whose ends are still to announce.

use std::iter::from_fn;
use std::ops::Bound;

use super::ties::{EndedTie, Hold, Sessions};
use super::{Job, LockName, LockRef, Locks, Waiter};
use crate::types::{Mode, UnixMs};
use crate::weight::take_weighed;

impl Locks {
    /// Whether anything is tied to this connection.
    pub fn has_session(&self, client: u64) -> bool {
        self.sessions.holds.contains_key(&client) || self.sessions.waits.contains_key(&client)
    }

    /// Whether anything is tied.
    pub fn has_ties(&self) -> bool {
        self.sessions.count > 0
    }

    /// How many ties there are, of holds and of waiters.
    pub fn tie_count(&self) -> usize {
        self.sessions.count
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

    /// Removes enqueued waiters whose connections have ended, until they count `most`.
    pub fn next_ended_waiters(&mut self, most: usize) -> Vec<(LockRef, Waiter)> {
        let next = || {
            let Sessions { ended_waits, waits, .. } = &self.sessions;
            let ticket = ended_waits.iter().filter_map(|client| waits.get(client)).flatten().next().copied();
            self.leave(ticket?)
        };
        take_weighed(most, from_fn(next)).items
    }

    /// A tie whose connection has ended; the same one until [`Self::tie_has_ended`]. Grants are revoked before that.
    pub fn next_ended_tie(&mut self) -> Option<EndedTie> {
        if self.agenda.has(Job::Revoke) {
            return None;
        }
        loop {
            let client = *self.sessions.ended_holds.first()?;
            let Some(hold) = self.sessions.holds.get(&client).and_then(|holds| holds.keys().next()) else {
                self.sessions.ended_holds.remove(&client);
                continue;
            };
            let (lock, owner, mode) = hold.clone();
            let session = self.session(lock.name(), &owner, mode).filter(|tie| tie.client == client);
            return Some(EndedTie { client, lock, owner, mode, grace: session.map(|tie| tie.grace) });
        }
    }

    /// The end of a connection has had its effect on a hold, which may be tied to another one by now.
    pub fn tie_has_ended(&mut self, EndedTie { client, lock, owner, mode, .. }: EndedTie) {
        let hold = (lock, owner, mode);
        if self.is_tied_to(client, &hold) {
            self.untie(hold.0.name(), &hold.1, mode);
        } else {
            self.remove_hold(client, &hold);
        }
    }

    /// The server refuses writes: sessions end after the next beat. This arms no timer.
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

    /// Makes the end of a shortened lease due now, since an event says that it has come. Returns whether the end is watched.
    pub fn make_end_due(&mut self, lock: LockName<'_>, now: UnixMs) -> bool {
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

    pub(super) fn forget_end(&mut self, lock: LockName<'_>) {
        if self.sessions.ends.is_empty() {
            return;
        }
        let name = lock.to_ref();
        if let Some((at, _)) = self.sessions.ends.remove(&name) {
            self.sessions.by_end.remove(&(at, name));
            self.agenda.change();
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

    /// The next tied hold of the sweep, as a lock may have very many; `None` at the end of a round.
    pub fn next_swept_tie(&mut self) -> Option<Hold> {
        let after = self.sessions.swept_up_to.take();
        let mut clients = self.sessions.holds.range(after.as_ref().map_or(0, |(client, _)| *client)..);
        let next = clients.find_map(|(client, holds)| {
            let last = after.as_ref().filter(|(last, _)| last == client);
            let from = last.map_or(Bound::Unbounded, |(_, hold)| Bound::Excluded(hold));
            let (hold, _) = holds.range((from, Bound::Unbounded)).next()?;
            Some((*client, hold.clone()))
        });
        if next.is_none() {
            self.sessions.hurried_rounds = self.sessions.hurried_rounds.saturating_sub(1);
        }
        self.sessions.swept_up_to.clone_from(&next);
        next.map(|(_, hold)| hold)
    }

    /// Whether a tie was refused since the sweep last came to every tie.
    pub fn hurries_sweep(&self) -> bool {
        self.sessions.hurried_rounds > 0
    }
}
