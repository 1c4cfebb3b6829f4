//! The server as the rules see it.
//!
//! The module implements it with the server's API; the model checker and the fuzzer implement it with plain data. They
//! therefore explore the code that runs in production. A call of these methods may call back into the module: the
//! server deletes an expired key when it opens it, and other modules react to the events of rlock. No borrow of the
//! locks may live across a call that may call back.

use std::ops::ControlFlow;

use crate::decision::{Change, Reply, UnlockMessage};
use crate::error::Error;
use crate::facts::{Holder, Permits, ReadLease, WriteAccess};
use crate::locks::{LockName, Ticket, User};
use crate::note::Note;
use crate::settings::Settings;
use crate::shape::Fields;
use crate::types::{Expiry, MonoMs, UnixMs};

mod fair_list;

pub use self::fair_list::FairList;

/// Some readers, and the cursor of the next ones; `None` after the last.
pub type ReaderPage = (Vec<Holder>, Option<u64>);

/// A server with locks, as every entry point of the rules sees it.
///
/// Each kind of entry point has a trait for the rest: [`InCommand`], [`InTask`].
pub trait Server {
    /// A lock of this server.
    type Lock<'a>: Lock<Performed = Self::Performed>;

    /// What [`Lock::raise`] needs to know of a change that [`Lock::perform`] has made.
    type Performed;

    /// The wall clock, which may step. It also advances during scripts and transactions.
    fn now(&self) -> UnixMs;

    /// A clock that never steps.
    fn clock(&self) -> MonoMs;

    /// The configuration.
    fn settings(&self) -> Settings;

    /// Whether this server is a primary.
    fn is_primary(&self) -> bool;

    /// Whether the module may write outside a client's command.
    fn may_write(&self) -> bool;

    /// Unblocks the client of a ticket with an answer, if a client is blocked with it.
    fn answer(&self, ticket: Ticket, answer: Result<Reply, Error>);

    /// Publishes to the subscribers of a channel.
    fn tell(&self, channel: &[u8], message: &[u8]);

    /// Whether a client of this server is subscribed to the channel by name. Pattern subscribers do not count: tools that watch every
    /// channel acquire nothing.
    fn has_subscriber(&self, channel: &[u8]) -> bool;

    /// Sets the only timer to fire once after this time; `None` stops it.
    fn set_timer(&self, in_ms: Option<u64>);

    /// Changes of keys by other clients matter from now on: the server must report them.
    fn listen_to_keys(&self);

    /// Counts this for the statistics.
    fn note(&self, note: Note<'_>);
}

/// A server during a command of the module, which has a client.
pub trait InCommand: Server {
    /// Whether the client may be blocked: not in a transaction or a script.
    fn may_block(&self) -> bool;

    /// The id of the client.
    fn client_id(&self) -> u64;

    /// The name of the client's user; in a script, that of its caller. `None` for the default user, and without a user. This method
    /// is called only where a waiter or a tie is added.
    fn user(&self) -> Option<User>;

    /// Blocks the client, which waits with this ticket. `has_own_user`: its user is not the default one. If the server refuses,
    /// nothing has changed.
    fn block(&self, ticket: Ticket, has_own_user: bool) -> Result<(), Error>;
}

/// A server outside commands, as the timer and the heartbeat call the rules. There is no client whose database could
/// change, so any lock of any database can be visited.
pub trait InTask: Server {
    /// Visits a lock; `None` if its database does not exist, or if its slot is about to arrive as a whole: the other
    /// server still decides about the lock.
    fn at<T>(&self, lock: LockName<'_>, body: impl FnOnce(&mut Self::Lock<'_>) -> T) -> Option<T>;
}

/// One lock on a server.
///
/// While its key is open, only the methods that take it, and those that open no key, may be called: another one may delete an expired
/// key, and another module may react to that.
pub trait Lock {
    /// The lock's key, while it is open.
    type Key;
    /// See [`Server::Performed`].
    type Performed;
    /// Redisson's list of the waiters for the lock's fair lock.
    type FairList<'a>: FairList
    where
        Self: 'a;

    /// The lock's name.
    fn name(&self) -> LockName<'_>;

    /// Opens the key to read and write. The server deletes an expired key now.
    fn open(&mut self) -> Self::Key;

    /// The content of the key as this owner sees it; without an owner, as an owner without holds sees it. The expiry of a
    /// plain lock is left out.
    fn state(&self, key: &Self::Key, owner: Option<&[u8]>) -> Result<Fields, Error>;

    /// Whether the key holds a read/write lock without a writer. This is cheap, and not exact: another hash may look like one.
    fn is_read(&self, key: &Self::Key) -> bool;

    /// The lease key of a reader's hold with this number. No key of the lock may be open: the server may delete an
    /// expired key now.
    fn read_lease(&self, reader: &[u8], hold: i64) -> ReadLease;

    /// Fails if the caller has no permission to write and delete the lease keys of this reader.
    fn check_leases(&self, reader: &[u8]) -> Result<(), Error>;

    /// Visits the readers of a read/write lock until `visit` breaks, some of them perhaps twice. The lock's key is not open
    /// during a visit. Fails at a field that belongs to no reader.
    fn readers(&self, visit: &mut dyn FnMut(Holder) -> ControlFlow<()>) -> Result<(), Error>;

    /// The readers from a cursor on, about `most`, and the cursor of the next ones: 0 at first, `None` after the last. Readers that
    /// stay during the whole walk appear. Fails at a field that belongs to no reader; `None` if the server does not show them.
    fn readers_from(&self, cursor: u64, most: usize) -> Result<Option<ReaderPage>, Error>;

    /// At most `most` readers. If there are more, each call returns others, so that all of them appear in the end.
    fn some_readers(&self, most: usize) -> Vec<Holder>;

    /// The permits in the key; without an owner, as an owner that is not a member sees them.
    fn permits(&self, key: &Self::Key, owner: Option<&[u8]>) -> Permits;

    /// How many permits of the lock are alive; more than any limit if that is unknown. The lock's key must not be open.
    fn living_permits(&self) -> u32;

    /// The lock's last fencing token that this server knows, if any. No key of the lock may be open: the server may
    /// delete an expired key now.
    fn last_token(&self) -> Result<Option<i64>, Error>;

    /// Redisson's list of the waiters for the lock's fair lock. No key of the lock may be open.
    fn fair_list(&self) -> Self::FairList<'_>;

    /// When the key expires; never, if it does not exist.
    fn expiry(&self, key: &Self::Key) -> Expiry;

    /// Writes and replicates a change, and closes the key; `owner` is the field that the change sets. The change of the lock's own key
    /// is replicated before lease keys and the token's key are opened: the server notifies other modules of those that have expired.
    /// After an error nothing has changed.
    fn perform(
        &self,
        key: Self::Key,
        owner: Option<&[u8]>,
        change: &Change,
    ) -> Result<Self::Performed, Error>;

    /// Raises the keyspace events of a change that was made. Other modules may react to each, and call this one.
    fn raise(&self, change: &Change, performed: Self::Performed);

    /// Wakes the waiting Redisson clients. Returns whether the fair list has entries: its head was called as well.
    fn publish(&self, message: UnlockMessage) -> bool;

    /// The number of this server's clients that are subscribed by name to the channels of this message.
    fn listeners(&self, message: UnlockMessage) -> u64;

    /// Raises the event `rlock.expire`.
    fn raise_expired(&self);

    /// Whether another server, or none, serves the lock's slot now.
    fn slot_has_moved(&self) -> bool;

    /// Whether the lock may be granted now, outside a client's own command on it.
    fn write_access(&self) -> WriteAccess;
}
