//! Granting a free lock to a waiter.

use crate::bugs::{Bug, planted};
use crate::decision::{Change, HashChange, Reply};
use crate::departures::refuse;
use crate::error::Error;
use crate::fair;
use crate::locks::{Grant, Via, Waiter};
use crate::look::Picture;
use crate::message;
use crate::port::{Note, Server, Site};
use crate::rules::{self, told};
use crate::token::Token;
use crate::types::{Expiry, Holds, LeaseMs, Mode, UnixMs};
use crate::view::View;
use crate::yielding::{note_reads, notify_redisson};

/// What became of one to whom the lock was to be given.
pub(crate) enum Handed {
    /// It has the lock, by this change.
    Over(Change),
    /// It could have no token, or nobody hears its channel: it waits no more.
    SentAway,
    /// It could not be given.
    Not,
}

/// Gives the lock to one who waits and can have it, or sends it away.
pub(crate) fn hand_to<S: Site>(site: &S, head: &Waiter, now: UnixMs) -> Handed {
    let Some(token) = token_for(site, head, now) else {
        return if planted(Bug::WaitWithoutToken) { Handed::Not } else { Handed::SentAway };
    };
    let lease = match &head.via {
        Via::Block => head.lease,
        Via::Enqueue(channel) => {
            let unconfirmed = head.lease.min(site.server().settings().grant_confirm);
            let lease = if planted(Bug::NoConfirmation) { head.lease } else { unconfirmed };
            if !offer(site, head, channel, lease, token) {
                return Handed::SentAway;
            }
            lease
        }
    };
    give(site, head, lease, token, now).map_or(Handed::Not, Handed::Over)
}

/// The fencing token that an acquisition gets now.
pub(crate) fn next_token<S: Site>(site: &S, now: UnixMs) -> Result<Token, Error> {
    Token::after(site.last_token()?, now)
}

/// The token of a grant, if it is to have one; `None` where it can have none, and the waiter was told.
fn token_for<S: Site>(site: &S, head: &Waiter, now: UnixMs) -> Option<Option<Token>> {
    if !head.fenced || planted(Bug::HandOffWithoutToken) {
        return Some(None);
    }
    match next_token(site, now) {
        Ok(token) => Some(Some(token)),
        Err(_) if planted(Bug::WaitWithoutToken) => None,
        Err(why) => {
            refuse(site, head, why);
            None
        }
    }
}

/// Offers the lock to an enqueued waiter by its message. Where nobody hears it, there is no grant, and
/// all who wait for this lock on that channel are gone with it.
fn offer<S: Site>(site: &S, head: &Waiter, channel: &[u8], lease: LeaseMs, token: Option<Token>) -> bool {
    let (server, lock) = (site.server(), site.lock());
    let granted = message::granted(lock, head, Holds::ONE, lease, told(token));
    if server.offer(channel, &granted) || planted(Bug::GrantUnheard) {
        return true;
    }
    let most = server.settings().at_once.served;
    let gone = server.locks(|locks| locks.drop_channel(lock, channel, most));
    server.locks(|locks| locks.count_served(gone));
    server.note(Note::Gone(gone));
    false
}

/// Makes the head of the queue the holder, and says by what change.
fn give<S: Site>(
    site: &S,
    head: &Waiter,
    lease: LeaseMs,
    token: Option<Token>,
    now: UnixMs,
) -> Option<Change> {
    let (server, lock) = (site.server(), site.lock());
    let rule = |view: &View| rules::hand_off(view, head.mode, lease, token, now);
    let mut picture = Picture::of(site, Some(&head.owner));
    let decision = picture.decide(rule).ok()?;
    if decision.reply == Reply::Denied {
        return None;
    }
    picture.commit(&decision.change).ok()?;
    note_reads(site, &decision.change);
    let (clock, ends) = (server.clock(), now.after(lease));
    let told_end = server.locks(|locks| {
        locks.count_grant(lock, clock);
        let told_end = locks.told(lock);
        locks.leave(head.ticket);
        told_end
    });
    fair::remove_departed_heads(site);
    if head.mode != Mode::Read
        && let Some(message) = rules::message_on_hand_off(told_end.unwrap_or(Expiry::Never), ends, head.mode)
    {
        notify_redisson(site, message);
    }
    server.note(Note::HandedOff(clock.0.saturating_sub(head.since.0)));
    let (ticket, owner, mode) = (head.ticket, head.owner.clone(), head.mode);
    match head.via {
        Via::Enqueue(_) => server.locks(|locks| locks.note_unconfirmed(lock, &owner)),
        Via::Block => {
            // Who holds it by another call keeps it, whatever becomes of this answer.
            if decision.change.hash != HashChange::Keep {
                server.locks(|locks| locks.granted(lock, Grant { ticket, owner, mode, ends }));
            }
            server.answer(ticket, Ok(decision.reply));
        }
    }
    Some(decision.change)
}
