//! One step, from a state to the next.

use rlock_core::locks::{Locks, Ticket};
use rlock_core::{Error, Expiry, Mode, Reply, UnixMs};
use rlock_sim::Sim;

use crate::action::Action;
use crate::ghost::{Granted, Party, Violation};
use crate::heard::{is_grant, said, token};
use crate::requests::grace;
use crate::scene::{self, May, Scene};
use crate::state::State;
use crate::steps::{Came, perform};
use crate::{fair, writers};

impl State {
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
        let answered = match action {
            Action::Acquire { party, .. } | Action::Again { party } => Some(party),
            Action::Renew { party } | Action::Late { party, .. } => Some(party),
            Action::Untie { party, .. } | Action::LateUntie { party, .. } => Some(party),
            _ => None,
        };
        match self.end_of_hold(party) {
            // The queue was served before the command: its answer is newer, and its connection has the tie.
            Some(_) if answered == Some(party) && self.ghost.belief(party).is_some() => Ok(()),
            Some(ends) => {
                let holds = self.ghost.belief(party).map_or(1, |belief| belief.holds);
                let mine = self.ghost.line(party.lock).iter().find(|waiting| waiting.party == party);
                let connections = self.ghost.connections(party.owner);
                let by = mine.map_or(connections.newest(), |waiting| waiting.by);
                // The grant takes the tie of the call that waited.
                let ends = if connections.has(by) { ends } else { ends.min(self.world.now.after(grace())) };
                self.ghost.answered(party, (holds, ends), (by, true));
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
