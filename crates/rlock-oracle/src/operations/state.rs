//! The state of the world, as plainly as it can be said.

use std::collections::BTreeMap;

use super::after::After;
use super::found::Before;
use super::hash::Leases;
use super::op::{CHANNELS, Channel, Ground, LOCKS, Lock, Owner, Word};
use super::options::Options;
use super::row::Row;
use super::values::{Answer, Entry, OpenGrant, Value, Via, Waiter};

/// A lock's key and queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    pub(super) value: Value,
    /// The lease keys of read holds.
    pub(super) leases: Leases,
    /// The last fencing token, if its key is there; none in it that is no integer.
    pub(super) token: Option<Option<i64>>,
    /// Who waits, in order.
    pub(super) queue: Vec<Waiter>,
    /// Redisson's list of those who wait for the fair lock of this name.
    pub(super) list: Vec<Entry>,
    /// Whether another client has changed it since natives were put right in it.
    pub(super) list_touched: bool,
    /// Natives who wait no more, and stand in the list until the timer has taken them out.
    pub(super) gone: Vec<Owner>,
    /// Which one of Redisson's was told that it has its turn, and whether it was while somebody waited here.
    pub(super) called: Option<(Owner, bool)>,
    /// The row of those of Redisson's that wait.
    pub(super) row: Row,
    /// Natives that read, with the ends of the leases that they were given; and of the longest that there has been.
    pub(super) natives: BTreeMap<Owner, i64>,
    pub(super) longest_read: Option<i64>,
    /// What another server knew.
    pub(super) before: Before,
    /// Who was granted the lock by a message while others waited, and has not been heard of.
    pub(super) unconfirmed: Option<Owner>,
    /// The end of the lease that was seen last while somebody waited; of one that does not end, the end of time.
    pub(super) seen_end: Option<i64>,
    /// The latest end that was in force since foreign waiters were called.
    pub(super) latest_end: Option<i64>,
}

/// How often unlock messages were published in one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Published {
    /// So often, or foreign waiters oversleep.
    pub(super) least: u32,
    /// Not more often, or they are woken for nothing.
    pub(super) most: u32,
}

/// What one step shows to the outside.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// What the caller is told.
    pub(super) answer: Option<Answer>,
    /// The messages on channels of ENQUEUE that somebody hears.
    pub(super) messages: Vec<(Channel, String)>,
    /// The unlock messages of each lock.
    pub(super) published: [Published; LOCKS.len()],
    /// How often those of Redisson's at the head of a list were called on their own channels.
    pub(super) called: BTreeMap<(Lock, Owner), Published>,
    /// How many grants by message were found to have ended without a sign of their owners.
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
    /// Blocked clients, and those whose answers are on their way, by the number of their call.
    pub(super) calls: BTreeMap<usize, Answer>,
    /// How many calls have blocked.
    pub(super) blocked_so_far: usize,
    /// The grants on their way.
    pub(super) open: Vec<OpenGrant>,
    /// The grants that are to be taken back.
    pub(super) revokes: Vec<OpenGrant>,
    /// Which channels somebody hears.
    pub(super) heard: [bool; CHANNELS.len()],
    /// Whether somebody listens on the unlock channels.
    pub(super) listened: bool,
    pub(super) ground: Ground,
    pub(super) primary: bool,
    pub(super) accept: bool,
    /// What is seen after this step.
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
            calls: BTreeMap::new(),
            blocked_so_far: 0,
            open: Vec::new(),
            revokes: Vec::new(),
            heard: [true; CHANNELS.len()],
            listened: false,
            ground: Ground::Firm,
            primary: true,
            accept: true,
            after: After::default(),
            seen: Seen::default(),
        }
    }

    /// What the key holds now; a lease that has passed is no lease.
    pub(super) fn value(&self, lock: Lock) -> Value {
        let value = self.places[lock.0].value;
        let is_over = value.key_end().flatten().is_some_and(|at| self.now > at);
        if is_over { Value::Nothing } else { value }
    }

    /// Who waits for a lock, in order.
    pub(super) fn queue(&self, lock: Lock) -> &[Waiter] {
        &self.places[lock.0].queue
    }

    pub(super) fn place(&mut self, lock: Lock) -> &mut Place {
        &mut self.places[lock.0]
    }

    /// The token that an acquisition would get now; `None` where it can get none. 0 where it asks for none.
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
        let told = (value != Value::Nothing).then(|| value.key_end().flatten().unwrap_or(i64::MAX));
        let place = self.place(lock);
        if value != Value::Nothing && place.queue.is_empty() {
            place.called = None;
        }
        place.value = value;
        place.latest_end = place.latest_end.max(told);
    }

    /// Takes one who waits out of the queue; what is known of a queue is forgotten with it, and a plain lock's window.
    pub(super) fn remove(&mut self, lock: Lock, at: usize) -> Waiter {
        let place = self.place(lock);
        let waiter = place.queue.remove(at);
        if waiter.fair {
            place.gone.push(waiter.owner);
        }
        place.list_touched &= place.queue.iter().any(|waiter| waiter.fair);
        if place.queue.is_empty() {
            place.called = None;
            if !matches!(waiter.word, Word::Read | Word::Write) {
                place.row.yielding.close_window();
            }
            place.unconfirmed = None;
            place.seen_end = None;
        }
        waiter
    }

    /// Says it on a channel, if somebody is there to hear: whether anybody is.
    pub(super) fn tell(&mut self, channel: Channel, message: String) -> bool {
        let heard = self.heard[channel.0];
        if heard {
            self.seen.messages.push((channel, message));
        }
        heard
    }

    /// Tells a waiter who is out of the queue.
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
