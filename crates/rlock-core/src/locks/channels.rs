//! The channels of enqueued waiters. A channel that has no subscriber at two checks in a row loses its waiters: their client is
//! gone, and would fill the queue for ever.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;

use super::tickets::Tickets;
use super::{Ticket, Via, Waiter};
use crate::types::MonoMs;

/// The least time between two checks that count as two. Rounds begin ten seconds apart, and one takes less than a second.
pub(super) const UNSUBSCRIBED_MS: u64 = 9_000;

/// The waiters on one channel.
#[derive(Clone, Debug, Default)]
struct Channel {
    waiters: Tickets,
    /// When a check found no subscriber, if no later check found one and no waiter has joined since.
    unsubscribed_since: Option<MonoMs>,
}

/// The channels of all enqueued waiters.
#[derive(Clone, Debug, Default)]
pub struct Channels {
    known: BTreeMap<Rc<[u8]>, Channel>,
    /// Where the round of checks continues, while one is under way.
    next: Option<Bound<Rc<[u8]>>>,
}

impl Channels {
    /// A waiter has joined a queue. All waiters on a channel share one copy of its name.
    pub(super) fn joined(&mut self, waiter: &mut Waiter) {
        let Via::Enqueue(channel) = &mut waiter.via else { return };
        if let Some((known, _)) = self.known.get_key_value(channel) {
            *channel = Rc::clone(known);
        }
        let of = self.known.entry(Rc::clone(channel)).or_default();
        of.waiters.insert(waiter.ticket);
        of.unsubscribed_since = None;
    }

    /// A waiter has left its queue.
    pub(super) fn left(&mut self, waiter: &Waiter) {
        let Via::Enqueue(channel) = &waiter.via else { return };
        let Some(of) = self.known.get_mut(channel) else { return };
        of.waiters.remove(waiter.ticket);
        if of.waiters.is_empty() {
            self.known.remove(channel);
        }
    }

    /// A round of checks of all channels begins; false if one is under way, or there are no channels.
    pub(super) fn begin_round(&mut self) -> bool {
        let begins = !self.known.is_empty() && !self.is_round_under_way();
        if begins {
            self.next = Some(Bound::Unbounded);
        }
        begins
    }

    /// The next channel of the round; `None` if none is left.
    pub fn next_channel(&mut self) -> Option<Rc<[u8]>> {
        let Self { known, next } = self;
        let from = next.take()?;
        let (channel, _) = known.range::<Rc<[u8]>, _>((from, Bound::Unbounded)).next()?;
        *next = Some(Bound::Excluded(Rc::clone(channel)));
        Some(Rc::clone(channel))
    }

    /// Notes the check of a channel. Returns whether its waiters leave: it has no subscriber now, and had none at the check before.
    pub(super) fn checked(&mut self, channel: &Rc<[u8]>, has_subscriber: bool, now: MonoMs) -> bool {
        let Some(of) = self.known.get_mut(channel) else { return false };
        let since = *of.unsubscribed_since.get_or_insert(now);
        if has_subscriber {
            of.unsubscribed_since = None;
        }
        !has_subscriber && now.0.saturating_sub(since.0) >= UNSUBSCRIBED_MS
    }

    /// The first waiter on a channel.
    pub(super) fn first_on(&self, channel: &Rc<[u8]>) -> Option<Ticket> {
        self.known.get(channel)?.waiters.first()
    }

    /// The round continues with this channel, if it has waiters.
    pub(super) fn check_again(&mut self, channel: &Rc<[u8]>) {
        if self.known.contains_key(channel) {
            self.next = Some(Bound::Included(Rc::clone(channel)));
        }
    }

    pub(super) fn is_round_under_way(&self) -> bool {
        self.next.is_some()
    }

    pub(super) fn end_round(&mut self) {
        self.next = None;
    }

    /// The channels without a subscriber, for the model checker.
    pub(super) fn unsubscribed(&self) -> impl Iterator<Item = (&[u8], MonoMs)> {
        self.known.iter().filter_map(|(channel, of)| Some((&**channel, of.unsubscribed_since?)))
    }

    /// The channel at which the round continues, for the model checker.
    pub(super) fn position(&self) -> Option<Option<&[u8]>> {
        self.next.as_ref().map(|next| match next {
            Bound::Unbounded => None,
            Bound::Included(channel) | Bound::Excluded(channel) => Some(&**channel),
        })
    }
}

#[cfg(test)]
#[path = "channels_tests.rs"]
mod tests;
