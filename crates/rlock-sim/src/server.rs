//! What `rlock-core` asks of a server, answered from plain data.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use rlock_core::decision::UnlockMessage;
use rlock_core::locks::{LockName, LockRef, Locks, Ticket, Walked};
use rlock_core::port::FairEntry;
use rlock_core::port::ReadLease;
use rlock_core::port::{Note, Reader, Server, Settings, Site, WriteAccess};
use rlock_core::{Change, Error, Expiry, Fields, LeaseMs, Mode, MonoMs, Reply, UnixMs};

use crate::Sim;
use crate::world::{Client, Message, Value};

/// A lock in a simulated server.
pub struct SimSite<'a> {
    pub(crate) sim: &'a Sim,
    pub(crate) lock: &'a LockRef,
}

impl Server for Sim {
    type Site<'s> = SimSite<'s>;

    fn at<T>(&self, lock: LockName<'_>, body: impl FnOnce(&SimSite<'_>) -> T) -> Option<T> {
        Some(body(&SimSite { sim: self, lock: &lock.to_ref() }))
    }

    fn locks<T>(&self, body: impl FnOnce(&mut Locks) -> T) -> T {
        self.with(|world| body(&mut world.locks))
    }

    fn now(&self) -> UnixMs {
        self.with(|world| world.now)
    }

    fn clock(&self) -> MonoMs {
        self.with(|world| world.clock)
    }

    fn settings(&self) -> Settings {
        self.with(|world| world.settings)
    }

    fn is_primary(&self) -> bool {
        self.with(|world| world.primary)
    }

    fn may_write(&self) -> bool {
        self.with(|world| world.may_write)
    }

    fn may_block(&self) -> bool {
        self.with(|world| world.may_block)
    }

    fn client_id(&self) -> u64 {
        self.with(|world| world.calling.as_ref().map_or(0, |(client, _)| *client))
    }

    fn block(&self, ticket: Ticket) -> Result<(), Error> {
        self.with(|world| {
            if world.refuses_to_block {
                return Err(Error::NotBlockable);
            }
            let (id, lock) = world.calling.clone().ok_or(Error::NotBlockable)?;
            let client = Client { id, lock, answer: None };
            world.clients.insert(ticket, client);
            Ok(())
        })
    }

    fn answer(&self, ticket: Ticket, answer: Result<Reply, Error>) {
        self.with(|world| {
            if let Some(client) = world.clients.get_mut(&ticket).filter(|client| client.answer.is_none()) {
                client.answer = Some(answer);
            }
        });
    }

    fn tell(&self, channel: &[u8], message: &[u8]) {
        self.offer(channel, message);
    }

    fn offer(&self, channel: &[u8], grant: &[u8]) -> bool {
        self.with(|world| {
            let heard = world.heard.contains(channel);
            world.messages.push(Message { channel: channel.into(), text: grant.to_vec(), heard });
            heard
        })
    }

    fn set_timer(&self, in_ms: Option<u64>) {
        self.with(|world| world.timer = in_ms.map(|ms| MonoMs(world.clock.0.saturating_add(ms))));
    }

    fn note(&self, note: Note<'_>) {
        self.with(|world| world.unconfirmed += u32::from(matches!(note, Note::Unconfirmed)));
    }
}

impl SimSite<'_> {
    /// The owners in the fair list.
    fn list(&self) -> Vec<Box<[u8]>> {
        let names = |list: &VecDeque<FairEntry>| list.iter().map(|entry| entry.owner.clone()).collect();
        self.sim.with(|world| world.fair.get(self.lock).map_or(Vec::new(), names))
    }
}

impl Site for SimSite<'_> {
    type Server = Sim;
    type Key = ();

    fn server(&self) -> &Sim {
        self.sim
    }

    fn lock(&self) -> LockName<'_> {
        self.lock.name()
    }

    fn open(&self) {
        self.sim.expire(self.lock);
    }

    fn state(&self, (): &(), owner: Option<&[u8]>) -> Result<Fields, Error> {
        self.sim.with(|world| match world.keys.get(self.lock) {
            None => Ok(Fields::FREE),
            Some(Value::Other) => Err(Error::WrongType),
            Some(Value::Lock(hold)) => {
                let mine = (owner == Some(&*hold.owner)).then_some(hold.holds);
                Ok(Fields::mutex(mine, hold.expiry))
            }
            Some(Value::ReadWrite(value)) => Ok(value.fields(owner)),
        })
    }

    fn read_lease(&self, reader: &[u8], hold: i64) -> ReadLease {
        let lease = self.sim.with(|world| world.read_lease(self.lock, reader, hold));
        lease.map_or(ReadLease::Gone, ReadLease::Until)
    }

    fn check_leases(&self, _: &[u8]) -> Result<(), Error> {
        Ok(())
    }

    fn readers(&self, visit: &mut dyn FnMut(Reader) -> ControlFlow<()>) -> Result<(), Error> {
        for reader in self.some_readers(usize::MAX) {
            if visit(reader).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn some_readers(&self, most: usize) -> Vec<Reader> {
        self.sim.with(|world| world.read_write(self.lock).map_or(Vec::new(), |value| value.readers(most)))
    }

    fn fair_head(&self) -> Option<FairEntry> {
        self.sim.with(|world| world.fair.get(self.lock)?.front().cloned())
    }

    fn fair_is_elsewhere(&self) -> bool {
        false
    }

    fn fair_has_deadline(&self, owner: &[u8]) -> bool {
        self.sim.with(|world| world.fair_entry(self.lock, owner).is_some())
    }

    fn fair_join(&self, owner: &[u8], budget: LeaseMs) {
        let lease_ends = self.expiry(&());
        self.sim.with(|world| world.fair_join(self.lock, owner, budget, lease_ends));
    }

    fn fair_pop(&self, most: usize, leaves: &dyn Fn(&[u8]) -> bool) -> Vec<Box<[u8]>> {
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

    fn fair_take_out(&self, passed: usize, most: usize, leaves: &dyn Fn(&[u8]) -> bool) -> Walked {
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
        Walked { taken, passed: stay.len(), at_head: start == 0 }
    }

    fn fair_forget(&self, _: &[Box<[u8]>]) {}

    fn fair_lower(
        &self,
        passed: usize,
        most: usize,
        latest: &dyn Fn(usize, &[u8]) -> Option<UnixMs>,
    ) -> (usize, bool) {
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
        (end.saturating_sub(start), start == 0)
    }

    fn fair_deadline(&self, owner: &[u8]) -> Option<UnixMs> {
        self.sim.with(|world| world.fair_entry(self.lock, owner)?.deadline)
    }

    fn fair_missing(&self, owners: &[Box<[u8]>], _: usize) -> Vec<Box<[u8]>> {
        let list = self.list();
        owners.iter().take_while(|owner| !list.contains(owner)).cloned().collect()
    }

    fn set_fair_deadline(&self, owner: &[u8], at: UnixMs) {
        self.sim.with(|world| {
            if let Some(entry) = world.fair_entry(self.lock, owner) {
                entry.deadline = Some(at);
            }
        });
    }

    fn fair_put_back(&self, owners: &[Box<[u8]>], deadline: UnixMs) {
        self.sim.with(|world| {
            let list = world.fair.entry(self.lock.clone()).or_default();
            for owner in owners.iter().rev() {
                list.push_front(FairEntry { owner: owner.clone(), deadline: Some(deadline) });
            }
        });
    }

    fn notify_fair(&self, owner: &[u8]) {
        self.sim.with(|world| world.called.push((self.lock.clone(), owner.into())));
    }

    fn last_token(&self) -> Result<Option<i64>, Error> {
        match self.sim.with(|world| world.tokens.get(self.lock).copied()) {
            None => Ok(None),
            Some(last) => last.map(Some).ok_or(Error::NotAToken),
        }
    }

    fn expiry(&self, (): &()) -> Expiry {
        self.sim.with(|world| match world.keys.get(self.lock) {
            Some(Value::Lock(hold)) => hold.expiry,
            Some(Value::ReadWrite(value)) => value.expiry,
            None | Some(Value::Other) => Expiry::Never,
        })
    }

    fn perform(&self, (): (), owner: Option<&[u8]>, change: &Change) -> Result<(), Error> {
        self.sim.with(|world| {
            let owner = owner.unwrap_or_default();
            world.bury(self.lock, change.buried());
            match change.mode {
                Mode::Mutex => world.change_mutex(self.lock, owner, change),
                Mode::Read | Mode::Write => world.change_read_write(self.lock, owner, change),
            }
            if let Some(token) = change.token {
                world.tokens.insert(self.lock.clone(), Some(token.get()));
            }
            world.unlock_messages.extend(change.unlock_message.map(|_| self.lock.clone()));
        });
        Ok(())
    }

    fn publish(&self, _: UnlockMessage) -> u64 {
        self.sim.with(|world| {
            world.unlock_messages.push(self.lock.clone());
            world.foreign_waiters
        })
    }

    fn listening_redisson_writers(&self) -> u64 {
        self.sim.with(|world| world.foreign_writers)
    }

    fn raise_expired(&self) {}

    fn write_access(&self) -> WriteAccess {
        self.sim.with(|world| world.write_access)
    }
}
