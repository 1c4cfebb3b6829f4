//! Departures from the queues without a grant: waits time out, clients disconnect, servers are demoted.

use crate::core::Core;
use crate::decision::Reply;
use crate::error::Error;
use crate::locks::{DropReason, LockRef, Locks, Ticket, Via, Waiter};
use crate::message;
use crate::note::Note;
use crate::port::{Lock, Server};
use crate::timing::entry;

/// The client of a blocked, or unblocked but undelivered, call has disconnected. Nothing is written: a grant is marked to
/// be revoked.
pub fn client_disconnected<P: Server>(core: Core<'_, P>, ticket: Ticket) {
    let _entry = entry(core);
    if core.locks(|locks| locks.leave(ticket)).is_some() {
        core.port.note(Note::Gone(1));
        // Only an answer makes the server free what it keeps for the client.
        core.port.answer(ticket, Ok(Reply::Denied));
    }
    core.locks(|locks| locks.undeliverable(ticket));
}

/// Removes all waiters from all queues at once and notifies them of the reason. This is for a panic: the queues may be
/// inconsistent, so no waiter may stay in them.
pub fn drop_all_now<P: Server>(core: Core<'_, P>, why: DropReason) {
    let _entry = entry(core);
    let all = core.locks(Locks::drain_all_but_fair_lists);
    drop_waiters(core, all, why);
}

/// The server is a replica now: it grants nothing, revokes nothing until it is promoted, and sends all waiters away.
pub fn demoted<P: Server>(core: Core<'_, P>) {
    let _entry = entry(core);
    core.locks(|locks| {
        locks.demoted();
        locks.drop_waiters(DropReason::Demoted);
    });
    continue_dropping(core);
}

/// The server is the primary again, and does what it put off as a replica. A client that was answered `UNBLOCKED` then holds
/// nothing, though it was granted a lock before, and stands in no fair list.
pub fn promoted<P: Server>(core: Core<'_, P>) {
    let _entry = entry(core);
    let clock = core.port.clock();
    core.locks(|locks| {
        locks.promoted();
        locks.data_arrived(clock);
    });
}

/// The server has the data of another primary, from the start or from where its own ended: grants and fair lists are that
/// primary's, whatever the server put off.
pub fn synchronised<P: Server>(core: Core<'_, P>) {
    let _entry = entry(core);
    core.locks(Locks::synchronised);
}

/// Sends all waiters away. All other work continues: pending grants are confirmed or revoked, and waiters that departed
/// are removed from the fair lists.
pub fn drain<P: Server>(core: Core<'_, P>) {
    let _entry = entry(core);
    core.locks(|locks| locks.drop_waiters(DropReason::Drained));
    continue_dropping(core);
}

/// Takes the next few of the dropped waiters out of their queues. The others wait for a later call: a grant in between
/// does no harm.
pub(crate) fn continue_dropping<P: Server>(core: Core<'_, P>) {
    let most = core.port.settings().at_once.ended;
    let (gone, why) = core.locks(|locks| locks.next_dropped(most));
    if let Some(why) = why {
        drop_waiters(core, gone, why);
    }
}

/// Notifies waiters that were taken out of their queues of the reason.
pub(crate) fn drop_waiters<P: Server>(core: Core<'_, P>, waiters: Vec<(LockRef, Waiter)>, why: DropReason) {
    for (lock, waiter) in waiters {
        core.port.note(Note::SentAway);
        match &waiter.via {
            Via::Block => core.port.answer(waiter.ticket, Err(Error::Unblocked(why.sentence()))),
            Via::Enqueue(channel) => core.port.tell(channel, &message::dropped(lock.name(), &waiter, why)),
        }
    }
}

/// Takes a waiter out of its queue whose grant can have no fencing token, and tells it why: it must neither
/// keep those behind it waiting, nor be lost in silence.
pub(crate) fn refuse<P: Server>(core: Core<'_, P>, lock: &P::Lock<'_>, waiter: &Waiter, why: Error) {
    core.locks(|locks| locks.leave(waiter.ticket));
    core.port.note(Note::SentAway);
    let (answer, reason) = match why {
        Error::TokenMigrating => (Error::Unblocked(DropReason::Moved.sentence()), DropReason::Moved),
        why => (why, DropReason::NoToken),
    };
    match &waiter.via {
        Via::Block => core.port.answer(waiter.ticket, Err(answer)),
        Via::Enqueue(channel) => core.port.tell(channel, &message::dropped(lock.name(), waiter, reason)),
    }
}

/// Answers those whose wait has ended, not all of them at once.
pub(crate) fn end_waits<P: Server>(core: Core<'_, P>) {
    let (clock, most) = (core.port.clock(), core.port.settings().at_once.ended);
    for (lock, waiter) in core.locks(|locks| locks.remove_timed_out(clock, most)) {
        core.port.note(Note::TimedOut);
        match &waiter.via {
            Via::Block => core.port.answer(waiter.ticket, Ok(Reply::Denied)),
            Via::Enqueue(channel) => core.port.tell(channel, &message::timeout(lock.name(), &waiter)),
        }
    }
}
