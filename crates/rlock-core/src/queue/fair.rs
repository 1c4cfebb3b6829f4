//! Who stands in the list of Redisson's fair lock as well.

use std::mem::take;

use super::departures::Walk;
use super::{LockId, Queues, Waiter};
use crate::types::Mode;

impl Queues {
    /// Whether anybody who waits for a lock stands in its list.
    pub fn has_fair(&self, lock: &LockId) -> bool {
        self.locks.get(lock).is_some_and(|queue| queue.fair > 0)
    }

    /// The one of this name who waits for a lock and stands in its list.
    pub fn fair_waiter(&self, lock: &LockId, owner: &[u8]) -> Option<&Waiter> {
        let queue = self.locks.get(lock).filter(|queue| queue.fair > 0)?;
        let place = queue.owners.get(&(Box::from(owner), Mode::Mutex))?;
        queue.order.get(place).filter(|waiter| waiter.fair)
    }

    /// All those, in the order in which they came.
    pub fn fair_owners(&self, lock: &LockId) -> Vec<Box<[u8]>> {
        let fair = self.in_order(lock).filter(|waiter| waiter.fair);
        fair.map(|waiter| waiter.owner.clone()).collect()
    }

    /// One of Redisson's has its turn: true the first time since the lock is free, where anybody waits here.
    pub fn note_called(&mut self, lock: &LockId, owner: &[u8]) -> bool {
        let Some(queue) = self.locks.get_mut(lock) else { return false };
        let first = queue.called.as_deref() != Some(owner);
        queue.called = Some(owner.into());
        first
    }

    /// Whether this one of Redisson's was called since the lock is free.
    pub fn was_called(&self, lock: &LockId, owner: &[u8]) -> bool {
        self.locks.get(lock).is_some_and(|queue| queue.called.as_deref() == Some(owner))
    }

    /// Somebody else may have changed this lock's list: true if anybody here stands in it.
    pub fn note_fair_change(&mut self, lock: &LockId) -> bool {
        let Some(queue) = self.locks.get_mut(lock).filter(|queue| queue.fair > 0) else { return false };
        queue.fair_changed = true;
        true
    }

    /// Whether somebody else may have changed this lock's list since the last time of asking.
    pub fn take_fair_change(&mut self, lock: &LockId) -> bool {
        self.locks.get_mut(lock).is_some_and(|queue| take(&mut queue.fair_changed))
    }

    /// Takes out everybody as [`Self::drain_all`] does, but what is to be done about lists stays known: who is taken out
    /// here is to leave them as well.
    pub fn drain_all_and_lists(&mut self) -> Vec<(LockId, Waiter)> {
        let (mut gone, mut unknown) = (take(&mut self.fair_gone), take(&mut self.fair_unknown));
        unknown.extend(take(&mut self.lists_moving).into_iter().map(|lock| (lock, Walk::default())));
        let all = self.drain_all();
        for (lock, waiter) in all.iter().filter(|(_, waiter)| waiter.fair) {
            let place = self.new_place();
            gone.entry(lock.clone()).or_default().add(waiter.owner.clone(), place);
        }
        (self.fair_gone, self.fair_unknown) = (gone, unknown);
        // Whoever calls this was interrupted, perhaps as the timer fired: let it be set anew.
        self.timer_is_gone();
        all
    }

    /// In this lock's list somebody may stand of whom nobody here knows whether it lives.
    pub fn note_fair_unknown(&mut self, lock: LockId) {
        self.fair_unknown.insert(lock, Walk::default());
    }

    /// The list is not to be written here, or not yet: its slot is on its way.
    pub fn list_is_moving(&mut self, lock: &LockId) {
        self.lists_moving.insert(lock.clone());
    }

    /// The next lock of [`Self::note_fair_unknown`], and how many entries at the end of its list were seen.
    pub fn next_fair_unknown(&mut self) -> Option<(LockId, usize)> {
        self.fair_unknown.pop_first().map(|(lock, walk)| (lock, walk.passed()))
    }

    /// So many entries at the end of the list were seen; those before them are next.
    pub fn go_on_with_unknown(&mut self, lock: LockId, passed: usize) {
        self.fair_unknown.insert(lock, Walk::at(passed));
    }

    /// Whether somebody else has changed the list of a lock since it was last looked at.
    pub fn list_has_changed(&self, lock: &LockId) -> bool {
        self.locks.get(lock).is_some_and(|queue| queue.fair_changed)
    }
}
