//! Grants on their way to their owners.

use super::{LockId, Queues, Ticket};
use crate::types::UnixMs;

/// A grant whose answer has not reached its client yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The call that is being answered.
    pub ticket: Ticket,
    /// Who was granted the lock.
    pub owner: Box<[u8]>,
    /// When the granted lease ends: a lease with another end is another lease.
    pub ends: UnixMs,
}

impl Queues {
    /// A lock was granted; the answer is on its way.
    pub fn granted(&mut self, lock: &LockId, grant: Grant) {
        // A grant of the same lock before this one is over, or the lock could not have been granted.
        self.unanswered.insert(lock.clone(), grant);
        self.take_unconfirmed(lock);
    }

    /// The owner was heard of, or the answer has arrived: the grant stands.
    pub fn settle(&mut self, lock: &LockId, owner: &[u8]) {
        if self.unanswered.get(lock).is_some_and(|grant| *grant.owner == *owner) {
            self.unanswered.remove(lock);
        }
        self.take_backs.retain(|(other, grant)| other != lock || *grant.owner != *owner);
        if let Some(queue) = self.locks.get_mut(lock) {
            queue.unconfirmed.take_if(|by| **by == *owner);
        }
    }

    /// A lock was granted by a message, which is to be confirmed until the lease ends.
    pub fn granted_by_message(&mut self, lock: &LockId, owner: &[u8]) {
        if let Some(queue) = self.locks.get_mut(lock) {
            queue.unconfirmed = Some(owner.into());
        }
    }

    /// Whether a grant by message was in force up to now that nobody confirmed. It is over.
    pub fn take_unconfirmed(&mut self, lock: &LockId) -> bool {
        self.locks.get_mut(lock).is_some_and(|queue| queue.unconfirmed.take().is_some())
    }

    /// The answer of this call has arrived.
    pub fn answered(&mut self, lock: &LockId, ticket: Ticket) {
        if self.unanswered.get(lock).is_some_and(|grant| grant.ticket == ticket) {
            self.unanswered.remove(lock);
        }
    }

    /// The client went before the answer of this call: its grant, if it still stands open, is to be
    /// taken back.
    pub fn unanswerable(&mut self, lock: &LockId, ticket: Ticket) {
        if self.unanswered.get(lock).is_some_and(|grant| grant.ticket == ticket) {
            let grant = self.unanswered.remove(lock);
            self.take_backs.extend(grant.map(|grant| (lock.clone(), grant)));
        }
    }

    /// A grant cannot be taken back now; it is the next one still.
    pub fn take_back_later(&mut self, lock: LockId, grant: Grant) {
        self.take_backs.push_front((lock, grant));
    }

    /// The next grant to take back.
    pub fn next_take_back(&mut self) -> Option<(LockId, Grant)> {
        self.take_backs.pop_front()
    }
}
