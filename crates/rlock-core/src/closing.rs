//! The end of a turn: the next check, and then what others learn of it.

use crate::decision::{Change, UnlockMessage};
use crate::error::Error;
use crate::fair;
use crate::locks::{Cause, LockName};
use crate::look::Picture;
use crate::node::Node;
use crate::observed;
use crate::port::{Lock, Server};
use crate::turn::{Committed, Event, News, Turn};

impl<P: Server> Turn<'_, P> {
    /// Sets the next check of the queue, and then tells the others what has happened.
    #[inline(always)]
    pub(crate) fn close(&mut self, lock: &mut P::Lock<'_>) {
        if self.needs_check {
            self.schedule_next_check(lock);
        }
        if let Some(news) = self.news.take() {
            tell(self.node, lock, *news);
        }
    }
}

#[inline(never)]
fn tell<P: Server>(node: Node<'_, P>, lock: &P::Lock<'_>, news: News<P::Performed>) {
    for (channel, message) in news.messages {
        node.port.tell(&channel, &message);
    }
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
    node.locks(|locks| locks.forget_announced_end(lock.name()));
    publish(node, lock, message);
}

/// Sends an unlock message. A fair list with entries may have some of owners that are gone.
fn publish<P: Server>(node: Node<'_, P>, lock: &P::Lock<'_>, message: UnlockMessage) {
    if lock.publish(message) {
        fair::list_met(node, lock.name());
    }
}

/// Commits a change of a lock without waiters, and tells others of it.
#[inline(always)]
pub(crate) fn commit_and_tell<'l, 'n, P: Server>(
    node: Node<'_, P>,
    picture: Picture<'l, P::Lock<'n>>,
    change: &Change,
) -> Result<&'l mut P::Lock<'n>, Error> {
    let owner = picture.owner();
    let (lock, performed) = picture.commit(change)?;
    if let Some(performed) = performed {
        // Before the lock is named, which asks for its database: a plain lock does without.
        if change.shared.is_none() {
            lock.raise(change, performed);
        } else {
            raise(node, lock, change, Committed::of(performed, lock.name(), owner, change));
        }
        if let Some(message) = change.unlock_message {
            publish(node, lock, message);
        }
    }
    Ok(lock)
}
