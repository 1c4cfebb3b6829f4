//! A state of the model, and the state after one step.

use rlock_core::locks::{Locks, Ticket};
use rlock_core::{Error, Expiry, Mode, Reply, UnixMs};
use rlock_sim::{Sim, World};

use crate::action::Action;
use crate::fair;
use crate::ghost::{Belief, Ghost, Granted, Party};
use crate::heard::{is_grant, said, token};
use crate::scene::{self, May, Scene};
use crate::sessions::grace;
use crate::steps::{Came, perform};
use crate::writers;

/// The server, and the model's own knowledge.
#[derive(Clone, Debug)]
pub(crate) struct State {
    /// The server.
    pub(crate) world: World,
    pub(crate) locks: Locks,
    /// The model's own knowledge.
    pub(crate) ghost: Ghost,
}

/// A violated property, in words.
pub(crate) type Violation = String;

impl State {
    /// The first state of a scene: every channel has a subscriber.
    pub(crate) fn first(scene: &Scene) -> Self {
        let mut world = World::new(scene.settings());
        world.subscribed = (0..scene.owners).map(|owner| scene.channel(owner).into()).collect();
        world.redisson_waiters = u64::from(scene.may(May::Turns));
        Self { world, locks: Locks::default(), ghost: Ghost::default() }
    }

    /// The state after a step.
    pub(crate) fn after(&self, scene: &Scene, action: Action) -> Result<Self, Violation> {
        let (mut ghost, sim) = (self.ghost.clone(), Sim::resume(self.world.clone(), self.locks.clone()));
        sim.with(|world| {
            world.messages.clear();
            world.unsubscribed.clear();
        });
        let came = perform(scene, &sim, &mut ghost, self, action)?;
        let (world, locks) = sim.into_parts();
        let mut next = Self { world, locks, ghost };
        let served = next.hear(self, action)?;
        let now = next.world.now;
        if let Some(party) = served.iter().find(|party| fair::stands_before(&self.world, **party, now)) {
            return Err(format!("o{} got {party} before a Redisson waiter that waited first", party.owner));
        }
        let served_before =
            |by: Party| served.iter().any(|party| (party.owner, party.lock) == (by.owner, by.lock));
        match came {
            // A command serves the queue first: an owner that is next gets the lock there, and its command re-enters.
            Came::Took(party) if !served_before(party) => {
                if scene.may(May::Fair) && fair::foreign_waits(&self.world, party.lock) {
                    return Err(format!("o{} got {party} ahead of a Redisson waiter", party.owner));
                }
                next.ghost.served(party)?;
            }
            Came::Joined(waiting) => {
                let behind = fair::stand_behind(&self.world, &next.world, waiting.party);
                next.ghost.join(waiting, &behind);
            }
            Came::Took(_) | Came::Neither => {}
        }
        writers::note(scene, self, &mut next, action)?;
        next.ghost.tokens_grow(scene.may(May::Fenced))?;
        // A lease holds in the very millisecond in which it ends, and no longer.
        next.ghost.beliefs.retain(|_, belief| belief.ends >= now);
        next.ghost.grants.retain(|_, grant| grant.ends >= now);
        Ok(next)
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

    /// Processes the messages and new answers of this step. Returns the waiters that were served, with their
    /// locks.
    fn hear(&mut self, before: &Self, action: Action) -> Result<Vec<Party>, Violation> {
        let messages = std::mem::take(&mut self.world.messages);
        let (granted, ended): (Vec<_>, Vec<_>) =
            messages.iter().partition(|message| said(message).0 == "granted");
        for (_, party) in ended.into_iter().map(said) {
            self.ghost.leave(party.lock, |waiting| waiting.party == party);
        }
        let answered: Vec<_> = self.answered_since(before).collect();
        for (ticket, _, lock, _) in answered.iter().filter(|(.., answer)| !is_grant(answer)) {
            self.ghost.leave(*lock, |waiting| waiting.ticket == Some(*ticket));
        }
        self.leave_unsubscribed(before);
        let mut served = Vec::new();
        for message in granted {
            let (_, party) = said(message);
            self.ghost.told.push((party.lock, token(message)));
            self.hear_grant(party, action)?;
            served.push(party);
        }
        for (ticket, owner, lock, answer) in answered.into_iter().filter(|(.., answer)| is_grant(answer)) {
            if let Ok(Reply::Acquired { token, .. }) = answer {
                self.ghost.told.push((lock, token));
            }
            let mine = self.ghost.line(lock).iter().find(|waiting| waiting.ticket == Some(ticket));
            let Some(party) = mine.map(|waiting| waiting.party) else {
                return Err(format!("o{owner} got k{lock}, and did not wait for it"));
            };
            served.push(party);
            if let Some(ends) = self.end_of_hold(party) {
                self.ghost.grants.insert(ticket, Granted { party, ends });
            }
        }
        self.ghost.all_served(&served)?;
        Ok(served)
    }

    /// A waiter whose turn came, and whose channel had no subscriber, has left without a word; with it waiters of the channel, not
    /// all of them at once. One that asked again in this step stands behind those that it preceded.
    fn leave_unsubscribed(&mut self, before: &Self) {
        let asked: Vec<u8> =
            std::mem::take(&mut self.world.unsubscribed).iter().map(|name| scene::number(name)).collect();
        if asked.is_empty() {
            return;
        }
        for (lock, line) in &mut self.ghost.lines {
            let order = |locks: &Locks| -> Vec<_> {
                locks
                    .records
                    .in_order(scene::lock(*lock).name())
                    .map(|by| (scene::number(&by.owner), by.mode()))
                    .collect()
            };
            let (was, is) = (order(&before.locks), order(&self.locks));
            let place = |order: &[(u8, Mode)], by| order.iter().position(|other| *other == by);
            line.retain(|waiting| {
                let by = (waiting.party.owner, waiting.party.mode);
                let kept_place = || {
                    let (from, to) = (place(&was, by)?, place(&is, by)?);
                    Some(is[..to].iter().all(|other| place(&was, *other).is_some_and(|before| before < from)))
                };
                let was_asked = waiting.channel.is_some_and(|channel| asked.contains(&channel));
                !was_asked || kept_place() == Some(true)
            });
        }
    }

    fn hear_grant(&mut self, party: Party, action: Action) -> Result<(), Violation> {
        let gives_back = match action {
            Action::Release { party: by, .. } => by == party,
            Action::ForceRelease { lock } => lock == party.lock,
            _ => false,
        };
        match self.end_of_hold(party) {
            Some(ends) => {
                let holds = self.ghost.belief(party).map_or(1, |belief| belief.holds);
                let mine = self.ghost.line(party.lock).iter().find(|waiting| waiting.party == party);
                let connections = self.ghost.connections(party.owner);
                let by = mine.map_or(connections.newest, |waiting| waiting.by);
                // The grant takes the tie of the call that waited.
                let ends =
                    if by < connections.oldest { ends.min(self.world.now.after(grace())) } else { ends };
                self.ghost.believe(party, Belief { holds, ends, by });
                Ok(())
            }
            None if gives_back => Ok(()),
            None => Err(format!("o{} received a grant of {party}, and does not hold it", party.owner)),
        }
    }

    /// When the lease of an owner's hold ends.
    fn end_of_hold(&self, party: Party) -> Option<UnixMs> {
        if let (_, Expiry::At(ends)) = self.hold(party)? { Some(ends) } else { None }
    }

    /// The new answers of this step: ticket, owner, lock, answer.
    fn answered_since<'a>(
        &'a self,
        before: &'a Self,
    ) -> impl Iterator<Item = (Ticket, u8, u8, Result<Reply, Error>)> + 'a {
        self.world.clients.iter().filter_map(|(ticket, client)| {
            let answer = client.answer.clone()?;
            let known = before.world.clients.get(ticket).is_some_and(|client| client.answer.is_some());
            let owner = u8::try_from(client.id).unwrap_or(u8::MAX);
            (!known).then(|| (*ticket, owner, scene::number(&client.lock.key), answer))
        })
    }
}

/// The name of a reader without the module.
pub(crate) const FOREIGN: [u8; 2] = *b"f9";

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
