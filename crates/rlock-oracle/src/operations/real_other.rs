//! Writes of other clients to the locks of `rlock-core`, without the module.

use rlock_core::locks::LockRef;
use rlock_core::observed;
use rlock_sim::World;

use super::hash::Leases;
use super::op::{ByList, Count, Lock, OtherWrite};
use super::real::Real;
use super::real_words::{end_of, expiry, holds_other, id, name, owner_of, real_entry, stored};
use super::{other_write, redisson_fair};

impl Real {
    pub(super) fn other_write(&self, lock: Lock, what: OtherWrite) {
        let id = &id(lock);
        if let OtherWrite::Token(token) = what {
            return self.sim.with(|world| {
                world.tokens.insert(id.clone(), token.map(|Count(n)| n));
            });
        }
        let (before, now) = (self.leases_of(id), self.sim.with(|world| world.now.0));
        let mut leases = before.clone();
        if let Some(becomes) = other_write::run(what, self.value(lock), &mut leases, now) {
            self.sim.write_as_other(id, stored(becomes));
        }
        if leases != before {
            self.sim.with(|world| {
                world.read_leases.retain(|(of, ..), _| of != id);
                for ((owner, hold), at) in leases {
                    world
                        .read_leases
                        .insert((id.clone(), name(owner).bytes().into(), hold), expiry(Some(at)));
                }
            });
        }
    }

    /// The lease keys of a lock's readers, also ended ones.
    pub(super) fn leases_of(&self, lock: &LockRef) -> Leases {
        self.sim.with(|world| {
            let of_lock = world.read_leases.iter().filter(|((of, ..), _)| of == lock);
            of_lock
                .map(|((_, owner, hold), expiry)| {
                    ((owner_of(owner), *hold), end_of(*expiry).unwrap_or(i64::MAX))
                })
                .collect()
        })
    }

    /// The server finds time to delete what has expired.
    pub(super) fn expire_all(&self) {
        let over = |world: &mut World| {
            let now = world.now;
            world.read_leases.retain(|_, expiry| end_of(*expiry).is_none_or(|at| at >= now.0));
            let gone = |lock: &&LockRef| {
                world.hold(lock).is_none() && world.read_write(lock).is_none() && !holds_other(world, lock)
            };
            world.keys.keys().filter(gone).cloned().collect::<Vec<_>>()
        };
        for lock in self.sim.with(over) {
            self.sim.expire(&lock);
        }
    }

    /// Another client uses Redisson's fair lock.
    pub(super) fn by_list(&self, lock: Lock, what: ByList) {
        let (id, before, value) = (&id(lock), self.list(lock), self.value(lock));
        let mut list = before.clone();
        let becomes = redisson_fair::run(what, &mut list, value, self.sim.with(|world| world.now.0));
        if list != before {
            self.sim.with(|world| {
                world.fair.insert(id.clone(), list.iter().map(real_entry).collect());
            });
            observed::fair_list_met(self.sim.node(), id.name());
            observed::fair_list_changed(self.sim.node(), id.name(), observed::ListChange::Anywhere);
        }
        if becomes != value {
            self.sim.write_as_other(id, stored(becomes));
        }
    }
}
