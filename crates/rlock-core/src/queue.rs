//! Who waits for which lock, in what order, and until when.
//!
//! One queue per lock, strictly first come, first served; one entry per owner. The queues hold no lock
//! state: whether a lock is free is asked of the server each time. Points in time only say when to look.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::rc::Rc;

use crate::error::Error;
use crate::types::{Expiry, LeaseMs, MonoMs, UnixMs};

/// A lock by its database and key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockId {
    /// The database's number.
    pub db: i32,
    /// The key.
    pub key: Box<[u8]>,
}

/// One waiting call of one client; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Somebody who waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Who.
    pub owner: Box<[u8]>,
    /// The lease that the grant gets.
    pub lease: LeaseMs,
    /// Since when.
    pub since: MonoMs,
    /// Until when; for ever where there is none.
    pub until: Option<MonoMs>,
    /// The call that is to be answered.
    pub ticket: Ticket,
}

/// A grant whose answer has not reached its client yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The call that is being answered.
    pub ticket: Ticket,
    /// Who was granted the lock.
    pub owner: Box<[u8]>,
    /// When the granted lease ends: a lease with another end is another lease.
    pub ends: UnixMs,
}

/// How many may wait.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// On the whole server.
    pub server: usize,
    /// For one lock.
    pub lock: usize,
}

/// The queues of all locks.
#[derive(Debug, Default)]
pub struct Queues {
    locks: HashMap<Rc<LockId>, Queue>,
    /// Where each call stands.
    places: HashMap<Ticket, (Rc<LockId>, Place)>,
    /// When waits end.
    ends: BTreeSet<(MonoMs, Ticket)>,
    /// When to look at locks.
    wakes: BTreeSet<(UnixMs, Rc<LockId>)>,
    /// The newest grant of a lock, as long as nobody knows that it arrived.
    unanswered: HashMap<LockId, Grant>,
    /// Grants whose clients went before the answer.
    take_backs: VecDeque<(LockId, Grant)>,
    next_place: Place,
}

type Place = u64;

#[derive(Debug, Default)]
struct Queue {
    order: BTreeMap<Place, Waiter>,
    owners: HashMap<Box<[u8]>, Place>,
    wake: Option<UnixMs>,
    /// The end of the lease that was last seen, which is what foreign waiters were told.
    told: Option<Expiry>,
}

impl Queues {
    /// Whether nobody waits and no grant is under way.
    pub fn is_idle(&self) -> bool {
        self.places.is_empty() && self.unanswered.is_empty() && self.take_backs.is_empty()
    }

    /// How many wait on the whole server.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// How many wait for a lock.
    pub fn waiting_for(&self, lock: &LockId) -> usize {
        self.locks.get(lock).map_or(0, |queue| queue.order.len())
    }

    /// Puts somebody at the end of a lock's queue. Who is in it already keeps the place; the call that
    /// waited there is returned: it is answered no more.
    pub fn join(&mut self, lock: &LockId, waiter: Waiter, limits: Limits) -> Result<Option<Ticket>, Error> {
        let known = self.locks.get_key_value(lock);
        let place = known.and_then(|(_, queue)| queue.owners.get(&waiter.owner).copied());
        if place.is_none() && (self.len() >= limits.server || self.waiting_for(lock) >= limits.lock) {
            return Err(Error::QueueFull);
        }
        let lock = known.map_or_else(|| Rc::new(lock.clone()), |(lock, _)| Rc::clone(lock));
        let place = place.unwrap_or_else(|| {
            self.next_place = self.next_place.wrapping_add(1);
            self.next_place
        });
        let replaced = self.remove(&lock, place);
        self.places.insert(waiter.ticket, (Rc::clone(&lock), place));
        if let Some(until) = waiter.until {
            self.ends.insert((until, waiter.ticket));
        }
        let queue = self.locks.entry(lock).or_default();
        queue.owners.insert(waiter.owner.clone(), place);
        queue.order.insert(place, waiter);
        Ok(replaced.map(|waiter| waiter.ticket))
    }

    /// Who is next.
    pub fn head(&self, lock: &LockId) -> Option<&Waiter> {
        self.locks.get(lock)?.order.values().next()
    }

    /// Everybody who waits for a lock, in order.
    pub fn in_order(&self, lock: &LockId) -> impl Iterator<Item = &Waiter> {
        self.locks.get(lock).into_iter().flat_map(|queue| queue.order.values())
    }

    /// Takes the one who is next out of the queue.
    pub fn pop(&mut self, lock: &LockId) -> Option<Waiter> {
        let (lock, queue) = self.locks.get_key_value(lock)?;
        let place = *queue.order.keys().next()?;
        let lock = Rc::clone(lock);
        self.remove_and_tidy(&lock, place)
    }

    /// Takes an owner out of a lock's queue.
    pub fn cancel(&mut self, lock: &LockId, owner: &[u8]) -> Option<Waiter> {
        let (lock, queue) = self.locks.get_key_value(lock)?;
        let place = *queue.owners.get(owner)?;
        let lock = Rc::clone(lock);
        self.remove_and_tidy(&lock, place)
    }

    /// Takes a call out of whatever queue it waits in; `None` if it waits no more.
    pub fn leave(&mut self, ticket: Ticket) -> Option<Waiter> {
        let (lock, place) = self.places.get(&ticket)?.clone();
        self.remove_and_tidy(&lock, place)
    }

    /// Takes out everybody whose wait has ended.
    pub fn timed_out(&mut self, now: MonoMs) -> Vec<Waiter> {
        let due = self.ends.iter().take_while(|(until, _)| *until <= now);
        let due: Vec<_> = due.map(|(_, ticket)| *ticket).collect();
        due.into_iter().filter_map(|ticket| self.leave(ticket)).collect()
    }

    /// Takes out everybody who waits for a lock.
    pub fn drain(&mut self, lock: &LockId) -> Vec<Waiter> {
        std::iter::from_fn(|| self.pop(lock)).collect()
    }

    /// Takes out everybody, and forgets what was to be taken back.
    pub fn drain_all(&mut self) -> Vec<Waiter> {
        let all = std::mem::take(&mut self.locks);
        let next_place = self.next_place;
        *self = Self { next_place, ..Self::default() };
        all.into_values().flat_map(|queue| queue.order.into_values()).collect()
    }

    fn remove_and_tidy(&mut self, lock: &Rc<LockId>, place: Place) -> Option<Waiter> {
        let waiter = self.remove(lock, place);
        if self.locks.get(lock).is_some_and(|queue| queue.order.is_empty()) {
            self.wake_at(lock, None);
            self.locks.remove(lock);
        }
        waiter
    }

    fn remove(&mut self, lock: &Rc<LockId>, place: Place) -> Option<Waiter> {
        let queue = self.locks.get_mut(lock)?;
        let waiter = queue.order.remove(&place)?;
        queue.owners.remove(&waiter.owner);
        self.places.remove(&waiter.ticket);
        if let Some(until) = waiter.until {
            self.ends.remove(&(until, waiter.ticket));
        }
        Some(waiter)
    }
}

/// When to look.
impl Queues {
    /// The lock was seen held until then: look again after that.
    pub fn seen_held(&mut self, lock: &LockId, expiry: Expiry) {
        let wake = match expiry {
            // The server takes a key for expired when its time has passed, not when it has come.
            Expiry::At(at) => Some(UnixMs(at.0.saturating_add(1))),
            // Nothing but an event will free it.
            Expiry::Never => None,
        };
        self.wake_at(lock, wake);
        if let Some(queue) = self.locks.get_mut(lock) {
            queue.told = Some(expiry);
        }
    }

    /// The end of the lease that was last seen.
    pub fn last_seen(&self, lock: &LockId) -> Option<Expiry> {
        self.locks.get(lock)?.told
    }

    /// A lock with waiters is to be looked at, or looked at again, then; never, but for an event, where
    /// no time is given.
    pub fn wake_at(&mut self, lock: &LockId, wake: Option<UnixMs>) {
        let Some((lock, _)) = self.locks.get_key_value(lock) else { return };
        let lock = Rc::clone(lock);
        let Some(queue) = self.locks.get_mut(&lock) else { return };
        let before = std::mem::replace(&mut queue.wake, wake);
        if let Some(before) = before {
            self.wakes.remove(&(before, Rc::clone(&lock)));
        }
        if let Some(wake) = wake {
            self.wakes.insert((wake, lock));
        }
    }

    /// Every lock with waiters is to be looked at now.
    pub fn wake_all(&mut self, now: UnixMs) {
        let locks: Vec<_> = self.locks.keys().cloned().collect();
        for lock in locks {
            self.wake_at(&lock, Some(now));
        }
    }

    /// The locks to look at by now, each with waiters; who looks says when to look again.
    pub fn due(&self, now: UnixMs) -> Vec<LockId> {
        let due = self.wakes.iter().take_while(|(wake, _)| *wake <= now);
        due.map(|(_, lock)| (**lock).clone()).collect()
    }

    /// In how many ms there is something to do; `None` if nothing ever is.
    pub fn next_in(&self, now: UnixMs, clock: MonoMs) -> Option<u64> {
        if !self.take_backs.is_empty() {
            return Some(0);
        }
        let wake = self.wakes.first().map(|(wake, _)| wake.0.saturating_sub(now.0).max(0).unsigned_abs());
        let end = self.ends.first().map(|(end, _)| end.0.saturating_sub(clock.0));
        wake.into_iter().chain(end).min()
    }
}

/// Grants on their way.
impl Queues {
    /// A lock was granted; the answer is on its way.
    pub fn granted(&mut self, lock: &LockId, grant: Grant) {
        // A grant of the same lock before this one is over, or the lock could not have been granted.
        self.unanswered.insert(lock.clone(), grant);
    }

    /// The owner was heard of, or the answer has arrived: the grant stands.
    pub fn settle(&mut self, lock: &LockId, owner: &[u8]) {
        if self.unanswered.get(lock).is_some_and(|grant| *grant.owner == *owner) {
            self.unanswered.remove(lock);
        }
        self.take_backs.retain(|(other, grant)| other != lock || *grant.owner != *owner);
    }

    /// The answer of this call has arrived.
    pub fn answered(&mut self, lock: &LockId, ticket: Ticket) {
        if self.unanswered.get(lock).is_some_and(|grant| grant.ticket == ticket) {
            self.unanswered.remove(lock);
        }
    }

    /// The client went before the answer of this call: its grant, if it still stands open, is to be
    /// taken back.
    pub fn unanswerable(&mut self, lock: &LockId, ticket: Ticket) {
        if self.unanswered.get(lock).is_some_and(|grant| grant.ticket == ticket) {
            let grant = self.unanswered.remove(lock);
            self.take_backs.extend(grant.map(|grant| (lock.clone(), grant)));
        }
    }

    /// The next grant to take back.
    pub fn next_take_back(&mut self) -> Option<(LockId, Grant)> {
        self.take_backs.pop_front()
    }
}
