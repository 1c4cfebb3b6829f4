//! A state of the model.

use rlock_core::locks::Locks;
use rlock_core::{Expiry, Mode, UnixMs};
use rlock_sim::World;

use crate::ghost::{Ghost, Party};
use crate::scene::{self, FOREIGN, May, Scene};

/// The server, and the model's own knowledge.
#[derive(Clone, Debug)]
pub(crate) struct State {
    /// The server.
    pub(crate) world: World,
    pub(crate) locks: Locks,
    /// The model's own knowledge.
    pub(crate) ghost: Ghost,
}

impl State {
    /// The first state of a scene: every channel has a subscriber.
    pub(crate) fn first(scene: &Scene) -> Self {
        let mut world = World::new(scene.settings());
        world.subscribed = (0..scene.owners).map(|owner| scene.channel(owner).into()).collect();
        world.redisson_waiters = u64::from(scene.may(May::Turns));
        Self { world, locks: Locks::default(), ghost: Ghost::default() }
    }

    /// The state in a line, for the story of a violation.
    pub(crate) fn summary(&self, scene: &Scene) -> String {
        let world = &self.world;
        let mut parts = vec![format!("t={}", world.clock.0)];
        for number in 0..scene.locks {
            let lock = scene::lock(number);
            let holder = world.hold(&lock).map_or(self.sharers(number), |hold| {
                let left = hold.expiry.left(world.now);
                format!("held by {} x{} for {left} ms", hold.owner.escape_ascii(), hold.holds.get())
            });
            let queue = self.locks.records.in_order(lock.name()).map(|waiter| {
                format!(
                    "{}{}",
                    waiter.owner.escape_ascii(),
                    waiter.mode().word().map_or("", |word| &word[..1])
                )
            });
            parts.push(format!("k{number} {holder}, queue [{}]", queue.collect::<Vec<_>>().join(" ")));
        }
        let timer = world.timer.map(|at| format!("timer in {} ms", at.0.saturating_sub(world.clock.0)));
        parts.push(timer.unwrap_or("no timer".to_owned()));
        for party in self.ghost.beliefs.keys() {
            parts.push(format!("o{} knows it holds {party}", party.owner));
        }
        parts.join("; ")
    }

    /// The readers and writers of a lock, in words.
    fn sharers(&self, lock: u8) -> String {
        let id = scene::lock(lock);
        let Some(value) = self.world.read_write(&id) else { return "free".to_owned() };
        let names = |names: Vec<&[u8]>| {
            names.into_iter().map(|name| name.escape_ascii().to_string()).collect::<Vec<_>>().join(" ")
        };
        let all = names(value.reads.keys().map(|name| &**name).collect());
        let (writes, lives) =
            (value.writes.keys().map(|name| &**name).collect(), self.world.living_readers(&id));
        let (writes, lives, left) = (names(writes), names(lives), value.expiry.left(self.world.now));
        format!("written by [{writes}] read by [{all}], alive [{lives}], for {left} ms")
    }

    /// How many calls of an owner for a lock wait, or have an undelivered answer.
    pub(crate) fn calls(&self, owner: u8, lock: u8) -> usize {
        let of = |client: &&rlock_sim::Client| client.id == owner.into() && client.lock == scene::lock(lock);
        self.world.clients.values().filter(of).count()
    }

    /// Whether an owner holds a lock, whatever it knows of that.
    pub(crate) fn holds(&self, party: Party) -> bool {
        self.hold_count(party) > 0
    }

    /// Whether an owner holds a lock in any way, whatever it knows of that.
    pub(crate) fn holds_any(&self, Party { owner, lock, .. }: Party) -> bool {
        [Mode::Mutex, Mode::Read, Mode::Write, Mode::Permit]
            .into_iter()
            .any(|mode| self.holds(Party { owner, lock, mode }))
    }

    /// How often an owner holds a lock, whatever it knows of that.
    pub(crate) fn hold_count(&self, party: Party) -> i64 {
        self.hold(party).map_or(0, |(holds, _)| holds)
    }

    /// How often an owner holds a lock, and until when.
    pub(crate) fn hold(&self, party: Party) -> Option<(i64, Expiry)> {
        hold(&self.world, party)
    }

    /// Whether a reader without the module can join the readers of a lock, and is not there.
    pub(crate) fn foreign_reader_may_join(&self, lock: u8) -> bool {
        let value = self.world.read_write(&scene::lock(lock));
        value.is_some_and(|value| !value.writing && !value.reads.contains_key(&FOREIGN[..]))
    }

    /// Whether a lock has a holder.
    pub(crate) fn is_held(&self, lock: u8) -> bool {
        let lock = scene::lock(lock);
        let exclusive = self.world.hold(&lock).is_some() || self.world.read_write(&lock).is_some();
        exclusive || !self.world.living_permits(&lock).is_empty()
    }

    /// In how many ms the next thing ends: a lease, a wait, what the timer waits for.
    pub(crate) fn next_moment(&self) -> Option<u64> {
        let now = self.world.now.0;
        let until = |expiry: Expiry| match expiry {
            Expiry::At(at) => u64::try_from(at.0.saturating_add(1).saturating_sub(now)).ok(),
            Expiry::Never => None,
        };
        let keys = self.world.keys.values().filter_map(|value| until(value.expiry()));
        let permits = self.world.keys.values().flat_map(rlock_sim::Value::permit_ends);
        let permits = permits.filter_map(|end| u64::try_from(end.0.saturating_sub(now)).ok());
        let leases = self.world.read_leases.values().filter_map(|ends| until(*ends));
        let leases = keys.chain(permits).chain(leases);
        let timer = self.world.timer.map(|at| at.0.saturating_sub(self.world.clock.0));
        let wait = self.locks.next_in(UnixMs(i64::MIN / 2), self.world.clock);
        leases.chain(timer).chain(wait).filter(|ms| (1..1_000).contains(ms)).min()
    }
}

/// How often an owner holds a lock in a world, and until when.
pub(crate) fn hold(world: &World, Party { owner, lock, mode }: Party) -> Option<(i64, Expiry)> {
    let (lock, name) = (scene::lock(lock), scene::owner(owner));
    match mode {
        Mode::Mutex => {
            let hold = world.hold(&lock).filter(|hold| *hold.owner == name)?;
            Some((hold.holds.get(), hold.expiry))
        }
        Mode::Read => {
            let holds = world.read_write(&lock)?.reads.get(&name[..])?.get();
            let ends = (1..=holds).rev().find_map(|hold| world.read_lease(&lock, &name, hold))?;
            Some((holds, ends))
        }
        Mode::Write => {
            let value = world.read_write(&lock)?;
            Some((value.writes.get(&name[..])?.get(), value.expiry))
        }
        Mode::Permit => {
            let (_, end) = world.living_permits(&lock).into_iter().find(|(owner, _)| **owner == name[..])?;
            // It lasts until that moment, a key until after it.
            Some((1, Expiry::At(UnixMs(end.0 - 1))))
        }
    }
}
