//! The waiters of one lock, in their order.

use std::rc::Rc;

use super::waited::Pending;
use super::waiters::Waiters;
use super::{Cause, Due, LockName, LockRef, Locks, Place, Session, Ticket, User};
use crate::error::Error;
use crate::types::{Expiry, LeaseMs, Mode, MonoMs, Wanted};
use crate::weight::Weighed;

/// A waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Its owner.
    pub owner: Box<[u8]>,
    /// What it wants of the lock.
    pub wanted: Wanted,
    /// The lease of the grant.
    pub lease: LeaseMs,
    /// Whether the grant gets a fencing token.
    pub fenced: bool,
    /// Whether the fair list also has it.
    pub fair: bool,
    /// The start of the wait.
    pub since: MonoMs,
    /// The end of the wait; `None` waits for ever.
    pub until: Option<MonoMs>,
    /// The call that waits.
    pub ticket: Ticket,
    /// How it receives the outcome.
    pub via: Via,
    /// The id of the client that called.
    pub client_id: u64,
    /// SESSION: the connection with which its wait, or its hold after the grant, ends.
    pub session: Option<Session>,
    /// The user of the call; `None` for the default user, whose number of waiters only the limits of the server bound.
    pub user: Option<User>,
}

impl Waiter {
    /// Whether the lock may be free for this waiter once an earlier one has left: as one more reader, or because the two
    /// wanted it in different ways. Two that want it alone, in one mode and both with or without FAIR, wait for the same event.
    pub(super) fn may_gain_by_the_end_of(&self, gone: &Self) -> bool {
        let joins = matches!(self.wanted, Wanted::Read | Wanted::Permit(_));
        joins || self.wanted != gone.wanted || self.fair != gone.fair
    }

    /// The mode in which it wants the lock.
    pub fn mode(&self) -> Mode {
        self.wanted.mode()
    }
}

impl Weighed for Waiter {
    fn bytes(&self) -> usize {
        let channel = if let Via::Enqueue(channel) = &self.via { channel.len() } else { 0 };
        self.owner.len().saturating_add(channel)
    }
}

/// A waiter, and its lock.
impl Weighed for (LockRef, Waiter) {
    fn bytes(&self) -> usize {
        self.0.bytes().saturating_add(self.1.bytes())
    }
}

/// How a waiter receives the outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Via {
    /// Its client is blocked, and receives the reply.
    Block,
    /// A message on this channel.
    Enqueue(Rc<[u8]>),
}

/// The waiters of one lock, and what was last seen of the lock that they wait for.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    pub(super) waiters: Waiters,
    /// When the lock is due to be served.
    pub(super) due: Option<Due>,
    /// How many stand in the fair list as well.
    pub(super) fair: usize,
    /// Whether another client may have changed the fair list since it was last checked.
    pub(super) fair_changed: bool,
    /// The state of the fair list, if the lock has one.
    fair_list: Option<Box<FairList>>,
    /// Whether more waiters can have the lock than were served at once: the timer serves the others.
    pub(super) unserved: bool,
    /// Whether dead readers must be removed before it is known whether the first waiter can have the lock.
    pub(super) in_doubt: bool,
    /// Whether the server must be asked if it still serves the lock's slot.
    pub(super) slot_in_doubt: bool,
    /// The lease end that was last seen.
    pub(super) ends: Option<Expiry>,
    /// What has happened to the key since it was seen.
    pub(super) seen: Option<Cause>,
    /// The latest lease end that waiting Redisson clients may know since they were last called.
    pub(super) announced_end: Option<Expiry>,
    /// The owner of an unconfirmed grant by message, until the grant is confirmed or ends.
    pub(super) unconfirmed: Option<Box<[u8]>>,
    /// Waiting time that the table of hot locks does not contain yet.
    pub(super) pending: Pending,
}

/// The state of a fair list.
#[derive(Clone, Debug, Default)]
pub(super) struct FairList {
    /// The first waiter, if it was found in the list.
    checked: Option<Place>,
    /// The Redisson waiter that was called since the lock became free.
    called: Option<Box<[u8]>>,
}

/// The work after the departure of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Departure {
    /// No waiter is left.
    QueueEnded,
    /// The waiter that is first now may have the lock.
    MayServe,
    NothingToDo,
}

impl Locks {
    /// Fails if an owner that asks in this mode would stand behind its own wait to read: a reader keeps every writer out.
    pub fn check_upgrade(&self, lock: LockName<'_>, owner: &[u8], mode: Mode) -> Result<(), Error> {
        let waits = |queue: &Queue, mode| queue.waiters.place_of(owner, mode).is_some();
        // A writer that repeats its call keeps its place, which is before that of the reader.
        let is_behind = |queue: &Queue| waits(queue, Mode::Read) && !waits(queue, Mode::Write);
        let waits_for_itself = mode == Mode::Write && self.queue(lock).is_some_and(is_behind);
        if waits_for_itself { Err(Error::Upgrade) } else { Ok(()) }
    }
}

impl Queue {
    /// The place of the first waiter, if it is in the fair list too.
    pub(super) fn first_fair(&self) -> Option<Place> {
        self.waiters.first().filter(|(_, head)| head.fair).map(|(place, _)| place)
    }

    /// The first waiter, if it was found in the fair list.
    pub(super) fn fair_checked(&self) -> Option<Place> {
        self.fair_list.as_ref()?.checked
    }

    /// The first waiter was found in the fair list, or none was.
    pub(super) fn set_fair_checked(&mut self, checked: Option<Place>) {
        if checked.is_some() || self.fair_list.is_some() {
            self.fair_list.get_or_insert_default().checked = checked;
        }
    }

    /// The Redisson waiter that was called since the lock became free.
    pub(super) fn called(&self) -> Option<&[u8]> {
        self.fair_list.as_ref()?.called.as_deref()
    }

    /// A Redisson waiter was called, or the lock is held.
    pub(super) fn set_called(&mut self, owner: Option<&[u8]>) {
        if owner.is_some() || self.fair_list.is_some() {
            self.fair_list.get_or_insert_default().called = owner.map(Box::from);
        }
    }

    /// Sets when the lock is due to be served. Returns when it was, and when it is.
    pub(super) fn set_due(&mut self, due: Option<Due>) -> (Option<Due>, Option<Due>) {
        // A command that reads only the key must not put off the check of the fair list.
        let at_once = self.fair_changed || self.unserved;
        let due = if at_once && !self.waiters.is_empty() { Some(Due::Now) } else { due };
        (std::mem::replace(&mut self.due, due), due)
    }

    /// Adds a waiter at a place.
    pub(super) fn join(&mut self, place: Place, waiter: Waiter) {
        self.fair = self.fair.saturating_add(waiter.fair.into());
        if self.waiters.is_empty() {
            self.pending.begin(waiter.since);
        }
        self.waiters.insert(place, waiter);
    }

    /// Removes the waiter at a place.
    pub(super) fn remove(&mut self, place: Place) -> Option<Waiter> {
        let waiter = self.waiters.remove(place)?;
        if waiter.fair {
            self.fair = self.fair.saturating_sub(1);
            // With no native left to put back, a check of the list would be due for ever.
            self.fair_changed &= self.fair > 0;
            if let Some(list) = &mut self.fair_list {
                list.checked.take_if(|checked| *checked == place);
            }
        }
        Some(waiter)
    }

    /// The work after the departure of a waiter from this place.
    pub(super) fn after_departure(&self, place: Place, gone: &Waiter) -> Departure {
        match self.waiters.first() {
            None => Departure::QueueEnded,
            Some((first, head)) if first > place && head.may_gain_by_the_end_of(gone) => Departure::MayServe,
            Some(_) => Departure::NothingToDo,
        }
    }
}
