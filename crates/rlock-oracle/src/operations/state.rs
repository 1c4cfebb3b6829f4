//! The state of the world, as plainly as it can be said.

use std::collections::BTreeMap;

use super::after::After;
use super::hash::Leases;
use super::op::{CHANNELS, Channel, Ground, LOCKS, Lock, Owner, Word};
use super::options::{Kinds, Options};
use super::row::Row;
use super::values::{Answer, Entry, OpenGrant, Value, Via, Waiter};

/// A lock's key and queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    pub(super) value: Value,
    /// The lease keys of read holds.
    pub(super) leases: Leases,
    /// The last fencing token, if its key is there; `Some(None)` if the key does not hold an integer.
    pub(super) token: Option<Option<i64>>,
    /// The waiters, in order.
    pub(super) queue: Vec<Waiter>,
    /// The fair list of this lock name.
    pub(super) list: Vec<Entry>,
    /// Whether another client has changed the fair list since the module repaired it.
    pub(super) list_touched: bool,
    /// Natives that have stopped waiting, and stand in the fair list until the timer removes them.
    pub(super) gone: Vec<Owner>,
    /// The Redisson waiter that was notified of its turn, and whether a native waited at that time.
    pub(super) called: Option<(Owner, bool)>,
    /// The natives that have passed waiting Redisson clients in a row.
    pub(super) row: Row,
    /// Native readers with the ends of their leases; and the latest end so far.
    pub(super) natives: BTreeMap<Owner, i64>,
    pub(super) longest_read: Option<i64>,
    /// Facts about the lock that only the last primary knew.
    pub(super) before: Before,
    /// The owner of an unconfirmed grant by message that was made while others waited.
    pub(super) unconfirmed: Option<Owner>,
    /// The lease end that was seen last while a native waited; the end of time for a lease that does not end.
    pub(super) seen_end: Option<i64>,
    /// The latest end that was in force since Redisson waiters were notified.
    pub(super) latest_end: Option<i64>,
}

/// Facts about a lock that only the last primary knew.
#[derive(Clone, Debug, Default)]
pub(super) struct Before {
    /// The read leases that it granted.
    pub(super) reads: BTreeMap<Owner, i64>,
    /// Whether the lock was met after the promotion: its key must outlast these leases.
    pub(super) is_met: bool,
    /// Until this time the deadlines in its fair list are capped when the list is met.
    pub(super) list_until: Option<u64>,
    /// Whether no message can have met the list since the promotion: rlock reads the list's head with some of them.
    pub(super) list_is_new: bool,
    /// Whether the timer must cap them now.
    pub(super) caps: bool,
}

/// How often unlock messages were published in one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Published {
    /// With fewer, Redisson waiters miss a wake-up.
    pub(super) least: u32,
    /// With more, they are woken for nothing.
    pub(super) most: u32,
}

/// The visible output of one step.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// The answer to the caller.
    pub(super) answer: Option<Answer>,
    /// The messages on channels of ENQUEUE with a subscriber.
    pub(super) messages: Vec<(Channel, String)>,
    /// The unlock messages of each lock.
    pub(super) published: [Published; LOCKS.len()],
    /// How often Redisson waiters at the head of a fair list were notified on their own channels.
    pub(super) called: BTreeMap<(Lock, Owner), Published>,
    /// How many grants by message were found to have ended unconfirmed.
    pub(super) unconfirmed: u32,
}

/// A server with the module, without the module.
#[derive(Clone, Debug)]
pub(super) struct Oracle {
    pub(super) options: Options,
    /// The wall clock.
    pub(super) now: i64,
    /// The clock that never steps.
    pub(super) clock: u64,
    pub(super) places: [Place; LOCKS.len()],
    /// Blocked clients, and clients with undelivered answers, by the number of their call.
    pub(super) calls: BTreeMap<usize, Answer>,
    /// How many calls have blocked.
    pub(super) blocked_so_far: usize,
    /// The undelivered grants.
    pub(super) open: Vec<OpenGrant>,
    /// The grants to revoke.
    pub(super) revokes: Vec<OpenGrant>,
    /// Which channels have a subscriber.
    pub(super) subscribed: [bool; CHANNELS.len()],
    /// Since which sweep each channel with waiters has no subscriber.
    pub(super) unsubscribed_since: [Option<u64>; CHANNELS.len()],
    /// Whether a Redisson client listens on the unlock channels.
    pub(super) listened: bool,
    pub(super) ground: Ground,
    pub(super) primary: bool,
    pub(super) accept: bool,
    /// Whether a lock was served before the command under way: others learn of its lease only at the end.
    pub(super) seen_at_end: bool,
    /// The state of `rlock-core` after this step.
    pub(super) after: After,
    pub(super) seen: Seen,
}

impl Oracle {
    /// The begin of a history, by the wall clock.
    const START: i64 = 1_000;
    /// An empty server.
    pub(super) fn new(options: Options) -> Self {
        Self {
            options,
            now: Self::START,
            clock: 0,
            places: Default::default(),
            seen_at_end: false,
            calls: BTreeMap::new(),
            blocked_so_far: 0,
            open: Vec::new(),
            revokes: Vec::new(),
            subscribed: [true; CHANNELS.len()],
            unsubscribed_since: [None; CHANNELS.len()],
            listened: false,
            ground: Ground::Firm,
            primary: true,
            accept: true,
            after: After::default(),
            seen: Seen::default(),
        }
    }

    /// The key's value now; a lock whose lease has ended does not count.
    pub(super) fn value(&self, lock: Lock) -> Value {
        let value = self.places[lock.0].value;
        let is_over = value.key_end().flatten().is_some_and(|at| self.now > at);
        if is_over { Value::Nothing } else { value }
    }

    /// The waiters of a lock, in order.
    pub(super) fn queue(&self, lock: Lock) -> &[Waiter] {
        &self.places[lock.0].queue
    }

    pub(super) fn place(&mut self, lock: Lock) -> &mut Place {
        &mut self.places[lock.0]
    }

    /// The token that an acquisition would get now; `None` if it can get none, 0 if it asks for none.
    pub(super) fn token(&self, lock: Lock, fenced: bool) -> Option<i64> {
        const LARGEST: i64 = 9_007_199_254_740_992;
        let next = match self.places[lock.0].token {
            _ if !fenced => return Some(0),
            None => self.now,
            Some(Some(last)) => self.now.max(last.saturating_add(1)),
            Some(None) => return None,
        };
        // A clock before 1970 gives none.
        let next = next.max(1);
        (next <= LARGEST).then_some(next)
    }

    /// An acquisition has got a token.
    pub(super) fn use_token(&mut self, lock: Lock, token: i64) {
        if token > 0 {
            self.place(lock).token = Some(Some(token));
        }
    }

    /// Writes the key: its lease is in force from now on.
    pub(super) fn set(&mut self, lock: Lock, value: Value) {
        let announced = (value != Value::Nothing).then(|| value.key_end().flatten().unwrap_or(i64::MAX));
        let place = self.place(lock);
        if value != Value::Nothing && place.queue.is_empty() {
            place.called = None;
        }
        place.value = value;
        place.latest_end = place.latest_end.max(announced);
    }

    /// Removes a waiter from the queue. The last one ends the state of the queue, and a plain lock's yield window.
    pub(super) fn remove(&mut self, lock: Lock, at: usize) -> Waiter {
        let mixed = self.options.kinds == Kinds::Mixed;
        let place = self.place(lock);
        let waiter = place.queue.remove(at);
        if waiter.fair {
            place.gone.push(waiter.owner);
        }
        place.list_touched &= place.queue.iter().any(|waiter| waiter.fair);
        if place.queue.is_empty() {
            place.called = None;
            match waiter.word {
                Word::Read | Word::Write => {}
                // A window outlives the queue if it is that of a read/write lock.
                _ if mixed => place.row.yielding.doubt(),
                _ => place.row.yielding.close_window(),
            }
            place.unconfirmed = None;
            place.seen_end = None;
        }
        waiter
    }

    /// Publishes a message on a channel, if it has a subscriber. Returns whether it has.
    pub(super) fn tell(&mut self, channel: Channel, message: String) -> bool {
        let received = self.subscribed[channel.0];
        if received {
            self.seen.messages.push((channel, message));
        }
        received
    }

    /// Answers or notifies a waiter that has left the queue.
    pub(super) fn tell_waiter(&mut self, waiter: Waiter, answer: Answer, message: String) {
        match waiter.via {
            Via::Call(call) => {
                self.calls.insert(call, answer);
            }
            Via::Channel(channel) => {
                self.tell(channel, message);
            }
        }
    }
}
