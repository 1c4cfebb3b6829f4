//! Grants that their owners have not received yet.

use std::mem::take;

use super::records::Records;
use super::undelivered::Undelivered;
use super::{Grant, Job, LockName, LockRef, Locks, Ticket};
use crate::types::Mode;

impl Records {
    /// A lock was granted to an enqueued waiter, which must confirm the grant before lease end.
    pub fn note_unconfirmed(&mut self, lock: LockName<'_>, owner: &[u8]) {
        if let Some(queue) = self.queue_mut(lock) {
            queue.unconfirmed = Some(owner.into());
        }
    }

    /// Ends the unconfirmed grant to an enqueued waiter; true if the lock had one.
    pub fn take_unconfirmed(&mut self, lock: LockName<'_>) -> bool {
        self.queue_mut(lock).is_some_and(|queue| queue.unconfirmed.take().is_some())
    }

    fn remove_grant(&mut self, lock: LockName<'_>, meant: impl Fn(&Grant) -> bool) -> Option<Grant> {
        self.edit_known(lock, |record| record.grants.take(meant))?
    }
}

impl Locks {
    /// A lock was granted, and its answer is pending.
    pub fn granted(&mut self, lock: LockName<'_>, grant: Grant) {
        let ticket = grant.ticket;
        let (over, name) = self.records.edit(lock, |record| {
            // A grant of the same lock before this one is over, or the lock could not have been granted.
            let shared = matches!(grant.mode, Mode::Read | Mode::Permit);
            let over = if shared { Undelivered::None } else { take(&mut record.grants) };
            record.grants.push(grant);
            if let Some(queue) = &mut record.queue {
                queue.unconfirmed = None;
            }
            (over, record.name(lock.db))
        });
        for grant in over.iter() {
            self.calls.confirmed(grant.ticket);
        }
        self.calls.granted(ticket, name);
    }

    /// The owner has called again, or the answer has arrived: the grant is confirmed.
    pub fn confirm(&mut self, lock: LockName<'_>, owner: &[u8]) {
        let Some(record) = self.records.get_mut(lock) else { return };
        if let Some(queue) = &mut record.queue {
            queue.unconfirmed.take_if(|by| **by == *owner);
        }
        let revokes = record.rare().is_some_and(|rare| !rare.revokes.is_empty());
        if !record.grants.is_empty() {
            self.take_undelivered(lock, |grant| *grant.owner == *owner);
        }
        if revokes {
            self.confirm_revokes(lock, owner);
        }
    }

    /// The grants of this owner are not to be revoked.
    fn confirm_revokes(&mut self, lock: LockName<'_>, owner: &[u8]) {
        let none_left = self.records.edit_known(lock, |record| {
            let revokes = &mut record.rare_mut().revokes;
            revokes.retain(|grant| *grant.owner != *owner);
            revokes.is_empty().then(|| record.name(lock.db))
        });
        if let Some(name) = none_left.flatten() {
            self.agenda.remove(Job::Revoke, &name);
        }
    }

    /// The answer of this call has arrived.
    pub fn answered(&mut self, ticket: Ticket) {
        self.take_grant(ticket);
    }

    /// The client disconnected before the answer of this call: its grant, if still unconfirmed, must be revoked.
    pub fn undeliverable(&mut self, ticket: Ticket) {
        if let Some((lock, grant)) = self.take_grant(ticket) {
            self.records.edit(lock.name(), |record| record.rare_mut().revokes.push_back(grant));
            self.note_revokes(lock);
        }
    }

    fn take_grant(&mut self, ticket: Ticket) -> Option<(LockRef, Grant)> {
        let lock = self.calls.undelivered(ticket)?.clone();
        let grant = self.take_undelivered(lock.name(), |grant| grant.ticket == ticket)?;
        Some((lock, grant))
    }

    /// Removes the grants that `meant` accepts, of one call or of one owner, and returns the last of them. Answers mostly arrive in the
    /// order of the grants, so that the first look finds them.
    fn take_undelivered(&mut self, lock: LockName<'_>, meant: impl Fn(&Grant) -> bool) -> Option<Grant> {
        if !self.calls.has_undelivered() {
            return None;
        }
        let mut taken = None;
        // An owner has two at most: it reads and writes.
        while let Some(grant) = self.records.remove_grant(lock, &meant) {
            self.calls.confirmed(grant.ticket);
            taken = Some(grant);
        }
        taken
    }

    /// A grant cannot be revoked now; it stays the next one of its lock.
    pub fn revoke_later(&mut self, lock: LockRef, grant: Grant) {
        self.records.edit(lock.name(), |record| record.rare_mut().revokes.push_front(grant));
        self.note_revokes(lock);
    }

    /// A lock has grants to revoke: a replica does that if it is promoted before it has other data.
    fn note_revokes(&mut self, lock: LockRef) {
        if self.role.is_replica() {
            self.agenda.park(Job::Revoke, lock);
        } else {
            self.agenda.push(Job::Revoke, lock);
        }
    }

    /// The next grant to revoke.
    pub fn next_revoke(&mut self) -> Option<(LockRef, Grant)> {
        let lock = self.agenda.next(Job::Revoke)?;
        let next = self.records.edit_known(lock.name(), |record| {
            let revokes = &mut record.rare_mut().revokes;
            (revokes.pop_front(), revokes.is_empty())
        });
        let (grant, is_last) = next.unwrap_or((None, true));
        if is_last {
            self.agenda.remove(Job::Revoke, &lock);
        }
        Some((lock, grant?))
    }
}
