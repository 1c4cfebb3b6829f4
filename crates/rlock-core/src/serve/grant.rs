//! Granting a free lock to a waiter.

use std::rc::Rc;

use crate::at::At;
use crate::decision::{Change, Decision, Reply};
use crate::error::Error;
use crate::locks::{self, Via, Waiter};
use crate::look::Picture;
use crate::message;
use crate::note::Note;
use crate::port::{Lock, Server};
use crate::rules::{self, reply_token};
use crate::token::Token;
use crate::turn::Turn;
use crate::types::{Expiry, Holds, LeaseMs, Mode, UnixMs, Wanted};
use crate::view::{Need, View};

/// The outcome of handing the lock to one waiter.
pub(super) enum GrantOutcome {
    /// The waiter has the lock.
    Granted {
        /// The new `mode` of the lock.
        becomes: Option<Mode>,
    },
    /// The waiter left the queue without a grant: its channel has no subscriber, or it cannot have a token.
    SentAway,
    /// The lock cannot be granted to the waiter: it is of another kind now, or held.
    Denied,
    /// The server refused the change, or the lock has changed: the next check tries again.
    Failed,
}

impl<P: Server> Turn<'_, '_, P> {
    /// The fencing token of an acquisition in this turn.
    pub(crate) fn next_token(&self) -> Result<Token, Error> {
        Token::after(self.at.lock.last_token()?, self.now)
    }

    /// Grants the lock to a waiter that can have it, or removes the waiter from the queue.
    pub(super) fn hand_to(&mut self, head: Waiter) -> GrantOutcome {
        let Some(token) = self.token_for(&head) else { return GrantOutcome::SentAway };
        let lease = match &head.via {
            Via::Block => head.lease,
            Via::Enqueue(channel) => {
                if !self.at.node.port.has_subscriber(channel) {
                    self.drop_unsubscribed(channel);
                    return GrantOutcome::SentAway;
                }
                head.lease.min(self.at.node.port.settings().grant_confirm)
            }
        };
        self.give(head, lease, token)
    }

    /// The token of a grant, if the waiter asked for one. `None` if no token is possible: the waiter was refused.
    fn token_for(&self, head: &Waiter) -> Option<Option<Token>> {
        if !head.fenced {
            return Some(None);
        }
        match self.next_token() {
            Ok(token) => Some(Some(token)),
            Err(why) => {
                self.at.refuse(head, why);
                None
            }
        }
    }

    /// Removes the waiters for this lock on a channel without a subscriber: a grant would have no receiver.
    fn drop_unsubscribed(&self, channel: &Rc<[u8]>) {
        let most = self.at.node.port.settings().at_once.served;
        let gone = self.at.locks(|locks, lock| locks.drop_channel(lock, channel, most));
        self.at.node.port.note(Note::Gone(gone));
    }

    /// Makes the head of the queue the holder.
    fn give(&mut self, head: Waiter, lease: LeaseMs, token: Option<Token>) -> GrantOutcome {
        let now = self.now;
        let rule = |view: &View| rules::hand_off(view, head.wanted, lease, token, now);
        let owner = Some(&*head.owner);
        let (mut picture, looked) = match self.known_free() {
            Some((view, changes)) => (Picture::known(self, owner, view, changes), Ok(())),
            None => {
                let mut picture = Picture::of(self, owner);
                let looked = picture.look(Need::Own);
                (picture, looked)
            }
        };
        let decided = looked.and_then(|()| picture.decide_seen(|picture| rule(picture.view())));
        let decision = match decided {
            Ok(decision) if decision.reply == Reply::Denied => return GrantOutcome::Denied,
            Ok(decision) => decision,
            Err(_) => return GrantOutcome::Denied,
        };
        match picture.commit(&decision.change).map(|_| ()) {
            Ok(()) => {
                self.granted(head, (lease, token), &decision);
                GrantOutcome::Granted { becomes: decision.change.becomes }
            }
            Err(_) => GrantOutcome::Failed,
        }
    }

    /// The head of the queue is a holder now: it leaves the queue, and learns of the grant.
    fn granted(&mut self, head: Waiter, (lease, token): (LeaseMs, Option<Token>), decision: &Decision) {
        let (node, ends) = (self.at.node, self.now.after(lease));
        self.at.note_reads(&decision.change);
        self.at.holds_changed(Some(&head.owner), &decision.change);
        // Redisson knows no permits of this kind, and readers are counted where others join as well.
        let is_sole = matches!(head.wanted, Wanted::Mutex | Wanted::Write);
        let announced = self.at.leave_as_holder(&head, is_sole);
        self.at.remove_departed_heads();
        if is_sole
            && let Some(message) =
                rules::message_on_hand_off(announced.unwrap_or(Expiry::Never), ends, head.mode())
        {
            self.send_unlock_message(message);
        }
        node.port.note(Note::HandedOff(node.port.clock().0.saturating_sub(head.since.0)));
        match &head.via {
            Via::Enqueue(channel) => {
                self.at.locks(|locks, lock| locks.records.note_unconfirmed(lock, &head.owner));
                let granted = message::granted(self.at.name(), &head, Holds::ONE, lease, reply_token(token));
                node.port.tell(channel, &granted);
            }
            Via::Block => self.at.answer_blocked(head, ends, decision),
        }
    }
}

impl<P: Server> At<'_, '_, P> {
    /// Takes a new holder out of the queue, and counts it. Returns the latest lease end that waiting Redisson clients may know.
    fn leave_as_holder(&self, head: &Waiter, is_counted: bool) -> Option<Expiry> {
        let clock = self.node.port.clock();
        self.locks(|locks, lock| {
            if is_counted {
                locks.records.count_admitted(lock, clock);
            }
            let announced = locks.records.announced_end(lock);
            locks.records.forget_called(lock);
            // In this order: with the last waiter of a connection that has ended, its end is forgotten.
            locks.tie(lock, &head.owner, head.mode(), (head.call(), head.user.clone()));
            locks.leave(head.ticket);
            announced
        })
    }

    /// Answers the blocked client of a new holder.
    fn answer_blocked(
        &self,
        head: Waiter,
        ends: UnixMs,
        Decision { reply, change: Change { event, .. } }: &Decision,
    ) {
        let (mode, Waiter { ticket, owner, .. }) = (head.mode(), head);
        // An owner that holds the lock by another call keeps it, even if this reply is not delivered.
        if event.is_some() {
            self.locks(|locks, lock| locks.granted(lock, locks::Grant { ticket, owner, mode, ends }));
        }
        self.node.port.answer(ticket, Ok(*reply));
    }
}
