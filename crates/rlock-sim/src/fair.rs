//! Redisson's fair list, as plain data.

use std::collections::VecDeque;

use rlock_core::facts::FairEntry;
use rlock_core::locks::{LockRef, Walked};
use rlock_core::port::FairList;
use rlock_core::{LeaseMs, UnixMs};

use crate::Sim;

/// The fair list of a lock in a simulated server.
pub struct SimFairList<'a> {
    pub(crate) sim: &'a Sim,
    pub(crate) lock: &'a LockRef,
}

impl SimFairList<'_> {
    /// The owners in the fair list.
    fn list(&self) -> Vec<Box<[u8]>> {
        let names = |list: &VecDeque<FairEntry>| list.iter().map(|entry| entry.owner.clone()).collect();
        self.sim.with(|world| world.fair.get(self.lock).map_or(Vec::new(), names))
    }
}

impl FairList for SimFairList<'_> {
    fn head(&self) -> Option<FairEntry> {
        self.sim.with(|world| world.fair.get(self.lock)?.front().cloned())
    }

    fn may_have_migrated(&self) -> bool {
        false
    }

    fn has(&self, owner: &[u8]) -> bool {
        self.sim.with(|world| world.fair_entry(self.lock, owner).is_some())
    }

    fn join(&self, owner: &[u8], budget: LeaseMs) {
        let lease_ends = self.sim.with(|world| world.key_end(self.lock));
        self.sim.with(|world| world.fair_join(self.lock, owner, budget, lease_ends));
    }

    fn pop(&self, most: usize, leaves: &dyn Fn(&[u8]) -> bool) -> Vec<Box<[u8]>> {
        let first = self.list().into_iter().take(most).take_while(|owner| leaves(owner));
        let first: Vec<_> = first.collect();
        self.sim.with(|world| match world.fair.get_mut(self.lock) {
            Some(list) if !world.fair_is_stuck => {
                list.drain(..first.len());
                first
            }
            Some(_) | None => Vec::new(),
        })
    }

    fn take_out(&self, passed: usize, most: usize, leaves: &dyn Fn(&[u8]) -> bool) -> Walked {
        let list = self.list();
        let end = list.len().saturating_sub(passed);
        let start = end.saturating_sub(most);
        let (taken, stay): (Vec<_>, Vec<_>) =
            list[start..end].iter().cloned().partition(|owner| leaves(owner));
        let stuck = self.sim.with(|world| {
            let list = world.fair.get_mut(self.lock).filter(|_| !world.fair_is_stuck);
            list.map(|list| list.retain(|entry| !taken.contains(&entry.owner))).is_none()
        });
        let taken = if stuck { Vec::new() } else { taken };
        Walked { taken, passed: stay.len(), weight: end.saturating_sub(start), at_head: start == 0 }
    }

    fn forget(&self, _: &[Box<[u8]>]) {}

    fn lower(&self, passed: usize, most: usize, latest: &dyn Fn(usize, &[u8]) -> Option<UnixMs>) -> Walked {
        let list = self.list();
        let end = list.len().saturating_sub(passed);
        let start = end.saturating_sub(most);
        for (place, owner) in list.iter().enumerate().take(end).skip(start) {
            let Some(latest) = latest(place, owner) else { continue };
            self.sim.with(|world| {
                let deadline = world.fair_entry(self.lock, owner).and_then(|entry| entry.deadline.as_mut());
                if let Some(deadline) = deadline {
                    *deadline = latest.min(*deadline);
                }
            });
        }
        let passed = end.saturating_sub(start);
        Walked { taken: Vec::new(), passed, weight: passed, at_head: start == 0 }
    }

    fn deadline(&self, owner: &[u8]) -> Option<UnixMs> {
        self.sim.with(|world| world.fair_entry(self.lock, owner)?.deadline)
    }

    fn missing(&self, owners: &[Box<[u8]>], _: usize) -> Vec<Box<[u8]>> {
        let list = self.list();
        owners.iter().take_while(|owner| !list.contains(owner)).cloned().collect()
    }

    fn set_deadline(&self, owner: &[u8], at: UnixMs) {
        self.sim.with(|world| {
            if let Some(entry) = world.fair_entry(self.lock, owner) {
                entry.deadline = Some(at);
            }
        });
    }

    fn put_back(&self, owners: &[Box<[u8]>], deadline: UnixMs) {
        self.sim.with(|world| {
            let list = world.fair.entry(self.lock.clone()).or_default();
            for owner in owners.iter().rev() {
                list.push_front(FairEntry { owner: owner.clone(), deadline: Some(deadline) });
            }
        });
    }

    fn call(&self, owner: &[u8]) {
        self.sim.with(|world| world.called.push((self.lock.clone(), owner.into())));
    }
}
