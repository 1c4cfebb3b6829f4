//! Everything that can happen to a server with locks, as data: a history is a list of operations.

use arbitrary::{Arbitrary, Result, Unstructured};

pub use super::bytes::{CHANNELS, Channel, Count, LOCKS, Line, Lock, Ms, OWNERS, Owner, Span, WaitMs};

/// READ, WRITE or PERMITS, or none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Word {
    /// ACQUIRE: a plain lock; RELEASE, RENEW: whatever the owner holds.
    None,
    /// READ
    Read,
    /// WRITE
    Write,
    /// ACQUIRE: PERMITS, a number that each owner has for itself.
    Permit,
}

/// All of them, and what INFO and messages call them.
pub(super) const WORDS: [(Word, &str); 4] =
    [(Word::None, ""), (Word::Read, "read"), (Word::Write, "write"), (Word::Permit, "permit")];

impl Word {
    /// What INFO and messages call it.
    pub(super) fn text(self) -> &'static str {
        WORDS.iter().find(|(word, _)| *word == self).map_or("", |(_, text)| text)
    }

    /// The word with this name; the empty one where the name is unknown.
    pub(super) fn named(name: &str) -> Self {
        WORDS.iter().find(|(_, text)| *text == name).map_or(Self::None, |(word, _)| *word)
    }
}

impl<'a> Arbitrary<'a> for Word {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Self> {
        Ok(match u8::arbitrary(bytes)? {
            0..=79 => Self::None,
            80..=189 => Self::Read,
            _ => Self::Write,
        })
    }
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Arbitrary)]
pub enum Op {
    /// RLOCK.ACQUIRE
    Acquire {
        /// The lock.
        lock: Lock,
        /// The owner.
        owner: Owner,
        /// The lease.
        lease: Ms,
        /// READ or WRITE.
        word: Word,
        /// HOLDS.
        holds: Option<Count>,
        /// BLOCK or ENQUEUE.
        wait: Wait,
        /// FENCED.
        fenced: bool,
        /// FAIR.
        #[arbitrary(value = false)]
        fair: bool,
    },
    /// RLOCK.RELEASE
    Release {
        /// The lock.
        lock: Lock,
        /// The owner.
        owner: Owner,
        /// READ or WRITE.
        word: Word,
        /// HOLDS, 0 being ALL.
        down_to: Option<Count>,
        /// LEASE.
        lease: Option<Ms>,
    },
    /// RLOCK.RENEW
    Renew {
        /// The lock.
        lock: Lock,
        /// The owner.
        owner: Owner,
        /// READ or WRITE.
        word: Word,
        /// The lease.
        lease: Ms,
    },
    /// RLOCK.CANCEL
    Cancel {
        /// The lock.
        lock: Lock,
        /// The owner.
        owner: Owner,
    },
    /// RLOCK.FORCERELEASE
    ForceRelease {
        /// The lock.
        lock: Lock,
        /// The owner whose holds end; every owner if absent.
        owner: Option<Owner>,
    },
    /// A command of another client, without the module.
    ByOther {
        /// The lock.
        lock: Lock,
        /// What it does.
        what: OtherWrite,
    },
    /// All keys are deleted at once.
    Flush,
    /// Time passes, and the timer fires whenever it is due.
    Pass(Span),
    /// Time passes while the server does something else: the timer does not fire.
    Stall(Span),
    /// The wall clock steps, forward or back.
    Step(#[arbitrary(with = few_ms)] i64),
    /// The answer of an unblocked client reaches it.
    Deliver(u8),
    /// A client that is blocked, or has an undelivered answer, disconnects.
    Disconnect(u8),
    /// A channel of ENQUEUE has a subscriber from now on, or none.
    Subscribe(Channel, bool),
    /// From now on a Redisson client listens on the unlock channels, or none does.
    Listen(bool),
    /// The writes that the server allows outside commands from now on.
    Ground(Ground),
    /// The server is the primary from now on, or a replica. A replica that becomes one again has the data of its
    /// primary, the same that it had.
    Primary(bool),
    /// `rlock.accept`
    Accept(bool),
    /// Another client uses Redisson's fair lock, without the module.
    #[arbitrary(skip)]
    ByList {
        /// The lock.
        lock: Lock,
        /// What it does.
        what: ByList,
    },
    /// The server's beat: the module checks the fair lists with natives, and retries deferred work.
    #[arbitrary(skip)]
    Sweep,
    /// The next command comes on a connection of this line.
    #[arbitrary(skip)]
    On {
        /// The line.
        line: Line,
        /// On the oldest that the server still has, instead of the one in use.
        late: bool,
        /// ACQUIRE, RENEW: SESSION.
        grace: Option<Ms>,
    },
    /// A line uses another connection from now on; the server still has the one before.
    #[arbitrary(skip)]
    Connect(Line),
    /// The server sees the end of the oldest connection of a line.
    #[arbitrary(skip)]
    Close(Line),
}

impl Op {
    /// Whether this is a command of the module.
    pub(super) fn is_command(self) -> bool {
        use Op::{Acquire, Cancel, ForceRelease, Release, Renew};
        matches!(self, Acquire { .. } | Release { .. } | Renew { .. } | Cancel { .. } | ForceRelease { .. })
    }
}

/// A write of another client to a lock's key, without the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Arbitrary)]
pub enum OtherWrite {
    /// DEL
    Delete,
    /// Takes the lock if it is free.
    Take {
        /// Its owner.
        owner: Owner,
        /// Its lease; none without an expiry.
        lease: Option<Ms>,
    },
    /// Writes a lock over whatever is there.
    Put {
        /// Its owner.
        owner: Owner,
        /// Its holds; at least one.
        holds: Count,
        /// Its lease.
        lease: Option<Ms>,
    },
    /// Overwrites it with a value that is not a lock.
    Spoil,
    /// PEXPIRE
    Expire(Ms),
    /// PERSIST
    Persist,
    /// ZREM of a permit.
    #[arbitrary(skip)]
    RemovePermit(Owner),
    /// Writes the key of the last fencing token: this number, or a value that is not an integer.
    Token(Option<Count>),
    /// One of Redisson's scripts for read/write locks.
    Redisson {
        /// The script.
        script: Script,
        /// Its owner.
        owner: Owner,
        /// The lease that it is given.
        lease: Ms,
    },
}

/// Redisson's scripts for read/write locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Arbitrary)]
pub enum Script {
    /// Acquires to read.
    Read,
    /// Acquires to write.
    Write,
    /// Releases one read hold.
    EndRead,
    /// Releases one write hold.
    EndWrite,
    /// Renews all read holds.
    RenewRead,
    /// Renews the write holds.
    RenewWrite,
}

/// An action of a client that uses the fair list, and not the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByList {
    /// Runs a script of a Redisson fair lock.
    Script {
        /// The script.
        script: FairScript,
        /// Its owner.
        owner: Owner,
        /// How many ms its client's clock is ahead of the server's.
        ahead: i64,
        /// How long its owner waits, in ms.
        budget: i64,
        /// The lease that it asks for.
        lease: Ms,
    },
    /// Deletes the list.
    DeleteList,
    /// Deletes the sorted set of the deadlines.
    DeleteDeadlines,
}

/// Redisson's scripts for fair locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FairScript {
    /// Takes the lock, or queues for it.
    Lock,
    /// Takes the lock, if it may have it now.
    TryLock,
    /// Releases one hold.
    Unlock,
    /// Stops waiting.
    GiveUp,
    /// Releases the lock, whichever owner holds it.
    ForceUnlock,
}

/// The writes that the server allows outside a client's own command on a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Arbitrary)]
pub enum Ground {
    /// Everything.
    Firm,
    /// Nothing is written: the server is paused.
    Paused,
    /// A write is refused when it is tried: too few replicas, a failing disk.
    Refused,
    /// The keys are served elsewhere.
    Moved,
}

/// How an ACQUIRE waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Arbitrary)]
pub enum Wait {
    /// Not at all.
    No,
    /// BLOCK; 0 is for ever.
    Block(WaitMs),
    /// ENQUEUE.
    Enqueue(WaitMs, Channel),
    /// BLOCK in a transaction, where the server lets no client block.
    BlockInMulti(WaitMs),
}

/// By how much the wall clock steps.
fn few_ms(bytes: &mut Unstructured<'_>) -> Result<i64> {
    i8::arbitrary(bytes).map(i64::from)
}
