//! A state of the model, and what one step makes of it.

use rlock_core::queue::Ticket;
use rlock_core::{Error, Expiry, Reply, UnixMs};
use rlock_sim::{Message, Sim, World};

use crate::action::Action;
use crate::ghost::{Belief, Ghost, Granted};
use crate::scene::{self, Scene};
use crate::steps::{Came, perform};

/// The server, and what the model knows beside it.
#[derive(Clone, Debug)]
pub(crate) struct State {
    /// The server.
    pub(crate) world: World,
    /// What the model knows.
    pub(crate) ghost: Ghost,
}

/// A violated property, in words.
pub(crate) type Violation = String;

impl State {
    /// Where a scene begins: every channel is listened to.
    pub(crate) fn first(scene: &Scene) -> Self {
        let mut world = World::new(scene.settings());
        world.heard = (0..scene.owners).map(|owner| scene.channel(owner).into()).collect();
        world.foreign_waiters = u64::from(scene.turns);
        Self { world, ghost: Ghost::default() }
    }

    /// What the step makes of this state.
    pub(crate) fn after(&self, scene: &Scene, action: Action) -> Result<Self, Violation> {
        let (mut ghost, sim) = (self.ghost.clone(), Sim::resume(self.world.clone()));
        sim.with(|world| world.messages.clear());
        let came = perform(scene, &sim, &mut ghost, self, action)?;
        let mut next = Self { world: sim.into_world(), ghost };
        let served = next.hear(self, action)?;
        match came {
            // Who is next gets the lock by the serving that comes first in every command, and then re-enters.
            Came::Took { owner, lock } if !served.contains(&(owner, lock)) => {
                next.ghost.served(owner, lock)?;
            }
            Came::Joined { lock, waiting } => next.ghost.join(lock, waiting),
            Came::Took { .. } | Came::Neither => {}
        }
        next.ghost.tokens_grow(scene.fenced)?;
        let now = next.world.now;
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
            let holder = world.hold(&lock).map_or("free".to_owned(), |hold| {
                let left = hold.expiry.left(world.now);
                format!("held by {} x{} for {left} ms", hold.owner.escape_ascii(), hold.holds.get())
            });
            let queue = world.queues.in_order(&lock).map(|waiter| waiter.owner.escape_ascii().to_string());
            parts.push(format!("k{number} {holder}, queue [{}]", queue.collect::<Vec<_>>().join(" ")));
        }
        let timer = world.timer.map(|at| format!("timer in {} ms", at.0.saturating_sub(world.clock.0)));
        parts.push(timer.unwrap_or("no timer".to_owned()));
        for (owner, lock) in self.ghost.beliefs.keys() {
            parts.push(format!("o{owner} knows it holds k{lock}"));
        }
        parts.join("; ")
    }

    /// How many calls of an owner for a lock wait, or are being answered.
    pub(crate) fn calls(&self, owner: u8, lock: u8) -> usize {
        let of = |client: &&rlock_sim::Client| client.id == owner.into() && client.lock == scene::lock(lock);
        self.world.clients.values().filter(of).count()
    }

    /// Whether an owner holds a lock, whatever it knows of that.
    pub(crate) fn holds(&self, owner: u8, lock: u8) -> bool {
        self.hold_count(owner, lock) > 0
    }

    /// How often an owner holds a lock, whatever it knows of that.
    pub(crate) fn hold_count(&self, owner: u8, lock: u8) -> i64 {
        let hold = self.world.hold(&scene::lock(lock)).filter(|hold| *hold.owner == scene::owner(owner));
        hold.map_or(0, |hold| hold.holds.get())
    }

    /// Whether anybody holds a lock.
    pub(crate) fn is_held(&self, lock: u8) -> bool {
        self.world.hold(&scene::lock(lock)).is_some()
    }

    /// In how many ms the next thing ends: a lease, a wait, what the timer waits for.
    pub(crate) fn next_moment(&self) -> Option<u64> {
        let now = self.world.now.0;
        let leases = self.world.keys.values().filter_map(|value| match value {
            rlock_sim::Value::Lock(hold) => match hold.expiry {
                Expiry::At(at) => u64::try_from(at.0.saturating_add(1).saturating_sub(now)).ok(),
                Expiry::Never => None,
            },
            rlock_sim::Value::Other | rlock_sim::Value::ReadWrite(_) => None,
        });
        let timer = self.world.timer.map(|at| at.0.saturating_sub(self.world.clock.0));
        let wait = self.world.queues.next_in(UnixMs(i64::MIN / 2), self.world.clock);
        leases.chain(timer).chain(wait).filter(|ms| (1..1_000).contains(ms)).min()
    }

    /// Takes in what the server said in this step: messages, and answers under way. Returns who was served
    /// which lock.
    fn hear(&mut self, before: &Self, action: Action) -> Result<Vec<(u8, u8)>, Violation> {
        let messages = std::mem::take(&mut self.world.messages);
        let (granted, ended): (Vec<_>, Vec<_>) =
            messages.iter().partition(|message| said(message).0 == "granted");
        for message in ended {
            let (_, owner, lock) = said(message);
            self.ghost.leave(lock, |waiting| waiting.owner == owner);
        }
        let answered: Vec<_> = self.answered_since(before).collect();
        for (ticket, _, lock, _) in answered.iter().filter(|(.., answer)| !is_grant(answer)) {
            self.ghost.leave(*lock, |waiting| waiting.ticket == Some(*ticket));
        }
        let mut served = Vec::new();
        for message in granted {
            let (_, owner, lock) = said(message);
            if message.heard {
                self.ghost.told.push((lock, token(message)));
            }
            self.hear_grant(message, owner, lock, action)?;
            served.extend(message.heard.then_some((owner, lock)));
        }
        for (ticket, owner, lock, answer) in answered.into_iter().filter(|(.., answer)| is_grant(answer)) {
            if let Ok(Reply::Acquired { token, .. }) = answer {
                self.ghost.told.push((lock, token));
            }
            self.ghost.served(owner, lock)?;
            served.push((owner, lock));
            if let Some(ends) = self.end_of_hold(owner, lock) {
                self.ghost.grants.insert(ticket, Granted { owner, lock, ends });
            }
        }
        Ok(served)
    }

    fn hear_grant(
        &mut self,
        message: &Message,
        owner: u8,
        lock: u8,
        action: Action,
    ) -> Result<(), Violation> {
        if !message.heard {
            let channel = Some(scene::number(&message.channel));
            self.ghost.leave(lock, |waiting| waiting.channel == channel);
            return Ok(());
        }
        self.ghost.served(owner, lock)?;
        let gives_back =
            matches!(action, Action::Release { owner: by, lock: of, .. } if (by, of) == (owner, lock));
        match self.end_of_hold(owner, lock) {
            Some(ends) => {
                self.ghost.believe(owner, lock, Belief { holds: 1, ends });
                Ok(())
            }
            None if gives_back => Ok(()),
            None => Err(format!("o{owner} was told that it was granted k{lock}, and does not hold it")),
        }
    }

    /// When the lease of an owner's hold ends.
    fn end_of_hold(&self, owner: u8, lock: u8) -> Option<UnixMs> {
        let hold = self.world.hold(&scene::lock(lock)).filter(|hold| *hold.owner == scene::owner(owner))?;
        match hold.expiry {
            Expiry::At(ends) => Some(ends),
            Expiry::Never => None,
        }
    }

    /// Answers that came under way in this step: ticket, owner, lock, answer.
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

fn is_grant(answer: &Result<Reply, Error>) -> bool {
    matches!(answer, Ok(Reply::Acquired { .. }))
}

/// The token at the end of a grant.
fn token(message: &Message) -> i64 {
    let last = message.text.rsplit(|byte| *byte == b' ').next();
    let last = last.and_then(|word| std::str::from_utf8(word).ok());
    last.and_then(|word| word.parse().ok()).unwrap_or(-1)
}

/// First word, owner and lock of a message.
fn said(message: &Message) -> (&str, u8, u8) {
    let mut words = message.text.split(|byte| *byte == b' ');
    let word = words.next().and_then(|word| std::str::from_utf8(word).ok()).unwrap_or_default();
    let mut numbers = words.skip(1).map(scene::number);
    (word, numbers.next().unwrap_or(u8::MAX), numbers.next().unwrap_or(u8::MAX))
}
