//! Redisson's fair lock: what its scripts do, naively.

use std::collections::VecDeque;

use rlock_core::facts::FairEntry;
use rlock_core::{Expiry, UnixMs, observed};

use super::{LEASE, Scene, lease, lock};

/// A Redisson client of a fair lock.
pub(crate) struct Redisson<'a> {
    pub(super) scene: &'a Scene,
    pub(super) number: u8,
    pub(super) owner: &'a [u8],
    /// How many ms its clock is ahead of the server's.
    pub(super) ahead: i64,
    /// How long it waits, in ms.
    pub(super) budget: i64,
}

impl Redisson<'_> {
    /// Takes the lock, or queues for it: true if it has it.
    pub(crate) fn take(&self) -> bool {
        let id = lock(self.number);
        let holds = self.holds();
        let (free, left) = self.scene.see(|world| {
            let left = world.hold(&id).map_or(0, |hold| hold.expiry.left(world.now));
            (world.is_free(&id), left)
        });
        let first = self.write(|list, now| {
            drop_the_dead(list, now);
            let first = list.front().is_none_or(|head| *head.owner == *self.owner);
            if free && first {
                list.pop_front();
                list.iter_mut().for_each(|entry| self.lower(entry));
            } else if !holds && list.iter().all(|entry| *entry.owner != *self.owner) {
                let before = list.back().and_then(|last| last.deadline).map_or(now.0 + left, |last| last.0);
                let deadline = Some(UnixMs(before + self.budget));
                list.push_back(FairEntry { owner: self.owner.into(), deadline });
            }
            first
        });
        let ends = self.scene.see(|world| world.now.after(lease(LEASE)));
        free && first && self.scene.sim.acquire_as_other(&id, self.owner, Expiry::At(ends))
    }

    /// Releases the lock.
    pub(crate) fn give_back(&self) -> bool {
        self.write(drop_the_dead);
        let holds = self.holds();
        if holds {
            self.scene.sim.write_as_other(&lock(self.number), None);
        }
        holds
    }

    /// Gives up waiting.
    pub(crate) fn give_up(&self) {
        self.write(|list, _| {
            let behind = list.iter_mut().skip_while(|entry| *entry.owner != *self.owner).skip(1);
            behind.for_each(|entry| self.lower(entry));
            list.retain(|entry| *entry.owner != *self.owner);
        });
    }

    /// Whether it has the lock.
    pub(crate) fn holds(&self) -> bool {
        self.scene.see(|world| world.hold(&lock(self.number)).is_some_and(|hold| *hold.owner == *self.owner))
    }

    fn lower(&self, entry: &mut FairEntry) {
        entry.deadline = entry.deadline.map(|deadline| UnixMs(deadline.0 - self.budget));
    }

    /// A script writes the list by the clock of its client, and the server tells the module of that.
    fn write<T>(&self, script: impl FnOnce(&mut VecDeque<FairEntry>, UnixMs) -> T) -> T {
        let id = lock(self.number);
        let (done, changed) = self.scene.sim.with(|world| {
            let now = UnixMs(world.now.0 + self.ahead);
            let list = world.fair.entry(id.clone()).or_default();
            let before = list.clone();
            let done = script(list, now);
            (done, before != *list)
        });
        if changed {
            observed::fair_list_changed(self.scene.sim.node(), id.name(), observed::ListChange::Anywhere);
        }
        done
    }
}

fn drop_the_dead(list: &mut VecDeque<FairEntry>, now: UnixMs) {
    while list.front().is_some_and(|head| head.deadline.is_none_or(|deadline| deadline <= now)) {
        list.pop_front();
    }
}
