//! The waiters of one lock, in their order.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::waited::Pending;
use super::{Cause, Due, LockRef, Place, Session, Ticket};
use crate::types::{Expiry, LeaseMs, Mode, MonoMs, PermitLimit};
use crate::weight::Weighed;

/// A waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Its owner.
    pub owner: Box<[u8]>,
    /// The mode in which it wants the lock.
    pub mode: Mode,
    /// PERMITS: how many owners may hold the lock at once.
    pub permits: Option<PermitLimit>,
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
}

/// What a waiter wants of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The mode in which it wants the lock.
    pub mode: Mode,
    /// PERMITS: how many owners may hold the lock at once.
    pub permits: Option<PermitLimit>,
}

impl Wanted {
    /// A plain lock.
    pub const MUTEX: Self = Self { mode: Mode::Mutex, permits: None };
}

impl Waiter {
    /// Whether the lock may be free for this waiter once an earlier one has left: as one more reader, or because the two
    /// wanted it in different ways. Two that want it alone, in one mode and both with or without FAIR, wait for the same event.
    pub(super) fn may_gain_by_the_end_of(&self, gone: &Self) -> bool {
        let joins = matches!(self.mode, Mode::Read | Mode::Permit);
        joins || self.mode != gone.mode || self.fair != gone.fair
    }

    /// What it wants.
    pub fn wanted(&self) -> Wanted {
        Wanted { mode: self.mode, permits: self.permits }
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
    pub(super) order: BTreeMap<Place, Waiter>,
    pub(super) owners: BTreeMap<(Box<[u8]>, Mode), Place>,
    pub(super) channels: BTreeMap<Rc<[u8]>, BTreeSet<Place>>,
    /// When the lock is due to be served.
    pub(super) due: Option<Due>,
    /// How many stand in the fair list as well.
    pub(super) fair: usize,
    /// Whether another client may have changed the fair list since it was last checked.
    pub(super) fair_changed: bool,
    /// The first waiter, if it was found in the fair list.
    pub(super) fair_checked: Option<Place>,
    /// Whether more waiters can have the lock than were served at once: the timer serves the others.
    pub(super) unserved: bool,
    /// Whether dead readers must be removed before it is known whether the first waiter can have the lock.
    pub(super) in_doubt: bool,
    /// The Redisson waiter that was called since the lock became free.
    pub(super) called: Option<Box<[u8]>>,
    /// The lease end that was last seen.
    pub(super) ends: Option<Expiry>,
    /// What has happened to the key since it was seen.
    pub(super) seen: Option<Cause>,
    /// The latest lease end that waiting Redisson clients may know since they were last called.
    pub(super) told: Option<Expiry>,
    /// The owner of an unconfirmed grant by message, until the grant is confirmed or ends.
    pub(super) unconfirmed: Option<Box<[u8]>>,
    /// Waiting time that the table of hot locks does not contain yet.
    pub(super) pending: Pending,
}

impl Queue {
    /// The place of the first waiter, if it is in the fair list too.
    pub(super) fn first_fair(&self) -> Option<Place> {
        self.order.first_key_value().filter(|(_, head)| head.fair).map(|(place, _)| *place)
    }

    /// Adds a waiter at a place.
    pub(super) fn join(&mut self, place: Place, mut waiter: Waiter) {
        self.fair = self.fair.saturating_add(waiter.fair.into());
        self.owners.insert((waiter.owner.clone(), waiter.mode), place);
        if let Via::Enqueue(channel) = &mut waiter.via {
            // All waiters on a channel share one copy of its name.
            let known = self.channels.get_key_value(channel).map(|(known, _)| Rc::clone(known));
            let shared = known.unwrap_or_else(|| Rc::clone(channel));
            self.channels.entry(Rc::clone(&shared)).or_default().insert(place);
            *channel = shared;
        }
        if self.order.is_empty() {
            self.pending.begin(waiter.since);
        }
        self.order.insert(place, waiter);
    }

    /// Removes the waiter at a place.
    pub(super) fn remove(&mut self, place: Place) -> Option<Waiter> {
        let waiter = self.order.remove(&place)?;
        self.owners.remove(&(waiter.owner.clone(), waiter.mode));
        if let Via::Enqueue(channel) = &waiter.via
            && let Some(places) = self.channels.get_mut(channel)
        {
            places.remove(&place);
            if places.is_empty() {
                self.channels.remove(channel);
            }
        }
        if waiter.fair {
            self.fair = self.fair.saturating_sub(1);
            // With no native left to put back, a check of the list would be due for ever.
            self.fair_changed &= self.fair > 0;
            self.fair_checked = self.fair_checked.filter(|checked| *checked != place);
        }
        Some(waiter)
    }
}
