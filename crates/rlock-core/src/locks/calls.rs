//! The calls of clients: where each one waits, and which of them were granted a lock and have no answer yet.

use std::collections::BTreeMap;
use std::mem::take;

use super::{DropReason, LockRef};

/// A waiting call of a client. A ticket is never used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// The place of a waiter in the order of all waiters.
pub(super) type Place = u64;

/// All waiting calls, and those whose answers are pending.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// Where each waiting call stands.
    places: BTreeMap<Ticket, (LockRef, Place)>,
    /// The locks that calls were granted whose answers are pending.
    granted: BTreeMap<Ticket, LockRef>,
    /// The waiters that are being sent away, a few at a time.
    sent_away: Option<SentAway>,
    /// How many waiters were granted a lock, or taken out of a queue that was served, since the start.
    served: usize,
    next_place: Place,
    last_ticket: Ticket,
}

/// The waiters that are being sent away: all those with a ticket up to this one. Later ones come after that.
#[derive(Clone, Copy, Debug)]
struct SentAway {
    up_to: Ticket,
    why: DropReason,
}

impl Calls {
    /// An empty set of calls, whose tickets and places continue after those of this one.
    pub(super) fn emptied(&self) -> Self {
        Self { next_place: self.next_place, last_ticket: self.last_ticket, ..Self::default() }
    }

    /// A ticket for a new call.
    pub fn new_ticket(&mut self) -> Ticket {
        self.last_ticket = Ticket(self.last_ticket.0.wrapping_add(1));
        self.last_ticket
    }

    pub(super) fn new_place(&mut self) -> Place {
        self.next_place = self.next_place.wrapping_add(1);
        self.next_place
    }

    /// The number of waiters on the whole server.
    pub fn waiting(&self) -> usize {
        self.places.len()
    }

    /// The tickets of all waiters.
    pub fn tickets(&self) -> impl Iterator<Item = Ticket> {
        self.places.keys().copied()
    }

    /// Where a call waits.
    pub(super) fn place_of(&self, ticket: Ticket) -> Option<&(LockRef, Place)> {
        self.places.get(&ticket)
    }

    /// A waiter has joined the queue of a lock.
    pub(super) fn joined(&mut self, ticket: Ticket, lock: LockRef, place: Place) {
        self.places.insert(ticket, (lock, place));
    }

    /// A waiter has left its queue.
    pub(super) fn left(&mut self, ticket: Ticket) {
        self.places.remove(&ticket);
    }
}

/// Pending answers.
impl Calls {
    /// A call was granted a lock, and its answer is pending.
    pub(super) fn granted(&mut self, ticket: Ticket, lock: LockRef) {
        self.granted.insert(ticket, lock);
    }

    /// The answer of a call is not pending any more, or its owner has confirmed the grant.
    pub(super) fn confirmed(&mut self, ticket: Ticket) {
        self.granted.remove(&ticket);
    }

    /// Whether the answer of this call is still pending, and its owner has not confirmed the grant.
    pub fn is_undelivered(&self, ticket: Ticket) -> bool {
        self.granted.contains_key(&ticket)
    }

    /// Whether the answer of any call is pending.
    pub(super) fn has_undelivered(&self) -> bool {
        !self.granted.is_empty()
    }

    /// The lock that was granted to a call whose answer is pending.
    pub(super) fn undelivered(&self, ticket: Ticket) -> Option<&LockRef> {
        self.granted.get(&ticket)
    }

    /// Takes the locks of all pending answers.
    pub(super) fn take_undelivered(&mut self) -> impl Iterator<Item = LockRef> + use<> {
        take(&mut self.granted).into_values()
    }
}

/// Waiters that leave their queues together.
impl Calls {
    /// All present waiters will be sent away for this reason, which replaces an earlier one. But a demotion stays the reason:
    /// the server grants these waiters nothing, also when it is the primary again.
    pub(super) fn send_away(&mut self, why: DropReason) {
        let why = self.dropping().filter(|before| *before == DropReason::Demoted).unwrap_or(why);
        self.sent_away = (!self.places.is_empty()).then_some(SentAway { up_to: self.last_ticket, why });
    }

    /// The reason for which waiters are being sent away, if they are.
    pub fn dropping(&self) -> Option<DropReason> {
        self.sent_away.map(|sent| sent.why)
    }

    /// The waiters that are being sent away and are still there.
    fn sent_away(&self) -> impl Iterator<Item = Ticket> {
        let sent = self.sent_away.into_iter();
        sent.flat_map(|sent| self.places.range(..=sent.up_to)).map(|(ticket, _)| *ticket)
    }

    /// The next waiter to send away.
    pub(super) fn next_sent_away(&self) -> Option<Ticket> {
        self.sent_away().next()
    }

    /// Waiters were sent away: with the last one, sending away ends.
    pub(super) fn note_sent_away(&mut self) {
        if self.next_sent_away().is_none() {
            self.sent_away = None;
        }
    }

    /// The number of waiters to send away, for the model checker.
    pub(super) fn count_sent_away(&self) -> Option<usize> {
        self.sent_away.map(|_| self.sent_away().count())
    }

    /// Counts waiters of this weight that were granted a lock, or left the queue during a hand-off.
    pub fn count_served(&mut self, count: usize) {
        self.served = self.served.wrapping_add(count);
    }

    /// The count since an earlier reading of [`Self::served`].
    pub fn served_since(&self, before: usize) -> usize {
        self.served.wrapping_sub(before)
    }

    /// A reading for [`Self::served_since`].
    pub fn served(&self) -> usize {
        self.served
    }
}
