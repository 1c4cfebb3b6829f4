//! What others learn of a turn at its end: keyspace events, and unlock messages to Redisson clients.

use crate::at::At;
use crate::decision::{Change, UnlockMessage};
use crate::fair;
use crate::locks::{Cause, LockName};
use crate::observed;
use crate::port::{Lock, Server};
use crate::turn::{Committed, Event, News, Turn};
#[cfg(debug_assertions)]
use crate::{types::Expiry, view::Need};

impl<P: Server> Turn<'_, '_, P> {
    /// Compares what the turn knows with another look.
    #[cfg(debug_assertions)]
    pub(crate) fn assert_knowledge(&mut self) {
        let Some(known) = self.known_view() else { return };
        let Ok(found) = self.look(None, Need::Own).map(|picture| *picture.view()) else { return };
        // The look itself may end a lease.
        if self.known_view().is_some()
            && known.key_end.later(Expiry::At(self.at.node.port.now())) == known.key_end
        {
            assert_eq!((found.kind, found.key_end), (known.kind, known.key_end), "what a turn knows");
        }
    }
}

impl<P: Server> At<'_, '_, P> {
    #[inline(never)]
    pub(crate) fn tell_all(&self, news: News<P::Performed>) {
        for event in news.events {
            match event {
                Event::Changed(change, committed) => self.raise(&change, committed),
                Event::Expired => self.lock.raise_expired(),
            }
        }
        for message in news.unlock_messages {
            self.publish(message);
        }
    }

    #[cold]
    fn raise(&self, change: &Change, committed: Committed<P::Performed>) {
        self.lock.raise(change, committed.performed);
        // The module does not receive its own events, and a client may wait for a lock that has the name of a lease key.
        for key in committed.deleted_leases {
            observed::key_changed(self.node, LockName { db: self.name().db, key: &key }, Cause::Deleted);
        }
    }

    /// Wakes waiting Redisson clients to try again: they learn another lease end.
    pub(crate) fn notify_redisson(&self, message: UnlockMessage) {
        self.locks(|locks, lock| locks.records.forget_announced_end(lock));
        self.publish(message);
    }

    /// Sends an unlock message. A fair list with entries may have entries of owners that are gone.
    fn publish(&self, message: UnlockMessage) {
        if self.lock.publish(message) {
            fair::list_met(self.node, self.name());
        }
    }

    /// Raises the events of a change at once, and sends its unlock message: the change was performed, and not committed with its turn.
    #[inline(always)]
    pub(crate) fn tell(&self, owner: Option<&[u8]>, change: &Change, performed: P::Performed) {
        // A turn of another module around this one may know the lock as it was.
        self.node.locks(|locks| locks.records.key_changed());
        // Before the lock is named, which asks for its database: a plain lock does without.
        if change.shared.is_none() {
            self.lock.raise(change, performed);
        } else {
            self.raise(change, self.committed(performed, owner, change));
        }
        if let Some(message) = change.unlock_message {
            self.publish(message);
        }
    }
}
