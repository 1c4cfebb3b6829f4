//! Grants that their owners have not received yet.

use super::{LockId, Queues, Ticket};
use crate::types::{Mode, UnixMs};

/// A grant whose answer has not reached its client yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The granted call.
    pub ticket: Ticket,
    /// The owner that was granted the lock.
    pub owner: Box<[u8]>,
    /// The mode of the grant.
    pub mode: Mode,
    /// The end of the granted lease: a lease with another end is another lease.
    pub ends: UnixMs,
}

impl Queues {
    /// A lock was granted, and its answer is pending.
    pub fn granted(&mut self, lock: &LockId, grant: Grant) {
        let grants = self.undelivered.entry(lock.clone()).or_default();
        if grant.mode != Mode::Read {
            // A grant of the same lock before this one is over, or the lock could not have been granted.
            grants.clear();
        }
        grants.push_back(grant);
        self.take_unconfirmed(lock);
    }

    /// The owner has called again, or the answer has arrived: the grant is confirmed.
    pub fn confirm(&mut self, lock: &LockId, owner: &[u8]) {
        self.take_undelivered(lock, |grant| *grant.owner == *owner);
        self.revokes.retain(|(other, grant)| other != lock || *grant.owner != *owner);
        if let Some(queue) = self.locks.get_mut(lock) {
            queue.unconfirmed.take_if(|by| **by == *owner);
        }
    }

    /// A lock was granted to an enqueued waiter, which must confirm the grant before lease end.
    pub fn note_unconfirmed(&mut self, lock: &LockId, owner: &[u8]) {
        if let Some(queue) = self.locks.get_mut(lock) {
            queue.unconfirmed = Some(owner.into());
        }
    }

    /// Ends the unconfirmed grant to an enqueued waiter; true if the lock had one.
    pub fn take_unconfirmed(&mut self, lock: &LockId) -> bool {
        self.locks.get_mut(lock).is_some_and(|queue| queue.unconfirmed.take().is_some())
    }

    /// Whether the answer of this call is still pending, and its owner has not confirmed the grant.
    pub fn is_undelivered(&self, lock: &LockId, ticket: Ticket) -> bool {
        self.undelivered.get(lock).is_some_and(|grants| grants.iter().any(|grant| grant.ticket == ticket))
    }

    /// The answer of this call has arrived.
    pub fn answered(&mut self, lock: &LockId, ticket: Ticket) {
        self.take_undelivered(lock, |grant| grant.ticket == ticket);
    }

    /// The client disconnected before the answer of this call: its grant, if still unconfirmed, must be revoked.
    pub fn undeliverable(&mut self, lock: &LockId, ticket: Ticket) {
        let grant = self.take_undelivered(lock, |grant| grant.ticket == ticket);
        self.revokes.extend(grant.map(|grant| (lock.clone(), grant)));
    }

    /// Takes the grants out that are meant, of one call or of one owner, and returns the last of them. Answers mostly arrive in the order of
    /// the grants, so that the first look finds them.
    fn take_undelivered(&mut self, lock: &LockId, meant: impl Fn(&Grant) -> bool) -> Option<Grant> {
        let grants = self.undelivered.get_mut(lock)?;
        let mut taken = None;
        // An owner has two at most: it reads and writes.
        while let Some(place) = grants.iter().position(&meant) {
            taken = grants.remove(place);
        }
        if grants.is_empty() {
            self.undelivered.remove(lock);
        }
        taken
    }

    /// A grant cannot be revoked now; it stays the next one.
    pub fn revoke_later(&mut self, lock: LockId, grant: Grant) {
        self.revokes.push_front((lock, grant));
    }

    /// The next grant to revoke.
    pub fn next_revoke(&mut self) -> Option<(LockId, Grant)> {
        self.revokes.pop_front()
    }
}
