//! Grants on their way to their owners.

use super::{LockId, Queues, Ticket};
use crate::types::{Mode, UnixMs};

/// A grant whose answer has not reached its client yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The call that is being answered.
    pub ticket: Ticket,
    /// Who was granted the lock.
    pub owner: Box<[u8]>,
    /// In which way.
    pub mode: Mode,
    /// When the granted lease ends: a lease with another end is another lease.
    pub ends: UnixMs,
}

impl Queues {
    /// A lock was granted; the answer is on its way.
    pub fn granted(&mut self, lock: &LockId, grant: Grant) {
        let grants = self.unanswered.entry(lock.clone()).or_default();
        if grant.mode != Mode::Read {
            // A grant of the same lock before this one is over, or the lock could not have been granted.
            grants.clear();
        }
        grants.push_back(grant);
        self.take_unconfirmed(lock);
    }

    /// The owner was heard of, or the answer has arrived: the grant stands.
    pub fn settle(&mut self, lock: &LockId, owner: &[u8]) {
        self.take_unanswered(lock, |grant| *grant.owner == *owner);
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

    /// Whether a grant waits for the answer of this call to arrive, and its owner was not heard of.
    pub fn is_unanswered(&self, lock: &LockId, ticket: Ticket) -> bool {
        self.unanswered.get(lock).is_some_and(|grants| grants.iter().any(|grant| grant.ticket == ticket))
    }

    /// The answer of this call has arrived.
    pub fn answered(&mut self, lock: &LockId, ticket: Ticket) {
        self.take_unanswered(lock, |grant| grant.ticket == ticket);
    }

    /// The client went before the answer of this call: its grant, if it still stands open, is to be
    /// taken back.
    pub fn unanswerable(&mut self, lock: &LockId, ticket: Ticket) {
        let grant = self.take_unanswered(lock, |grant| grant.ticket == ticket);
        self.take_backs.extend(grant.map(|grant| (lock.clone(), grant)));
    }

    /// Takes the grants out that are meant, of one call or of one owner, and returns the last of them. Answers mostly arrive in the order of
    /// the grants, so that the first look finds them.
    fn take_unanswered(&mut self, lock: &LockId, meant: impl Fn(&Grant) -> bool) -> Option<Grant> {
        let grants = self.unanswered.get_mut(lock)?;
        let mut taken = None;
        // An owner has two at most: it reads and writes.
        while let Some(place) = grants.iter().position(&meant) {
            taken = grants.remove(place);
        }
        if grants.is_empty() {
            self.unanswered.remove(lock);
        }
        taken
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
