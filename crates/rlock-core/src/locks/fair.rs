//! The waiters that are also in the fair list.

use super::leaving::Walk;
use super::rare::Rare;
use super::record::LockRecord;
use super::records::Records;
use super::{Job, LockName, LockRef, Locks, Waiter};
use crate::types::{Mode, MonoMs};
use crate::weight::take_weighed;

impl Records {
    /// Whether a lock has waiters in its fair list.
    pub fn has_fair(&self, lock: LockName<'_>) -> bool {
        self.queue(lock).is_some_and(|queue| queue.fair > 0)
    }

    /// The number of a lock's waiters that are also in its fair list.
    pub fn count_fair(&self, lock: LockName<'_>) -> usize {
        self.queue(lock).map_or(0, |queue| queue.fair)
    }

    /// The waiter of this owner, if it is also in the lock's fair list.
    pub fn fair_waiter(&self, lock: LockName<'_>, owner: &[u8]) -> Option<&Waiter> {
        let queue = self.queue(lock).filter(|queue| queue.fair > 0)?;
        queue.waiters.find(owner, Mode::Mutex).filter(|waiter| waiter.fair)
    }

    /// Notes that a Redisson waiter's turn has come. True for the first call since the lock became free, if the lock has native waiters.
    pub fn note_called(&mut self, lock: LockName<'_>, owner: &[u8]) -> bool {
        let Some(queue) = self.queue_mut(lock) else { return false };
        let is_first_call = queue.called() != Some(owner);
        queue.set_called(Some(owner));
        is_first_call
    }

    /// Whether this Redisson waiter was called since the lock became free.
    pub fn was_called(&self, lock: LockName<'_>, owner: &[u8]) -> bool {
        self.queue(lock).is_some_and(|queue| queue.called() == Some(owner))
    }

    /// The lock is held again: a Redisson waiter whose turn comes after that is called again.
    pub fn forget_called(&mut self, lock: LockName<'_>) {
        if let Some(queue) = self.queue_mut(lock) {
            queue.set_called(None);
        }
    }

    /// Another client may have changed this lock's fair list: true if native waiters are in it.
    pub fn note_fair_change(&mut self, lock: LockName<'_>) -> bool {
        let Some(queue) = self.queue_mut(lock).filter(|queue| queue.fair > 0) else { return false };
        queue.fair_changed = true;
        queue.set_fair_checked(None);
        true
    }

    /// The waiters to look for in the lock's fair list, in their order: the first ones, up to a weight of `most`, after another client
    /// may have changed it, or the first one if it was not the first before.
    pub fn fair_to_check(&self, lock: LockName<'_>, most: usize) -> Vec<Box<[u8]>> {
        let Some(queue) = self.queue(lock).filter(|queue| queue.fair > 0) else { return Vec::new() };
        let head = queue.first_fair();
        let is_new = head.is_some() && queue.fair_checked() != head;
        let most = if queue.fair_changed { most } else { is_new.into() };
        let fair = queue.waiters.iter().take(most).filter(|waiter| waiter.fair);
        take_weighed(most, fair.map(|waiter| waiter.owner.clone())).items
    }

    /// The waiters of [`Self::fair_to_check`] are in the lock's fair list now.
    pub fn fair_list_checked(&mut self, lock: LockName<'_>) {
        if let Some(queue) = self.queue_mut(lock).filter(|queue| queue.fair > 0) {
            queue.fair_changed = false;
            queue.set_fair_checked(queue.first_fair());
        }
    }

    /// The lock's fair list needs no check: it is on another server.
    pub fn forget_fair_change(&mut self, lock: LockName<'_>) {
        if let Some(queue) = self.queue_mut(lock) {
            queue.fair_changed = false;
        }
    }

    /// Whether another client may have changed a lock's fair list since the last check.
    pub fn fair_has_changed(&self, lock: LockName<'_>) -> bool {
        self.queue(lock).is_some_and(|queue| queue.fair_changed)
    }
}

impl Locks {
    /// Removes all waiters as [`Self::drain_all`] does, but keeps the pending work on fair lists: the removed waiters must
    /// leave them too.
    pub fn drain_all_but_fair_lists(&mut self) -> Vec<(LockRef, Waiter)> {
        let mut departed = Vec::new();
        for lock in self.agenda.all_even_parked(Job::LeaveFairList) {
            let leaving = self.records.edit(lock.name(), |record| record.leaving.take());
            departed.push((lock, leaving));
        }
        let uncapped = self.agenda.all_even_parked(Job::CapFairList);
        let all = self.drain_all();
        for (lock, before) in departed {
            self.edit_leaving(lock.name(), |leaving| *leaving = before);
        }
        for (lock, waiter) in all.iter().filter(|(_, waiter)| waiter.fair) {
            self.note_departed(lock.name(), &waiter.owner);
        }
        uncapped.into_iter().for_each(|lock| self.note_fair_uncapped(lock));
        // The caller was interrupted, perhaps as the timer fired: the timer must be set again.
        self.agenda.timer_fired_or_lost();
        all
    }

    /// Whether this lock's fair list is doubted, and was not met before.
    pub fn doubts_fair_list(&self, lock: LockName<'_>, clock: MonoMs) -> bool {
        let met = |rare: &Rare| rare.is_capped || rare.uncapped.is_some();
        let is_met = || self.records.known(lock).and_then(LockRecord::rare).is_some_and(met);
        self.role.doubts_fair_lists_at(clock) && !is_met()
    }

    /// Notes that this lock's fair list may have entries that this server cannot tell alive from dead.
    pub fn note_fair_uncapped(&mut self, lock: LockRef) {
        self.records.edit(lock.name(), |record| record.rare_mut().uncapped = Some(Walk::default()));
        self.agenda.push(Job::CapFairList, lock);
    }

    /// The fair list must not be written here, or not yet: its slot migrates.
    pub fn defer_fair_list(&mut self, lock: LockName<'_>) {
        let name = self.records.shared_name(lock);
        self.records.edit(lock, |record| record.rare_mut().uncapped = Some(Walk::default()));
        self.agenda.park(Job::CapFairList, name);
    }

    /// The number of entries at the end of a lock's fair list that were checked; `None` without a list to check.
    pub fn capped_so_far(&self, lock: LockName<'_>) -> Option<usize> {
        Some(self.records.known(lock)?.rare()?.uncapped?.passed(self.role.era()))
    }

    /// Notes that this number of entries at the end of the fair list was checked, and that the entries before them are
    /// next; `None` after the last.
    pub fn capped(&mut self, lock: LockRef, passed: Option<usize>) {
        let (met, era) = (self.role.doubts_fair_lists(), self.role.era());
        self.records.edit(lock.name(), |record| {
            let rare = record.rare_mut();
            (rare.uncapped, rare.is_capped) =
                (passed.map(|passed| Walk::at(passed, era)), met && passed.is_none());
        });
        if passed.is_none() {
            self.agenda.remove(Job::CapFairList, &lock);
        }
    }
}
