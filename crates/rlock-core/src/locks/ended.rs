//! Connections that have ended: their holds and waiters, and the shortened leases whose ends are still to announce.

use std::iter::from_fn;

use super::{EndedTie, Job, LockName, LockRef, Locks, Waiter};
use crate::types::{Mode, UnixMs};
use crate::weight::take_weighed;

impl Locks {
    /// A connection has ended. This only notes it.
    pub fn session_ended(&mut self, client: u64) {
        self.sessions.note_ended(client);
        self.agenda.change();
    }

    /// Removes enqueued waiters whose connections have ended, up to a weight of `most`.
    pub fn next_ended_waiters(&mut self, most: usize) -> Vec<(LockRef, Waiter)> {
        let next = || self.sessions.next_ended_wait().and_then(|ticket| self.leave(ticket));
        take_weighed(most, from_fn(next)).items
    }

    /// A tie whose connection has ended; the same one until [`Self::tie_has_ended`]. Grants are revoked before that.
    pub fn next_ended_tie(&mut self) -> Option<EndedTie> {
        if self.agenda.has(Job::Revoke) {
            return None;
        }
        let (client, (lock, owner, mode)) = self.sessions.next_ended_hold()?;
        let session = self.session(lock.name(), &owner, mode).filter(|tie| tie.client == client);
        Some(EndedTie { client, lock, owner, mode, grace: session.map(|tie| tie.grace) })
    }

    /// Notes that the end of a connection has had its effect on a hold, which may be tied to another connection by now.
    pub fn tie_has_ended(&mut self, EndedTie { client, lock, owner, mode, .. }: EndedTie) {
        let hold = (lock, owner, mode);
        if self.is_indexed_by(client, &hold) {
            self.end_tie(hold.0.name(), &hold.1, mode);
        } else {
            self.remove_hold(client, &hold);
        }
    }

    /// The server refuses writes: sessions end after the next heartbeat. This arms no timer.
    pub fn park_sessions(&mut self) {
        self.sessions.park();
        self.agenda.change();
    }

    /// Sessions that were parked end now.
    pub fn unpark_sessions(&mut self) {
        if self.sessions.unpark() {
            self.agenda.change();
        }
    }

    /// Watches the end of a shortened lease, which waiting Redisson clients do not know.
    pub fn watch_end(&mut self, lock: LockName<'_>, at: UnixMs, mode: Mode) {
        self.sessions.forget_end(lock);
        let (name, at) = (self.records.shared_name(lock), UnixMs(at.0.saturating_add(1)));
        self.sessions.watch_end(name, at, mode);
        self.agenda.change();
    }

    /// Makes the end of a shortened lease due now, because of an event. Returns whether the end is watched.
    pub fn make_end_due(&mut self, lock: LockName<'_>, now: UnixMs) -> bool {
        let is_watched = self.sessions.make_end_due(lock.to_ref(), now);
        if is_watched {
            self.agenda.change();
        }
        is_watched
    }
}
