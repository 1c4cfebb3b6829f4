//! Serving the queues: in the commands that free a lock, and by the timer for all that frees one
//! otherwise: a lease that ends, a foreign client's DEL, FLUSHALL, a client that goes with a grant on its way.

use crate::bugs::{Bug, planted};
use crate::decide::{self, Change, Reply, UnlockMessage, told};
use crate::error::Error;
use crate::leave::refuse;
use crate::message;
use crate::port::{Note, Server, Site};
use crate::queue::{Cause, Grant, Via, Waiter};
use crate::shape::LockState;
use crate::timer::{look_again, look_soon};
use crate::token::Token;
use crate::types::{Expiry, Holds, LeaseMs, UnixMs};

/// Why a free lock comes to be looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Freed {
    /// The command under way has released it.
    Now,
    /// It was found free: its lease has ended, or somebody without the module has deleted it.
    Unseen,
}

/// What became of a lock that may be free.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Served {
    /// It is not free.
    NotFree,
    /// The one who waited first has it.
    Given,
    /// Nobody here took it.
    Free,
    /// It is left to foreign waiters, who were told.
    ForeignTurn,
}

/// Serves a lock that may have become free unseen; where nobody here takes it, those who wait by
/// Redisson's protocol are told.
pub(crate) fn serve_unseen<S: Site>(site: &S, now: UnixMs) {
    let lock = site.lock();
    match serve(site, now, Freed::Unseen) {
        Served::NotFree => return,
        Served::Free => {
            site.server().queues(|queues| queues.end_streak(lock));
            call_foreign_waiters(site, UnlockMessage::Free);
        }
        Served::Given | Served::ForeignTurn => {}
    }
    look_again(site);
}

/// Performs a change that was decided, and serves the queue if the change frees the lock: those who wait
/// by Redisson's protocol then hear of it only if nobody here takes the lock.
pub(crate) fn perform_and_serve<S: Site>(
    site: &S,
    key: S::Key,
    owner: Option<&[u8]>,
    change: &Change,
    now: UnixMs,
) -> Result<(), Error> {
    if *change != Change::default() {
        if let Some(message) = change.unlock_message.filter(|_| planted(Bug::PublishBeforeWrite)) {
            site.publish(message);
        }
        let silent = Change { unlock_message: None, ..*change };
        site.perform(key, owner, &silent)?;
    } else {
        // Closed before the lock is served.
        drop(key);
    }
    let lock = site.lock();
    if planted(Bug::HandOffApart) {
        look_soon(site.server(), lock);
        return Ok(());
    }
    let served = serve(site, now, Freed::Now);
    if let (Some(message), Served::Free | Served::NotFree) = (change.unlock_message, served) {
        site.server().queues(|queues| queues.end_streak(lock));
        call_foreign_waiters(site, message);
    }
    look_again(site);
    Ok(())
}

/// Whether nobody holds the lock.
pub(crate) fn is_free<S: Site>(site: &S, key: &S::Key) -> bool {
    matches!(site.state(key, None), Ok(LockState::Free | LockState::Abandoned))
}

/// The fencing token that an acquisition gets now.
pub(crate) fn next_token<S: Site>(site: &S, now: UnixMs) -> Result<Token, Error> {
    Token::after(site.last_token()?, now)
}

/// Gives the lock to the one who waits first, if it is free. In a command that writes, the server has
/// checked that writing is allowed; elsewhere ask for [`Site::ground`] first.
fn serve<S: Site>(site: &S, now: UnixMs, freed: Freed) -> Served {
    let (server, lock) = (site.server(), site.lock());
    if server.queues(|queues| queues.head(lock).is_none()) {
        return Served::NotFree;
    }
    if !is_free(site, &site.open()) {
        server.queues(|queues| queues.close_window(lock));
        return Served::NotFree;
    }
    let (clock, longest) = (server.clock(), server.settings().foreign_window);
    if server.queues(|queues| queues.window(lock, clock, longest)).is_some() {
        return Served::ForeignTurn;
    }
    let (ended, unconfirmed) =
        server.queues(|queues| (queues.note_free(lock), queues.take_unconfirmed(lock)));
    if let (Freed::Unseen, Some((ended, seen))) = (freed, ended) {
        note_end(site, ended, seen, unconfirmed, now);
    }
    if foreign_turn(site) {
        return Served::ForeignTurn;
    }
    while let Some(head) = server.queues(|queues| queues.head(lock).cloned()) {
        if !is_free(site, &site.open()) {
            // Another module has heard of an event of ours, and taken the lock.
            return Served::NotFree;
        }
        let token = if head.fenced && !planted(Bug::HandOffWithoutToken) {
            match next_token(site, now) {
                Ok(token) => Some(token),
                Err(_) if planted(Bug::WaitWithoutToken) => return Served::NotFree,
                Err(why) => {
                    refuse(site, &head, why);
                    continue;
                }
            }
        } else {
            None
        };
        let lease = match &head.via {
            Via::Block => head.lease,
            Via::Enqueue(channel) => {
                let unconfirmed = head.lease.min(server.settings().grant_confirm);
                let lease = if planted(Bug::NoConfirmation) { head.lease } else { unconfirmed };
                if !offer(site, &head, channel, lease, token) {
                    continue;
                }
                lease
            }
        };
        return if give(site, &head, lease, token, now) { Served::Given } else { Served::NotFree };
    }
    Served::Free
}

/// Tells those who wait by Redisson's protocol to try again, and says how many here heard it.
fn call_foreign_waiters<S: Site>(site: &S, message: UnlockMessage) -> u64 {
    let lock = site.lock();
    site.server().queues(|queues| queues.told_anew(lock));
    site.publish(message)
}

/// Notes that a lock was found free, and why: by its lease's end, or by what was seen to happen.
fn note_end<S: Site>(site: &S, ended: Expiry, seen: Option<Cause>, unconfirmed: bool, now: UnixMs) {
    let server = site.server();
    // Some servers delete a key in the very millisecond in which it expires.
    let in_time = matches!(ended, Expiry::At(at) if at <= now);
    let seen = seen.filter(|seen| *seen != Cause::Other);
    let cause = seen.unwrap_or(if in_time { Cause::Expired } else { Cause::Other });
    server.note(Note::Found(cause));
    if cause != Cause::Expired {
        return;
    }
    site.raise_expired();
    if unconfirmed {
        server.note(Note::Unconfirmed);
    }
}

/// Leaves the lock to those who wait by Redisson's protocol, if they have been passed over for long
/// enough and there are any: true then.
fn foreign_turn<S: Site>(site: &S) -> bool {
    let (server, lock, settings) = (site.server(), site.lock(), site.server().settings());
    let clock = server.clock();
    let due = server.queues(|queues| queues.foreign_turn_is_due(lock, settings.turns, clock));
    let Some(window) = settings.foreign_window.filter(|_| due) else { return false };
    if call_foreign_waiters(site, UnlockMessage::Free) == 0 {
        server.queues(|queues| queues.end_streak(lock));
        return false;
    }
    server.note(Note::ForeignTurn);
    server.queues(|queues| queues.open_window(lock, clock.after(window)));
    true
}

/// Offers the lock to an enqueued waiter by its message. Where nobody hears it, there is no grant, and
/// all who wait for this lock on that channel are gone with it.
fn offer<S: Site>(site: &S, head: &Waiter, channel: &[u8], lease: LeaseMs, token: Option<Token>) -> bool {
    let (server, lock) = (site.server(), site.lock());
    let granted = message::granted(lock, &head.owner, lease, told(token));
    if server.tell(channel, &granted) > 0 || planted(Bug::GrantUnheard) {
        return true;
    }
    let gone = server.queues(|queues| queues.drop_channel(lock, channel));
    server.note(Note::Gone(gone));
    false
}

/// Makes the head of the queue the holder.
fn give<S: Site>(site: &S, head: &Waiter, lease: LeaseMs, token: Option<Token>, now: UnixMs) -> bool {
    let (server, lock, key) = (site.server(), site.lock(), site.open());
    let Ok(state) = site.state(&key, Some(&head.owner)) else { return false };
    let Some(change) = decide::hand_off(state, lease, token, now) else { return false };
    if site.perform(key, Some(&head.owner), &change).is_err() {
        return false;
    }
    let (clock, ends) = (server.clock(), now.after(lease));
    let told_end = server.queues(|queues| {
        queues.count_grant(lock, clock);
        let told_end = queues.told(lock);
        queues.pop(lock);
        told_end
    });
    if let Some(message) = decide::message_on_hand_off(told_end.unwrap_or(Expiry::Never), ends) {
        call_foreign_waiters(site, message);
    }
    server.note(Note::HandedOff(clock.0.saturating_sub(head.since.0)));
    let (ticket, owner) = (head.ticket, head.owner.clone());
    match head.via {
        Via::Enqueue(_) => server.queues(|queues| queues.granted_by_message(lock, &owner)),
        Via::Block => {
            server.queues(|queues| queues.granted(lock, Grant { ticket, owner, ends }));
            let reply = Reply::Acquired { holds: Holds::ONE, lease_ms: lease.get(), token: told(token) };
            server.answer(ticket, Ok(reply));
        }
    }
    true
}
