//! What the rules ask of the server they run in.
//!
//! The module answers with the server's API; the model checker and the fuzzer answer from plain data. So
//! what runs in production is what is explored. A call of these may call back into the module (a key that
//! has expired is deleted when it is opened, and others react to our events), so that nothing of the
//! queues is borrowed across one.

use std::ops::ControlFlow;

use crate::decision::{Admission, Change, Decision, Reply, UnlockMessage};
use crate::error::Error;
use crate::fair::Entry;
use crate::living::ReadLease;
use crate::queue::{Cause, Limits, LockId, Queues, Ticket, Turns, Walked};
use crate::shape::LockState;
use crate::types::{Expiry, Holds, LeaseMs, MonoMs, UnixMs};

/// A server with locks.
pub trait Server {
    /// One of its locks.
    type Site<'a>: Site;

    /// Goes to a lock outside a command on it; `None` if there is no such database.
    fn at<T>(&self, lock: &LockId, body: impl FnOnce(&Self::Site<'_>) -> T) -> Option<T>;

    /// The queues, for as long as `body` runs, which calls nothing of the server's.
    fn queues<T>(&self, body: impl FnOnce(&mut Queues) -> T) -> T;

    /// The wall clock, which may step. It runs on during scripts and transactions.
    fn now(&self) -> UnixMs;

    /// A clock that never steps.
    fn clock(&self) -> MonoMs;

    /// What is set by configuration.
    fn settings(&self) -> Settings;

    /// Whether this server is no replica.
    fn is_primary(&self) -> bool;

    /// Whether something may be written outside a client's command.
    fn may_write(&self) -> bool;

    /// Whether the client of the command under way may be blocked: not in a transaction or a script.
    fn may_block(&self) -> bool;

    /// The number of the client of the command under way.
    fn client_id(&self) -> u64;

    /// Blocks the client of the command under way, which waits for this lock with this ticket. Where the server refuses
    /// that, nothing has changed.
    fn block(&self, lock: &LockId, ticket: Ticket) -> Result<(), Error>;

    /// Unblocks the client of a ticket with an answer, if one is blocked by it.
    fn answer(&self, ticket: Ticket, answer: Result<Reply, Error>);

    /// Publishes to the subscribers of a channel.
    fn tell(&self, channel: &[u8], message: &[u8]);

    /// Publishes a grant if a client of this server is subscribed to the channel by its name, and says whether one is.
    /// Pattern subscribers do not count: tools that watch every channel acquire nothing.
    fn offer(&self, channel: &[u8], grant: &[u8]) -> bool;

    /// Lets the timer fire once in so many milliseconds, and not otherwise; `None` stops it.
    fn set_timer(&self, in_ms: Option<u64>);

    /// Counts what happened.
    fn note(&self, note: Note<'_>);
}

/// A lock at its place in the server.
pub trait Site {
    /// The server it is in.
    type Server: Server;
    /// The lock's key, while it is open.
    type Key;

    /// The server it is in.
    fn server(&self) -> &Self::Server;

    /// Which lock it is.
    fn lock(&self) -> &LockId;

    /// Opens the key to read and write. The server deletes an expired one now.
    fn open(&self) -> Self::Key;

    /// The lock as this owner sees it; as a stranger does, where none is given.
    fn state(&self, key: &Self::Key, owner: Option<&[u8]>) -> Result<LockState, Error>;

    /// The lease key of a reader's hold of this number. No key of the lock is open: the server may delete an expired
    /// one now.
    fn read_lease(&self, reader: &[u8], hold: i64) -> ReadLease;

    /// Refuses a caller that may not write and delete the lease keys of this reader.
    fn check_leases(&self, reader: &[u8]) -> Result<(), Error>;

    /// Goes through the readers of a read/write lock, until `visit` breaks it off. Its key is not open while one is
    /// visited. An error if there is a field that is no reader's.
    fn readers(&self, visit: &mut dyn FnMut(Reader) -> ControlFlow<()>) -> Result<(), Error>;

    /// At most so many of the readers: others each time, where there are more; so that all come up at last.
    fn some_readers(&self, most: usize) -> Vec<Reader>;

    /// Removes the fields of readers that are dead, while others remain.
    fn clear_away(&self, dead: &[Reader]);

    /// The last fencing token of the lock that this server knows of, if there was one. No key of the lock is
    /// open: the server may delete an expired one now.
    fn last_token(&self) -> Result<Option<i64>, Error>;

    /// The head of the list of those who wait for Redisson's fair lock. No key of the lock is open, here and in all
    /// that follows of that list.
    fn fair_head(&self) -> Option<Entry>;

    /// Whether a part of that list may be on the server that the lock's slot comes from or goes to.
    fn fair_is_elsewhere(&self) -> bool;

    /// Whether this owner stands in the list.
    fn fair_stands(&self, owner: &[u8]) -> bool;

    /// Puts an owner at the end of the list, unless it stands there: its deadline is that of the last, or the end of
    /// the lock's lease, and `budget` more.
    fn fair_join(&self, owner: &[u8], budget: LeaseMs);

    /// Removes the first entries of the list, at most `most`, as long as `leaves` is true of their owners. Who they were.
    fn fair_pop(&self, most: usize, leaves: &dyn Fn(&[u8]) -> bool) -> Vec<Box<[u8]>>;

    /// Removes the entries of owners that `leaves` is true of: of `most` entries, those before the last `passed` ones.
    fn fair_take_out(&self, passed: usize, most: usize, leaves: &dyn Fn(&[u8]) -> bool) -> Walked;

    /// Removes the deadlines of owners that are not in the list.
    fn fair_forget(&self, owners: &[Box<[u8]>]);

    /// Lowers deadlines of entries of the list to what `latest` says, of `most` entries, those before the last `passed`
    /// ones; it is asked for each by its place from the head on. How many these were, and whether they were the first ones.
    fn fair_lower(
        &self,
        passed: usize,
        most: usize,
        latest: &dyn Fn(usize, &[u8]) -> Option<UnixMs>,
    ) -> (usize, bool);

    /// Everybody in the list, in order.
    fn fair_list(&self) -> Vec<Box<[u8]>>;

    /// Sets an owner's deadline.
    fn set_fair_deadline(&self, owner: &[u8], at: UnixMs);

    /// Puts owners at the front of the list, in this order, with this deadline.
    fn fair_put_back(&self, owners: &[Box<[u8]>], deadline: UnixMs);

    /// Tells one of Redisson's that it is its turn.
    fn call_fair(&self, owner: &[u8]);

    /// When the key expires; never, where there is none.
    fn expiry(&self, key: &Self::Key) -> Expiry;

    /// Writes, replicates, and tells of a change, and closes the key; `owner` is the field that it sets.
    /// Where an error is answered nothing has changed.
    fn perform(&self, key: Self::Key, owner: Option<&[u8]>, change: &Change) -> Result<(), Error>;

    /// Tells those who wait by Redisson's protocol to try again, and says how many here heard it.
    fn publish(&self, message: UnlockMessage) -> u64;

    /// How many here listen for what those are told who wait by Redisson's protocol to read or to write.
    fn read_write_listeners(&self) -> u64;

    /// Raises the event `rlock.expire`.
    fn raise_expired(&self);

    /// Whether the lock may be granted now, outside a client's own command on it.
    fn ground(&self) -> Ground;
}

/// A reader of a read/write lock, alive or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reader {
    /// Who.
    pub owner: Box<[u8]>,
    /// How many holds its field counts.
    pub holds: Holds,
}

/// Whether a lock may be granted now, outside a client's own command on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// It may.
    Firm,
    /// The key is not here any more, or on its way to another server.
    Moved,
    /// The server refuses writes for now.
    Closed,
}

/// What is set by configuration.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Who may acquire (`rlock.accept`).
    pub admission: Admission,
    /// How many may wait (`rlock.max-waiters`, `rlock.max-waiters-per-key`).
    pub limits: Limits,
    /// How long a grant by message lasts until its owner is heard of (`rlock.grant-confirm-ms`).
    pub grant_confirm: LeaseMs,
    /// When foreign waiters get a turn (`rlock.foreign-turn-grants`, `rlock.foreign-turn-ms`).
    pub turns: Turns,
    /// For how long the lock is left to them then; `None` if they get no turn (`rlock.foreign-window-ms`).
    pub foreign_window: Option<LeaseMs>,
    /// For how long a free lock is left to the one of Redisson's at the head of its fair queue
    /// (`rlock.fair-turn-ms`).
    pub fair_turn: LeaseMs,
    /// How much is done at once.
    pub at_once: AtOnce,
}

/// How much is done in one event-loop cycle, of each kind of work: other clients are served in between. So whatever ends
/// at one moment keeps no client waiting, and fifty thousand waits that end do not keep locks from being handed on.
#[derive(Clone, Copy, Debug)]
pub struct AtOnce {
    /// Waits that end, and waiters that are sent away.
    pub ended: usize,
    /// Entries of fair lists.
    pub listed: usize,
    /// Waiters that are granted a lock, or that leave the queue of a lock that is served, by one command or by the timer.
    pub served: usize,
    /// Locks that are looked at, for each reason.
    pub looked: usize,
}

impl AtOnce {
    /// What takes some milliseconds on a slow machine.
    pub const USUAL: Self = Self { ended: 500, listed: 500, served: 100, looked: 250 };
}

/// What is worth counting.
#[derive(Clone, Copy, Debug)]
pub enum Note<'a> {
    /// A command did this.
    Decided(&'a Decision),
    /// So many wait now, one more than before.
    Waiting(usize),
    /// A lock was handed to one who had waited for so many milliseconds.
    HandedOff(u64),
    /// A lock with waiters was found free that no command of ours had freed.
    Found(Cause),
    /// A grant by message has ended, and nobody had confirmed it.
    Unconfirmed,
    /// The lock was left to those who wait by Redisson's protocol.
    ForeignTurn,
    /// A wait has ended.
    TimedOut,
    /// A wait was cancelled.
    Cancelled,
    /// A grant was taken back, since its client went before the answer.
    TakenBack,
    /// So many waiters went, or could not be reached.
    Gone(usize),
    /// A waiter was sent away.
    SentAway,
}
