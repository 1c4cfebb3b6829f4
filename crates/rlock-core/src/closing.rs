//! The end of a turn: the next check, and then what others learn of it.

use crate::decision::{Change, UnlockMessage};
use crate::fair;
use crate::locks::{Cause, LockName};
use crate::node::Node;
use crate::observed;
use crate::port::{Lock, Server};
use crate::turn::{Committed, Event, News, Turn};
#[cfg(debug_assertions)]
use crate::{look::look, types::Expiry, view::Need};

impl<P: Server> Turn<'_, P> {
    /// Sets the next check of the queue, and then tells the others what has happened.
    #[inline(always)]
    pub(crate) fn close(&mut self, lock: &mut P::Lock<'_>) {
        if self.needs_check {
            self.schedule_next_check(lock);
        }
        #[cfg(debug_assertions)]
        self.assert_knowledge(lock);
        if let Some(news) = self.news.take() {
            tell_all(self.node, lock, *news);
        }
    }

    /// Compares what the turn knows with another look.
    #[cfg(debug_assertions)]
    fn assert_knowledge(&self, lock: &mut P::Lock<'_>) {
        let Some(known) = self.known_view() else { return };
        let Ok(picture) = look(self.node, lock, None, Need::Own) else { return };
        let found = *picture.view();
        // The look itself may end a lease.
        if self.known_view().is_some()
            && known.key_end.later(Expiry::At(self.node.port.now())) == known.key_end
        {
            assert_eq!((found.kind, found.key_end), (known.kind, known.key_end), "what a turn knows");
        }
    }
}

#[inline(never)]
fn tell_all<P: Server>(node: Node<'_, P>, lock: &P::Lock<'_>, news: News<P::Performed>) {
    for event in news.events {
        match event {
            Event::Changed(change, committed) => raise(node, lock, &change, committed),
            Event::Expired => lock.raise_expired(),
        }
    }
    for message in news.unlock_messages {
        publish(node, lock, message);
    }
}

#[cold]
fn raise<P: Server>(
    node: Node<'_, P>,
    lock: &P::Lock<'_>,
    change: &Change,
    committed: Committed<P::Performed>,
) {
    lock.raise(change, committed.performed);
    // The module does not receive its own events, and a client may wait for a lock that has the name of a lease key.
    for key in committed.deleted_leases {
        observed::key_changed(node, LockName { db: lock.name().db, key: &key }, Cause::Deleted);
    }
}

/// Wakes waiting Redisson clients to try again: they learn another lease end.
pub(crate) fn notify_redisson<P: Server>(node: Node<'_, P>, lock: &P::Lock<'_>, message: UnlockMessage) {
    node.locks(|locks| locks.records.forget_announced_end(lock.name()));
    publish(node, lock, message);
}

/// Sends an unlock message. A fair list with entries may have some of owners that are gone.
fn publish<P: Server>(node: Node<'_, P>, lock: &P::Lock<'_>, message: UnlockMessage) {
    if lock.publish(message) {
        fair::list_met(node, lock.name());
    }
}

/// Tells others of a change that was made outside a turn.
#[inline(always)]
pub(crate) fn tell<P: Server>(
    node: Node<'_, P>,
    lock: &P::Lock<'_>,
    owner: Option<&[u8]>,
    change: &Change,
    performed: P::Performed,
) {
    // A turn of another module around this one may know the lock as it was.
    node.locks(|locks| locks.records.key_changed());
    // Before the lock is named, which asks for its database: a plain lock does without.
    if change.shared.is_none() {
        lock.raise(change, performed);
    } else {
        raise(node, lock, change, Committed::of(performed, node, lock.name(), owner, change));
    }
    if let Some(message) = change.unlock_message {
        publish(node, lock, message);
    }
}
