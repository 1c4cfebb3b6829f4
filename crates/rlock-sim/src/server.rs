//! What `rlock-core` asks of a server, answered from plain data.

use rlock_core::decide::UnlockMessage;
use rlock_core::port::{Ground, Note, Server, Settings, Site};
use rlock_core::queue::{LockId, Queues, Ticket};
use rlock_core::{Change, Error, Expiry, HashChange, LockState, MonoMs, Reply, UnixMs};

use crate::Sim;
use crate::world::{Client, Hold, Message, Value};

/// A lock in a simulated server.
pub struct SimSite<'a> {
    pub(crate) sim: &'a Sim,
    pub(crate) lock: &'a LockId,
}

impl Server for Sim {
    type Site<'s> = SimSite<'s>;

    fn at<T>(&self, lock: &LockId, body: impl FnOnce(&SimSite<'_>) -> T) -> Option<T> {
        Some(body(&SimSite { sim: self, lock }))
    }

    fn queues<T>(&self, body: impl FnOnce(&mut Queues) -> T) -> T {
        self.with(|world| body(&mut world.queues))
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
        self.with(|world| world.calling)
    }

    fn block(&self, lock: &LockId, ticket: Ticket) {
        self.with(|world| {
            let client = Client { id: world.calling, lock: lock.clone(), answer: None };
            world.clients.insert(ticket, client);
        });
    }

    fn answer(&self, ticket: Ticket, answer: Result<Reply, Error>) {
        self.with(|world| {
            if let Some(client) = world.clients.get_mut(&ticket).filter(|client| client.answer.is_none()) {
                client.answer = Some(answer);
            }
        });
    }

    fn tell(&self, channel: &[u8], message: &[u8]) -> u64 {
        self.with(|world| {
            let heard = world.heard.contains(channel);
            world.messages.push(Message { channel: channel.into(), text: message.to_vec(), heard });
            heard.into()
        })
    }

    fn set_timer(&self, in_ms: Option<u64>) {
        self.with(|world| world.timer = in_ms.map(|ms| MonoMs(world.clock.0.saturating_add(ms))));
    }

    fn note(&self, note: Note<'_>) {
        self.with(|world| world.unconfirmed += u32::from(matches!(note, Note::Unconfirmed)));
    }
}

impl Site for SimSite<'_> {
    type Server = Sim;
    type Key = ();

    fn server(&self) -> &Sim {
        self.sim
    }

    fn lock(&self) -> &LockId {
        self.lock
    }

    fn open(&self) {
        self.sim.expire(self.lock);
    }

    fn state(&self, (): &(), owner: Option<&[u8]>) -> Result<LockState, Error> {
        self.sim.with(|world| match world.keys.get(self.lock) {
            None => Ok(LockState::Free),
            Some(Value::Other) => Err(Error::WrongType),
            Some(Value::Lock(hold)) if owner == Some(&*hold.owner) => {
                Ok(LockState::Mine { holds: hold.holds, expiry: hold.expiry })
            }
            Some(Value::Lock(_)) => Ok(LockState::Theirs),
        })
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
            None | Some(Value::Other) => Expiry::Never,
        })
    }

    fn perform(&self, (): (), owner: Option<&[u8]>, change: &Change) -> Result<(), Error> {
        self.sim.with(|world| {
            let (lock, owner) = (self.lock.clone(), owner.unwrap_or_default());
            match change.hash {
                HashChange::Delete => {
                    world.keys.remove(&lock);
                }
                HashChange::Set(holds) | HashChange::Replace(holds) => {
                    let before = match world.keys.remove(&lock) {
                        Some(Value::Lock(hold)) if change.hash == HashChange::Set(holds) => hold.expiry,
                        _ => Expiry::Never,
                    };
                    let hold = Hold { owner: owner.into(), holds, expiry: before };
                    world.keys.insert(lock.clone(), Value::Lock(hold));
                }
                HashChange::Keep => {}
            }
            if let (Some(at), Some(Value::Lock(hold))) = (change.expire_at, world.keys.get_mut(&lock)) {
                hold.expiry = Expiry::At(at);
            }
            if let Some(token) = change.token {
                world.tokens.insert(lock, Some(token.get()));
            }
            world.unlock_messages += u32::from(change.unlock_message.is_some());
        });
        Ok(())
    }

    fn publish(&self, _: UnlockMessage) -> u64 {
        self.sim.with(|world| {
            world.unlock_messages += 1;
            world.foreign_waiters
        })
    }

    fn raise_expired(&self) {}

    fn ground(&self) -> Ground {
        self.sim.with(|world| world.ground)
    }
}
