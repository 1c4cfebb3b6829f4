//! Granting a free lock to a waiter.

use crate::decision::{Change, HashChange, Reply};
use crate::departures::refuse;
use crate::error::Error;
use crate::fair;
use crate::locks::{Grant, Via, Waiter};
use crate::look::Picture;
use crate::message;
use crate::node::Node;
use crate::note::Note;
use crate::port::{Lock, Server};
use crate::rules::{self, reply_token};
use crate::token::Token;
use crate::tying::holds_changed;
use crate::types::{Expiry, Holds, LeaseMs, Mode, UnixMs};
use crate::view::{Need, View};
use crate::yielding::{note_reads, notify_redisson};

/// The result of a hand-off to one waiter.
pub(crate) enum Handed {
    /// It was granted the lock, by this change.
    Over(Change),
    /// It left the queue without a grant: its channel has no subscriber, or it cannot have a token.
    SentAway,
    /// The lock could not be granted.
    Not,
}

/// Grants the lock to a waiter that can have it, or removes the waiter from the queue.
pub(crate) fn hand_to<P: Server>(
    node: Node<'_, P>,
    lock: &mut P::Lock<'_>,
    head: &Waiter,
    now: UnixMs,
) -> Handed {
    let Some(token) = token_for(node, lock, head, now) else {
        return Handed::SentAway;
    };
    let lease = match &head.via {
        Via::Block => head.lease,
        Via::Enqueue(channel) => {
            let lease = head.lease.min(node.port.settings().grant_confirm);
            if !offer(node, lock, head, channel, lease, token) {
                return Handed::SentAway;
            }
            lease
        }
    };
    give(node, lock, head, lease, token, now).map_or(Handed::Not, Handed::Over)
}

/// The fencing token of an acquisition at this time.
pub(crate) fn next_token<L: Lock>(lock: &L, now: UnixMs) -> Result<Token, Error> {
    Token::after(lock.last_token()?, now)
}

/// The token of a grant, if the waiter asked for one. `None` if no token is possible: the waiter was refused.
fn token_for<P: Server>(
    node: Node<'_, P>,
    lock: &P::Lock<'_>,
    head: &Waiter,
    now: UnixMs,
) -> Option<Option<Token>> {
    if !head.fenced {
        return Some(None);
    }
    match next_token(lock, now) {
        Ok(token) => Some(Some(token)),
        Err(why) => {
            refuse(node, lock, head, why);
            None
        }
    }
}

/// Offers the lock to an enqueued waiter by its message. Without a subscriber the channel's waiters for this lock are removed.
fn offer<P: Server>(
    node: Node<'_, P>,
    lock: &P::Lock<'_>,
    head: &Waiter,
    channel: &[u8],
    lease: LeaseMs,
    token: Option<Token>,
) -> bool {
    let granted = message::granted(lock.name(), head, Holds::ONE, lease, reply_token(token));
    if node.port.offer(channel, &granted) {
        return true;
    }
    let most = node.port.settings().at_once.served;
    let gone = node.locks(|locks| locks.drop_channel(lock.name(), channel, most));
    node.port.note(Note::Gone(gone));
    false
}

/// Makes the head of the queue the holder, and returns the change.
fn give<P: Server>(
    node: Node<'_, P>,
    lock: &mut P::Lock<'_>,
    head: &Waiter,
    lease: LeaseMs,
    token: Option<Token>,
    now: UnixMs,
) -> Option<Change> {
    let rule = |view: &View| match head.permits {
        Some(limit) => rules::hand_off_permit(view, limit, lease, now),
        None => rules::hand_off(view, head.mode, lease, token, now),
    };
    let mut picture = Picture::of(lock, Some(&head.owner));
    let decision = picture.decide(node, Need::Own, |picture| rule(picture.view())).ok()?;
    if decision.reply == Reply::Denied {
        return None;
    }
    let lock = picture.commit(&decision.change).ok()?;
    note_reads(node, lock, &decision.change);
    holds_changed(node, lock.name(), Some(&head.owner), &decision.change);
    let (clock, ends) = (node.port.clock(), now.after(lease));
    let announced = node.locks(|locks| {
        // Readers are counted where others join as well; Redisson knows no permits of this kind.
        if matches!(head.mode, Mode::Mutex | Mode::Write) {
            locks.count_admitted(lock.name(), clock);
        }
        let announced = locks.announced_end(lock.name());
        // In this order: with the last waiter of a connection that has ended, its end is forgotten.
        locks.tie(lock.name(), &head.owner, head.mode, (head.session, head.user.clone()));
        locks.leave(head.ticket);
        announced
    });
    fair::remove_departed_heads(node, lock);
    if matches!(head.mode, Mode::Mutex | Mode::Write)
        && let Some(message) = rules::message_on_hand_off(announced.unwrap_or(Expiry::Never), ends, head.mode)
    {
        notify_redisson(node, lock, message);
    }
    node.port.note(Note::HandedOff(clock.0.saturating_sub(head.since.0)));
    let (ticket, owner, mode) = (head.ticket, head.owner.clone(), head.mode);
    match head.via {
        Via::Enqueue(_) => node.locks(|locks| locks.note_unconfirmed(lock.name(), &owner)),
        Via::Block => {
            // An owner that holds the lock by another call keeps it, even if this reply is not delivered.
            if decision.change.hash != HashChange::Keep {
                node.locks(|locks| locks.granted(lock.name(), Grant { ticket, owner, mode, ends }));
            }
            node.port.answer(ticket, Ok(decision.reply));
        }
    }
    Some(decision.change)
}
