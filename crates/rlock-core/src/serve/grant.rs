//! Granting a free lock to a waiter.

use std::rc::Rc;

use crate::decision::{Change, Decision, Reply};
use crate::departures::refuse;
use crate::error::Error;
use crate::fair;
use crate::locks::{self, Via, Waiter};
use crate::look::Picture;
use crate::message;
use crate::node::Node;
use crate::note::Note;
use crate::port::{Lock, Server};
use crate::rules::{self, reply_token};
use crate::token::Token;
use crate::turn::Turn;
use crate::tying::holds_changed;
use crate::types::{Expiry, Holds, LeaseMs, Mode, UnixMs, Wanted};
use crate::view::{Need, View};
use crate::yielding::note_reads;

/// What came of handing the lock to one waiter.
pub(super) enum Grant {
    /// It has the lock.
    Granted {
        /// What the lock became with it.
        becomes: Option<Mode>,
    },
    /// It left the queue without a grant: its channel has no subscriber, or it cannot have a token.
    SentAway,
    /// The lock cannot be granted to it: it is of another kind now, or held.
    Denied,
    /// The server refused the change, or the lock has changed: the next check tries again.
    Failed,
}

/// The fencing token of an acquisition at this time.
pub(crate) fn next_token<L: Lock>(lock: &L, now: UnixMs) -> Result<Token, Error> {
    Token::after(lock.last_token()?, now)
}

impl<P: Server> Turn<'_, P> {
    /// Grants the lock to a waiter that can have it, or removes the waiter from the queue.
    pub(super) fn hand_to(&mut self, lock: &mut P::Lock<'_>, head: Waiter) -> Grant {
        let Some(token) = self.token_for(lock, &head) else { return Grant::SentAway };
        let lease = match &head.via {
            Via::Block => head.lease,
            Via::Enqueue(channel) => {
                if !self.node.port.has_subscriber(channel) {
                    self.drop_unsubscribed(lock, channel);
                    return Grant::SentAway;
                }
                head.lease.min(self.node.port.settings().grant_confirm)
            }
        };
        self.give(lock, head, lease, token)
    }

    /// The token of a grant, if the waiter asked for one. `None` if no token is possible: the waiter was refused.
    fn token_for(&mut self, lock: &P::Lock<'_>, head: &Waiter) -> Option<Option<Token>> {
        if !head.fenced {
            return Some(None);
        }
        match next_token(lock, self.now) {
            Ok(token) => Some(Some(token)),
            Err(why) => {
                refuse(self.node, lock, head, why);
                None
            }
        }
    }

    /// Removes the waiters for this lock on a channel without a subscriber: a grant would have no receiver.
    fn drop_unsubscribed(&self, lock: &P::Lock<'_>, channel: &Rc<[u8]>) {
        let most = self.node.port.settings().at_once.served;
        let gone = self.node.locks(|locks| locks.drop_channel(lock.name(), channel, most));
        self.node.port.note(Note::Gone(gone));
    }

    /// Makes the head of the queue the holder.
    fn give(&mut self, lock: &mut P::Lock<'_>, head: Waiter, lease: LeaseMs, token: Option<Token>) -> Grant {
        let now = self.now;
        let rule = |view: &View| rules::hand_off(view, head.wanted, lease, token, now);
        let owner = Some(&*head.owner);
        let (mut picture, looked) = match self.known_free() {
            Some((view, changes)) => (Picture::known(lock, owner, view, changes), Ok(())),
            None => {
                let mut picture = Picture::of(lock, owner);
                let looked = picture.look(self.node, Need::Own);
                (picture, looked)
            }
        };
        let decided = looked.and_then(|()| picture.decide_seen(self.node, |picture| rule(picture.view())));
        let decision = match decided {
            Ok(decision) if decision.reply == Reply::Denied => return Grant::Denied,
            Ok(decision) => decision,
            Err(_) => return Grant::Denied,
        };
        match self.commit(picture, &decision.change).map(|_| ()) {
            Ok(()) => {
                self.granted(lock, head, (lease, token), &decision);
                Grant::Granted { becomes: decision.change.becomes }
            }
            Err(_) => Grant::Failed,
        }
    }

    /// The head of the queue is a holder now: it leaves the queue, and learns of the grant.
    fn granted(
        &mut self,
        lock: &mut P::Lock<'_>,
        head: Waiter,
        (lease, token): (LeaseMs, Option<Token>),
        decision: &Decision,
    ) {
        let (node, ends) = (self.node, self.now.after(lease));
        note_reads(node, lock, &decision.change);
        holds_changed(node, lock.name(), Some(&head.owner), &decision.change);
        // Redisson knows no permits of this kind, and readers are counted where others join as well.
        let is_sole = matches!(head.wanted, Wanted::Mutex | Wanted::Write);
        let announced = leave_as_holder(node, lock, &head, is_sole);
        fair::remove_departed_heads(node, lock);
        if is_sole
            && let Some(message) =
                rules::message_on_hand_off(announced.unwrap_or(Expiry::Never), ends, head.mode())
        {
            self.notify(lock.name(), message);
        }
        node.port.note(Note::HandedOff(node.port.clock().0.saturating_sub(head.since.0)));
        match &head.via {
            Via::Enqueue(channel) => {
                node.locks(|locks| locks.records.note_unconfirmed(lock.name(), &head.owner));
                let granted = message::granted(lock.name(), &head, Holds::ONE, lease, reply_token(token));
                node.port.tell(channel, &granted);
            }
            Via::Block => answer_blocked(node, lock, head, ends, decision),
        }
    }
}

/// Takes a new holder out of the queue, and counts it. Returns the latest lease end that waiting Redisson clients may know.
fn leave_as_holder<P: Server>(
    node: Node<'_, P>,
    lock: &P::Lock<'_>,
    head: &Waiter,
    is_counted: bool,
) -> Option<Expiry> {
    let clock = node.port.clock();
    node.locks(|locks| {
        if is_counted {
            locks.records.count_admitted(lock.name(), clock);
        }
        let announced = locks.records.announced_end(lock.name());
        locks.records.forget_called(lock.name());
        // In this order: with the last waiter of a connection that has ended, its end is forgotten.
        locks.tie(lock.name(), &head.owner, head.mode(), (head.session, head.user.clone()));
        locks.leave(head.ticket);
        announced
    })
}

/// Answers the blocked client of a new holder.
fn answer_blocked<P: Server>(
    node: Node<'_, P>,
    lock: &P::Lock<'_>,
    head: Waiter,
    ends: UnixMs,
    Decision { reply, change: Change { event, .. } }: &Decision,
) {
    let (mode, Waiter { ticket, owner, .. }) = (head.mode(), head);
    // An owner that holds the lock by another call keeps it, even if this reply is not delivered.
    if event.is_some() {
        node.locks(|locks| locks.granted(lock.name(), locks::Grant { ticket, owner, mode, ends }));
    }
    node.port.answer(ticket, Ok(*reply));
}
