//! What others do to the real thing's locks, without the module.

use rlock_core::locks::LockRef;
use rlock_core::{Expiry, Holds, UnixMs, events};
use rlock_sim::{Hold, Permits, ReadWrite, World};

use super::fair_op::ByList;
use super::hash::Leases;
use super::op::{Count, Foreign, Lock, Ms, Owner, Script};
use super::real::Real;
use super::real_words::{hash_of, holds_other, id, lease, name, owner_of, real_entry, value_of};
use super::values::Value;
use super::{redisson, redisson_fair};

impl Real {
    pub(super) fn foreign(&self, lock: Lock, what: Foreign) {
        let lock = &id(lock);
        let ends = |new: Option<Ms>| {
            new.map_or(Expiry::Never, |new| Expiry::At(self.sim.with(|world| world.now).after(lease(new))))
        };
        let write = |hold: Hold| self.sim.foreign_write(lock, Some(rlock_sim::Value::Lock(hold)));
        let held = || self.sim.with(|world| world.hold(lock).cloned());
        let shared = || self.sim.with(|world| world.read_write(lock).cloned());
        let with_ends = |ends: Expiry| {
            self.change_permits(lock, |value| value.expiry = ends);
            held().into_iter().for_each(|hold| write(Hold { expiry: ends, ..hold }));
            shared().into_iter().for_each(|value| {
                let value = rlock_sim::Value::ReadWrite(ReadWrite { expiry: ends, ..value });
                self.sim.foreign_write(lock, Some(value));
            });
        };
        match what {
            Foreign::RemovePermit(owner) => {
                self.change_permits(lock, |value| value.ends.retain(|of, _| **of != *name(owner).bytes()));
            }
            Foreign::Delete => self.sim.foreign_write(lock, None),
            Foreign::Take { owner, lease } => {
                self.sim.foreign_acquire(lock, name(owner).bytes(), ends(lease));
            }
            Foreign::Put { owner, holds: Count(holds), lease } => {
                let holds = Holds::new(holds.max(1)).expect("holds");
                write(Hold { owner: name(owner).bytes().into(), holds, expiry: ends(lease) });
            }
            Foreign::Spoil => self.sim.foreign_write(lock, Some(rlock_sim::Value::Other)),
            Foreign::Expire(new) => with_ends(ends(Some(new))),
            Foreign::Token(token) => self.sim.with(|world| {
                world.tokens.insert(lock.clone(), token.map(|Count(n)| n));
            }),
            Foreign::Persist => with_ends(Expiry::Never),
            Foreign::Redisson { script, owner, lease: Ms(lease) } => {
                self.redisson(lock, script, owner, lease)
            }
        }
    }

    /// A script of Redisson's changes a read/write lock, or takes one.
    fn redisson(&self, lock: &LockRef, script: Script, owner: Owner, lease: i64) {
        let before = self.sim.with(|world| world.read_write(lock).map(hash_of));
        let is_free = self.sim.with(|world| world.hold(lock).is_none() && !holds_other(world, lock));
        if before.is_none() && !is_free {
            return;
        }
        let (mut leases, now) = (self.leases_of(lock), self.sim.with(|world| world.now.0));
        let hash = redisson::run(script, owner, lease, before, &mut leases, now);
        if hash != before {
            self.sim.foreign_write(lock, hash.map(|hash| rlock_sim::Value::ReadWrite(value_of(&hash))));
        }
        self.sim.with(|world| {
            world.read_leases.retain(|(of, ..), _| of != lock);
            for ((owner, hold), at) in leases {
                let key = (lock.clone(), name(owner).bytes().into(), hold);
                world.read_leases.insert(key, Expiry::At(UnixMs(at)));
            }
        });
    }

    /// The lease keys of a lock's readers, those that have ended too.
    pub(super) fn leases_of(&self, lock: &LockRef) -> Leases {
        self.sim.with(|world| {
            let of_lock = world.read_leases.iter().filter(|((of, ..), _)| of == lock);
            let ends = |expiry: &Expiry| match expiry {
                Expiry::At(UnixMs(at)) => *at,
                Expiry::Never => i64::MAX,
            };
            of_lock.map(|((_, owner, hold), expiry)| ((owner_of(owner), *hold), ends(expiry))).collect()
        })
    }

    /// The server finds time to delete what has expired.
    pub(super) fn expire_all(&self) {
        let over = |world: &mut World| {
            let now = world.now;
            world.read_leases.retain(|_, expiry| !matches!(expiry, Expiry::At(at) if *at < now));
            let gone = |lock: &&LockRef| {
                world.hold(lock).is_none() && world.read_write(lock).is_none() && !holds_other(world, lock)
            };
            world.keys.keys().filter(gone).cloned().collect::<Vec<_>>()
        };
        for lock in self.sim.with(over) {
            self.sim.expire(&lock);
        }
    }

    /// Somebody changes the sorted set of permits, if there is one.
    fn change_permits(&self, lock: &LockRef, change: impl FnOnce(&mut Permits)) {
        let Some(mut value) = self.sim.with(|world| world.permits(lock).cloned()) else { return };
        change(&mut value);
        let left = (!value.ends.is_empty()).then_some(rlock_sim::Value::Permits(value));
        self.sim.foreign_write(lock, left);
    }

    /// Somebody comes by Redisson's list.
    pub(super) fn by_list(&self, lock: Lock, what: ByList) {
        let (id, before, value) = (&id(lock), self.list(lock), self.value(lock));
        let mut list = before.clone();
        let becomes = redisson_fair::run(what, &mut list, value, self.sim.with(|world| world.now.0));
        if list != before {
            self.sim.with(|world| {
                world.fair.insert(id.clone(), list.iter().map(real_entry).collect());
            });
            events::fair_list_met(self.sim.core(), id.name());
            events::fair_list_changed(self.sim.core(), id.name(), events::ListChange::Anywhere);
        }
        match becomes {
            _ if becomes == value => {}
            Value::Held { by, holds, ends } => {
                let (owner, holds) = (name(by).bytes().into(), Holds::new(holds).expect("holds"));
                let expiry = ends.map_or(Expiry::Never, |at| Expiry::At(UnixMs(at)));
                let hold = Hold { owner, holds, expiry };
                self.sim.foreign_write(id, Some(rlock_sim::Value::Lock(hold)));
            }
            _ => self.sim.foreign_write(id, None),
        }
    }
}
