//! What `rlock-core` asks of a server, answered from plain data.

use std::ops::ControlFlow;

use rlock_core::decision::UnlockMessage;
use rlock_core::facts::{self, Holder, ReadLease, WriteAccess};
use rlock_core::locks::{LockName, LockRef, Ticket, User};
use rlock_core::note::Note;
use rlock_core::port::{FairList, InCommand, InTask, Lock, ReaderPage, Server};
use rlock_core::settings::Settings;
use rlock_core::view::Others;
use rlock_core::{Change, Error, Expiry, Fields, Kind, MonoMs, Reply, UnixMs, View};

use crate::Sim;
use crate::fair::SimFairList;
use crate::world::{Client, Message, Value};

/// A lock in a simulated server.
pub struct SimLock<'a> {
    pub(crate) sim: &'a Sim,
    pub(crate) lock: &'a LockRef,
}

impl Server for Sim {
    type Lock<'s> = SimLock<'s>;
    type Performed = ();

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

    fn answer(&self, ticket: Ticket, answer: Result<Reply, Error>) {
        self.with(|world| {
            if let Some(client) = world.clients.get_mut(&ticket).filter(|client| client.answer.is_none()) {
                client.answer = Some(answer);
            }
        });
    }

    fn tell(&self, channel: &[u8], message: &[u8]) {
        self.with(|world| {
            let received = world.subscribed.contains(channel);
            world.messages.push(Message { channel: channel.into(), text: message.to_vec(), received });
        });
    }

    fn has_subscriber(&self, channel: &[u8]) -> bool {
        self.with(|world| {
            let subscribed = world.subscribed.contains(channel);
            if !subscribed {
                world.unsubscribed.insert(channel.into());
            }
            subscribed
        })
    }

    fn set_timer(&self, in_ms: Option<u64>) {
        self.with(|world| world.timer = in_ms.map(|ms| MonoMs(world.clock.0.saturating_add(ms))));
    }

    // Every change of a key is reported anyway.
    fn listen_to_keys(&self) {}

    fn note(&self, note: Note<'_>) {
        self.with(|world| world.unconfirmed += u32::from(matches!(note, Note::Unconfirmed)));
    }
}

impl InCommand for Sim {
    fn may_block(&self) -> bool {
        self.with(|world| world.may_block)
    }

    fn client_id(&self) -> u64 {
        self.with(|world| world.client())
    }

    fn user(&self) -> Option<User> {
        self.with(|world| world.users.get(&world.client()).cloned())
    }

    fn block(&self, ticket: Ticket, _: bool) -> Result<(), Error> {
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
}

impl InTask for Sim {
    fn at<T>(&self, lock: LockName<'_>, body: impl FnOnce(&mut SimLock<'_>) -> T) -> Option<T> {
        Some(body(&mut SimLock { sim: self, lock: &lock.to_ref() }))
    }
}

impl SimLock<'_> {
    /// The lock as this owner sees it, before any lease key is read; `None` if the key holds something else.
    fn seen_by(&self, owner: Option<&[u8]>) -> Option<View> {
        let mut fields = self.state(&(), owner).ok()?;
        if fields.kind == Kind::Mutex {
            fields.key_end = self.expiry(&());
        }
        Some(View::of(&fields))
    }
}

/// The number of fields or members of other owners.
fn others(view: &View) -> usize {
    match view.others {
        Others::NotAsked(count) => count,
        Others::None | Others::Dead => 0,
        Others::Live { .. } | Others::InDoubt => 1,
        Others::Permits { members, .. } => members as usize,
    }
}

impl Lock for SimLock<'_> {
    type Key = ();
    type Performed = ();
    type FairList<'f>
        = SimFairList<'f>
    where
        Self: 'f;

    fn name(&self) -> LockName<'_> {
        self.lock.name()
    }

    fn open(&mut self) {
        self.sim.expire(self.lock);
    }

    fn state(&self, (): &(), owner: Option<&[u8]>) -> Result<Fields, Error> {
        self.sim.with(|world| match world.keys.get(self.lock) {
            None => Ok(Fields::FREE),
            Some(Value::Other) => Err(Error::WrongType),
            Some(Value::Lock(hold)) => {
                let own = (owner == Some(&*hold.owner)).then_some(hold.holds);
                Ok(Fields::mutex(own))
            }
            Some(Value::ReadWrite(value)) => Ok(value.fields(owner)),
            Some(Value::Permits(value)) => value.fields(owner, world.now),
        })
    }

    fn permits(&self, (): &(), owner: Option<&[u8]>) -> facts::Permits {
        self.sim.with(|world| match world.keys.get(self.lock) {
            Some(Value::Permits(value)) => value.seen_by(owner, world.now),
            _ => facts::Permits::default(),
        })
    }

    fn living_permits(&self) -> u32 {
        self.sim.with(|world| world.living_permits(self.lock).len() as u32)
    }

    fn is_read(&self, (): &()) -> bool {
        self.sim.with(|world| matches!(world.keys.get(self.lock), Some(Value::ReadWrite(of)) if !of.writing))
    }

    fn read_lease(&self, reader: &[u8], hold: i64) -> ReadLease {
        let lease = self.sim.with(|world| world.read_lease(self.lock, reader, hold));
        let missing = || self.sim.with(|world| world.lease_keys_migrate);
        match lease {
            Some(until) => ReadLease::Until(until),
            None if missing() => ReadLease::Unknown,
            None => ReadLease::Gone,
        }
    }

    fn check_leases(&self, _: &[u8]) -> Result<(), Error> {
        Ok(())
    }

    fn readers(&self, visit: &mut dyn FnMut(Holder) -> ControlFlow<()>) -> Result<(), Error> {
        for reader in self.some_readers(usize::MAX) {
            if visit(reader).is_break() {
                break;
            }
        }
        Ok(())
    }

    // All on one page, as a server shows a small hash.
    fn readers_from(&self, _: u64, _: usize) -> Result<Option<ReaderPage>, Error> {
        Ok(Some((self.some_readers(usize::MAX), None)))
    }

    fn some_readers(&self, most: usize) -> Vec<Holder> {
        self.sim.with(|world| world.read_write(self.lock).map_or(Vec::new(), |value| value.readers(most)))
    }

    fn fair_list(&self) -> SimFairList<'_> {
        SimFairList { sim: self.sim, lock: self.lock }
    }

    fn last_token(&self) -> Result<Option<i64>, Error> {
        match self.sim.with(|world| world.tokens.get(self.lock).copied()) {
            None => Ok(None),
            Some(last) => last.map(Some).ok_or(Error::NotAToken),
        }
    }

    fn expiry(&self, (): &()) -> Expiry {
        self.sim.with(|world| world.key_end(self.lock))
    }

    fn perform(&self, (): (), owner: Option<&[u8]>, change: &Change) -> Result<(), Error> {
        let expected = self.seen_by(owner).map(|view| view.after(change));
        self.sim.with(|world| world.change(self.lock, owner.unwrap_or_default(), change));
        let found = self.seen_by(owner);
        if let (Some(expected), Some(found)) = (expected, found) {
            let known = |view: View| (view.kind, view.sole, view.shared_holds(), others(&view), view.key_end);
            assert_eq!(known(found), known(expected), "the view after {change:?}");
        }
        Ok(())
    }

    // No other module reacts to events here.
    fn raise(&self, _: &Change, (): ()) {}

    fn publish(&self, message: UnlockMessage) -> bool {
        self.sim.with(|world| world.unlock_messages.push(self.lock.clone()));
        // The head is called as well.
        message == UnlockMessage::Free && self.fair_list().head().is_some()
    }

    fn listeners(&self, message: UnlockMessage) -> u64 {
        self.sim.with(|world| match message {
            UnlockMessage::ReadersGone => world.redisson_writers,
            UnlockMessage::Free | UnlockMessage::WriterGone => world.redisson_waiters,
        })
    }

    fn raise_expired(&self) {}

    fn slot_has_moved(&self) -> bool {
        self.write_access() == WriteAccess::SlotMoved
    }

    fn write_access(&self) -> WriteAccess {
        self.sim.with(|world| world.write_access)
    }
}
