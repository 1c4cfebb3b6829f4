//! Departures from the queues without a grant: waits time out, clients disconnect, servers are demoted.

use crate::at::At;
use crate::decision::Reply;
use crate::error::Error;
use crate::locks::{DropReason, LockRef, Locks, Ticket, Via, Waiter};
use crate::message;
use crate::node::Node;
use crate::note::Note;
use crate::port::Server;
use crate::timing::entry;

/// The client of a blocked, or unblocked but undelivered, call has disconnected. Nothing is written: a grant is marked to
/// be revoked.
pub fn client_disconnected<P: Server>(node: Node<'_, P>, ticket: Ticket) {
    let _entry = entry(node);
    if node.locks(|locks| locks.leave(ticket)).is_some() {
        node.port.note(Note::Gone(1));
        // Only an answer makes the server free what it keeps for the client.
        node.port.answer(ticket, Ok(Reply::Denied));
    }
    node.locks(|locks| locks.undeliverable(ticket));
}

/// Removes all waiters from all queues at once and notifies them of the reason. This is for a panic: the queues may be
/// inconsistent, so no waiter may stay in them.
pub fn drop_all_now<P: Server>(node: Node<'_, P>, why: DropReason) {
    let _entry = entry(node);
    let all = node.locks(Locks::drain_all_but_fair_lists);
    drop_waiters(node, all, why);
}

/// The server is a replica now: it grants nothing, revokes nothing until it is promoted, and sends all waiters away.
pub fn demoted<P: Server>(node: Node<'_, P>) {
    let _entry = entry(node);
    node.locks(|locks| {
        locks.demoted();
        locks.drop_waiters(DropReason::Demoted);
    });
    continue_dropping(node);
}

/// The server is the primary again, and does what it deferred as a replica. After that, a client that was answered
/// `UNBLOCKED` holds nothing, even if it was granted a lock before, and has no entry in a fair list.
pub fn promoted<P: Server>(node: Node<'_, P>) {
    let _entry = entry(node);
    let clock = node.port.clock();
    node.locks(|locks| {
        locks.promoted();
        locks.role.data_arrived(clock);
    });
}

/// The server has the data of another primary, from the start or from where its own ended. Grants and fair lists belong
/// to that primary, also those whose work this server deferred.
pub fn synchronised<P: Server>(node: Node<'_, P>) {
    let _entry = entry(node);
    node.locks(Locks::synchronised);
}

/// Sends all waiters away. All other work continues: pending grants are confirmed or revoked, and waiters that departed
/// are removed from the fair lists.
pub fn drain<P: Server>(node: Node<'_, P>) {
    let _entry = entry(node);
    node.locks(|locks| locks.drop_waiters(DropReason::Drained));
    continue_dropping(node);
}

/// Takes the next few of the dropped waiters out of their queues. The others wait for a later call: a grant in between
/// does no harm.
pub(crate) fn continue_dropping<P: Server>(node: Node<'_, P>) {
    let most = node.port.settings().at_once.ended;
    let (gone, why) = node.locks(|locks| locks.next_dropped(most));
    if let Some(why) = why {
        drop_waiters(node, gone, why);
    }
}

/// Notifies waiters that were taken out of their queues of the reason.
pub(crate) fn drop_waiters<P: Server>(node: Node<'_, P>, waiters: Vec<(LockRef, Waiter)>, why: DropReason) {
    for (lock, waiter) in waiters {
        node.port.note(Note::SentAway);
        match &waiter.via {
            Via::Block => node.port.answer(waiter.ticket, Err(Error::Unblocked(why.sentence()))),
            Via::Enqueue(channel) => node.port.tell(channel, &message::dropped(lock.name(), &waiter, why)),
        }
    }
}

impl<P: Server> At<'_, '_, P> {
    /// Removes a waiter from its queue whose grant can have no fencing token, and reports the reason to it. The
    /// waiter must neither block those behind it, nor wait in vain.
    pub(crate) fn refuse(&self, waiter: &Waiter, why: Error) {
        let node = self.node;
        node.locks(|locks| locks.leave(waiter.ticket));
        node.port.note(Note::SentAway);
        let (answer, reason) = match why {
            Error::TokenMigrating => (Error::Unblocked(DropReason::Moved.sentence()), DropReason::Moved),
            why => (why, DropReason::NoToken),
        };
        match &waiter.via {
            Via::Block => node.port.answer(waiter.ticket, Err(answer)),
            Via::Enqueue(channel) => node.port.tell(channel, &message::dropped(self.name(), waiter, reason)),
        }
    }
}

/// Answers waiters whose wait has ended, a bounded number at once.
pub(crate) fn end_waits<P: Server>(node: Node<'_, P>) {
    let (clock, most) = (node.port.clock(), node.port.settings().at_once.ended);
    for (lock, waiter) in node.locks(|locks| locks.remove_timed_out(clock, most)) {
        node.port.note(Note::TimedOut);
        match &waiter.via {
            Via::Block => node.port.answer(waiter.ticket, Ok(Reply::Denied)),
            Via::Enqueue(channel) => node.port.tell(channel, &message::timeout(lock.name(), &waiter)),
        }
    }
}
