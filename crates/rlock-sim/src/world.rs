//! All data of a simulated server.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rlock_core::facts::{FairEntry, WriteAccess};
use rlock_core::locks::{LockRef, Ticket, User};
use rlock_core::settings::Settings;
use rlock_core::{Error, Expiry, Holds, MonoMs, Reply, UnixMs};

/// All data of a server, except the state of its locks, which the core keeps.
#[derive(Clone, Debug)]
pub struct World {
    /// The keys; an expired one may still be here.
    pub keys: BTreeMap<LockRef, Value>,
    /// The lease keys of read holds, by lock, owner and number; an expired one may still be here.
    pub read_leases: BTreeMap<(LockRef, Box<[u8]>, i64), Expiry>,
    /// The fair lists, the head first, with their deadlines.
    pub fair: BTreeMap<LockRef, VecDeque<FairEntry>>,
    /// Whether no entry can be removed from the fair lists.
    pub fair_is_stuck: bool,
    /// The Redisson waiters that were notified of their turn since this was last emptied.
    pub called: Vec<(LockRef, Box<[u8]>)>,
    /// The last fencing tokens; `None` if the key does not hold an integer.
    pub tokens: BTreeMap<LockRef, Option<i64>>,
    /// The wall clock.
    pub now: UnixMs,
    /// The clock that never steps.
    pub clock: MonoMs,
    /// When the timer fires, if it is set.
    pub timer: Option<MonoMs>,
    /// Clients that are blocked, or have undelivered answers.
    pub clients: BTreeMap<Ticket, Client>,
    /// The users of connections; others have the default user.
    pub users: BTreeMap<u64, User>,
    /// Channels with a subscriber.
    pub subscribed: BTreeSet<Box<[u8]>>,
    /// Channels that were asked for and had no subscriber, since this was last emptied.
    pub unsubscribed: BTreeSet<Box<[u8]>>,
    /// Messages since this was last emptied, received or not.
    pub messages: Vec<Message>,
    /// The locks of all unlock messages to Redisson waiters since this was last emptied.
    pub unlock_messages: Vec<LockRef>,
    /// How many grants by message ended unconfirmed since this was last set to 0.
    pub unconfirmed: u32,
    /// How many Redisson waiters listen.
    pub redisson_waiters: u64,
    /// How many of these want to write while others read.
    pub redisson_writers: u64,
    /// Whether this server is a primary.
    pub primary: bool,
    /// Whether anything may be written outside commands (not during CLIENT PAUSE).
    pub may_write: bool,
    /// Whether locks may be granted outside commands.
    pub write_access: WriteAccess,
    /// Whether a lease key that is not here may be on another server: the slot migrates.
    pub lease_keys_migrate: bool,
    /// Whether a client may be blocked now.
    pub may_block: bool,
    /// Whether the server refuses to block the clients that may be.
    pub refuses_to_block: bool,
    /// The configuration.
    pub settings: Settings,
    /// The client of the last command, and the lock.
    pub(crate) calling: Option<(u64, LockRef)>,
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// A lock that is held.
    Lock(Hold),
    /// A read/write lock that is held, or was.
    ReadWrite(ReadWrite),
    /// A lock with permits.
    Permits(Permits),
    /// A value that is not a lock.
    Other,
}

impl Value {
    /// When the key expires.
    pub fn expiry(&self) -> Expiry {
        match self {
            Self::Lock(hold) => hold.expiry,
            Self::ReadWrite(value) => value.expiry,
            Self::Permits(value) => value.expiry,
            Self::Other => Expiry::Never,
        }
    }

    /// When permits end or ended.
    pub fn permit_ends(&self) -> impl Iterator<Item = UnixMs> {
        let permits = if let Self::Permits(value) = self { Some(value) } else { None };
        permits.into_iter().flat_map(|permits| permits.ends.values().copied())
    }
}

/// A hold of a mutex.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hold {
    /// Its owner.
    pub owner: Box<[u8]>,
    /// Its count.
    pub holds: Holds,
    /// When its lease ends.
    pub expiry: Expiry,
}

/// A read/write lock, as its hash has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReadWrite {
    /// Whether `mode` is `write`.
    pub writing: bool,
    /// The readers, also dead ones, and their holds.
    pub reads: BTreeMap<Box<[u8]>, Holds>,
    /// The writers, and their holds.
    pub writes: BTreeMap<Box<[u8]>, Holds>,
    /// When the key expires.
    pub expiry: Expiry,
}

/// A lock with permits, as its sorted set has them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Permits {
    /// When the permit of each owner ends or ended.
    pub ends: BTreeMap<Box<[u8]>, UnixMs>,
    /// When the key expires.
    pub expiry: Expiry,
}

/// A client that is blocked, or has an undelivered answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    /// Its number.
    pub id: u64,
    /// The lock that it waits for.
    pub lock: LockRef,
    /// The undelivered answer; `None` while it is blocked.
    pub answer: Option<Result<Reply, Error>>,
}

/// A message to an enqueued waiter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// Its channel.
    pub channel: Box<[u8]>,
    /// Its text.
    pub text: Vec<u8>,
    /// Whether a subscriber received it.
    pub received: bool,
}

impl World {
    /// An empty primary without restrictions.
    pub fn new(settings: Settings) -> Self {
        Self {
            keys: BTreeMap::new(),
            read_leases: BTreeMap::new(),
            fair: BTreeMap::new(),
            fair_is_stuck: false,
            called: Vec::new(),
            tokens: BTreeMap::new(),
            now: UnixMs(1_000),
            clock: MonoMs(0),
            timer: None,
            clients: BTreeMap::new(),
            users: BTreeMap::new(),
            subscribed: BTreeSet::new(),
            unsubscribed: BTreeSet::new(),
            messages: Vec::new(),
            unlock_messages: Vec::new(),
            unconfirmed: 0,
            redisson_waiters: 0,
            redisson_writers: 0,
            primary: true,
            may_write: true,
            write_access: WriteAccess::Allowed,
            lease_keys_migrate: false,
            may_block: true,
            refuses_to_block: false,
            settings,
            calling: None,
        }
    }

    /// The connection of the call under way.
    pub(crate) fn client(&self) -> u64 {
        self.calling.as_ref().map_or(0, |(client, _)| *client)
    }

    /// The value of a key that exists now.
    fn value(&self, lock: &LockRef) -> Option<&Value> {
        self.keys.get(lock).filter(|value| !self.is_over(value.expiry()))
    }

    /// The hold of a lock, if it is held now.
    pub fn hold(&self, lock: &LockRef) -> Option<&Hold> {
        if let Value::Lock(hold) = self.value(lock)? { Some(hold) } else { None }
    }

    /// The permits of a key, if it is there now.
    pub fn permits(&self, lock: &LockRef) -> Option<&Permits> {
        if let Value::Permits(value) = self.value(lock)? { Some(value) } else { None }
    }

    /// The owners of live permits, and when these end.
    pub fn living_permits(&self, lock: &LockRef) -> Vec<(&[u8], UnixMs)> {
        let Some(Value::Permits(permits)) = self.keys.get(lock) else { return Vec::new() };
        let living = permits.ends.iter().filter(|(_, end)| **end > self.now);
        living.map(|(owner, end)| (&**owner, *end)).collect()
    }

    /// The read/write lock of a key, if its key is there now.
    pub fn read_write(&self, lock: &LockRef) -> Option<&ReadWrite> {
        if let Value::ReadWrite(value) = self.value(lock)? { Some(value) } else { None }
    }

    /// Until when the lease of a read hold of this number lasts, if it does.
    pub fn read_lease(&self, lock: &LockRef, owner: &[u8], hold: i64) -> Option<Expiry> {
        let lease = self.read_leases.get(&(lock.clone(), owner.into(), hold)).copied();
        lease.filter(|lease| !self.is_over(*lease))
    }

    /// The live readers.
    pub fn living_readers(&self, lock: &LockRef) -> Vec<&[u8]> {
        let Some(value) = self.read_write(lock) else { return Vec::new() };
        let lives = |owner: &[u8], holds: Holds| {
            (1..=holds.get()).any(|hold| self.read_lease(lock, owner, hold).is_some())
        };
        let living = value.reads.iter().filter(|(owner, holds)| lives(owner, **holds));
        living.map(|(owner, _)| &**owner).collect()
    }

    /// Whether the lock is free now; not where the key holds something else.
    pub fn is_free(&self, lock: &LockRef) -> bool {
        let written = self.read_write(lock).is_some_and(|value| value.writing);
        let read = !self.living_readers(lock).is_empty() || !self.living_permits(lock).is_empty();
        self.hold(lock).is_none() && !written && !read && self.keys.get(lock) != Some(&Value::Other)
    }

    /// When a lock's key expires; never if there is no key.
    pub(crate) fn key_end(&self, lock: &LockRef) -> Expiry {
        self.keys.get(lock).map_or(Expiry::Never, Value::expiry)
    }

    /// A key has expired when its time has passed, not when it has come.
    fn is_over(&self, expiry: Expiry) -> bool {
        matches!(expiry, Expiry::At(at) if at < self.now)
    }

    /// Deletes an expired key. Returns whether it was there.
    pub(crate) fn take_expired(&mut self, lock: &LockRef) -> bool {
        let over = self.keys.get(lock).is_some_and(|value| self.is_over(value.expiry()));
        over && self.keys.remove(lock).is_some()
    }
}
