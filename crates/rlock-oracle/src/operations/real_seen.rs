//! The visible state of `rlock-core`, in the oracle's types.

use std::collections::BTreeMap;

use rlock_core::locks::{self, Ticket};
use rlock_sim::World;

use super::hash::Leases;
use super::op::{Channel, Lock, Owner, WORDS, Word};
use super::real::Real;
use super::real_words::{
    answer, channel_of, end_of, entry, error, hash_of, holds_other, id, lock_of, name, owner_of, permits_of,
    said,
};
use super::values::{Answer, Entry, Value, Via, Waiter};

impl Real {
    /// The lease keys of a lock's readers.
    pub(super) fn leases(&self, lock: Lock) -> Leases {
        let (mut leases, now) = (self.leases_of(&id(lock)), self.sim.with(|world| world.now.0));
        leases.retain(|_, at| *at >= now);
        leases
    }

    /// Whether the key is deleted, not only expired.
    pub(super) fn is_gone(&self, lock: Lock) -> bool {
        self.sim.with(|world| !world.keys.contains_key(&id(lock)))
    }

    pub(super) fn value(&self, lock: Lock) -> Value {
        let lock = &id(lock);
        self.sim.with(|world| match world.hold(lock) {
            Some(hold) => {
                Value::Held { by: owner_of(&hold.owner), holds: hold.holds.get(), ends: end_of(hold.expiry) }
            }
            None if holds_other(world, lock) => Value::Other,
            None if world.permits(lock).is_some() => world.permits(lock).map_or(Value::Nothing, permits_of),
            None => world.read_write(lock).map_or(Value::Nothing, |value| Value::ReadWrite(hash_of(value))),
        })
    }

    pub(super) fn queue(&self, lock: Lock) -> Vec<Waiter> {
        self.sim.locks(|locks| {
            let waiters = locks.records.in_order(id(lock).name());
            waiters.map(|waiter| self.waiter(waiter)).collect()
        })
    }

    /// The fair list.
    pub(super) fn list(&self, lock: Lock) -> Vec<Entry> {
        self.sim.with(|world| world.fair.get(&id(lock)).into_iter().flatten().map(entry).collect())
    }

    /// Takes the Redisson waiters that were notified on their own channels since the last call.
    pub(super) fn take_called(&self) -> Vec<(Lock, Owner)> {
        let called = self.sim.with(|world| std::mem::take(&mut world.called));
        called.iter().map(|(lock, owner)| (lock_of(lock), owner_of(owner))).collect()
    }

    /// Whether a Redisson waiter was notified for a lock since that call.
    pub(super) fn has_called(&self, lock: Lock) -> bool {
        self.sim.with(|world| world.called.iter().any(|(called, _)| lock_of(called) == lock))
    }

    fn waiter(&self, waiter: &locks::Waiter) -> Waiter {
        let via = match &waiter.via {
            locks::Via::Block => Via::Call(self.call(waiter.ticket)),
            locks::Via::Enqueue(channel) => Via::Channel(channel_of(channel)),
        };
        let until = waiter.until.map(|at| at.0);
        let (lease, fenced) = (waiter.lease.get(), waiter.fenced);
        let is_asked = |(word, _): &(Word, &str)| said(*word).unwrap_or_default() == waiter.mode();
        let (word, _) = WORDS.into_iter().find(is_asked).expect("a mode");
        Waiter { owner: owner_of(&waiter.owner), word, lease, fenced, until, via, fair: waiter.fair }
    }

    fn call(&self, ticket: Ticket) -> usize {
        self.tickets.iter().position(|known| *known == ticket).expect("a call that has blocked")
    }

    pub(super) fn calls(&self) -> BTreeMap<usize, Answer> {
        let answer_of = |client: &rlock_sim::Client| match &client.answer {
            None => Answer::Blocked,
            Some(Ok(reply)) => answer(*reply),
            Some(Err(refused)) => error(refused),
        };
        self.sim.with(|world| {
            world.clients.iter().map(|(ticket, client)| (self.call(*ticket), answer_of(client))).collect()
        })
    }

    /// The messages with a receiver since they were taken.
    pub(super) fn messages(&self) -> Vec<(Channel, String)> {
        let text = |text: &[u8]| String::from_utf8(text.into()).expect("a message is ASCII");
        self.sim.with(|world: &mut World| {
            let received = world.messages.iter().filter(|message| message.received);
            received.map(|message| (channel_of(&message.channel), text(&message.text))).collect()
        })
    }

    /// The same, and takes them.
    pub(super) fn take_messages(&self) -> Vec<(Channel, String)> {
        let messages = self.messages();
        self.sim.with(|world| world.messages.clear());
        messages
    }

    /// How many unlock messages there were for a lock since they were taken.
    pub(super) fn unlock_messages(&self, lock: Lock) -> usize {
        let lock = id(lock);
        self.sim.with(|world| world.unlock_messages.iter().filter(|of| **of == lock).count())
    }

    pub(super) fn take_unlock_messages(&self) {
        self.sim.with(|world| world.unlock_messages.clear());
    }

    /// Takes the number of grants by message that ended unconfirmed since the last call.
    pub(super) fn take_unconfirmed(&self) -> u32 {
        self.sim.with(|world| std::mem::take(&mut world.unconfirmed))
    }

    /// The connection of a call that is blocked, or has an undelivered answer.
    pub(super) fn client_of(&self, call: usize) -> Option<u64> {
        let ticket = self.tickets.get(call)?;
        self.sim.with(|world| world.clients.get(ticket).map(|client| client.id))
    }

    /// The connection to which a hold is tied, and the grace in ms, as INFO has it.
    pub(super) fn session(&self, lock: Lock, owner: Owner, word: Word) -> Option<(u64, i64)> {
        let mode = said(word).unwrap_or_default();
        let session = self.sim.locks(|locks| locks.session(id(lock).name(), name(owner).bytes(), mode));
        session.map(|session| (session.client, session.grace.get()))
    }

    /// Whether the core has nothing left to remember once it has forgotten what time has ended.
    pub(super) fn is_blank(&self) -> bool {
        let (now, clock) = self.sim.with(|world| (world.now, world.clock));
        self.sim.locks(|locks| {
            locks.forget_old(now, clock, usize::MAX);
            !locks.is_watched()
        })
    }
}
