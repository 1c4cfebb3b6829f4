//! What can happen to a server with locks, as data: a history is a list of these.

use std::fmt;

use arbitrary::{Arbitrary, Result, Unstructured};

/// The locks of a history, by database and key.
pub const LOCKS: [(i32, &str); 3] = [(0, "a"), (0, "b"), (1, "a")];
/// The owners.
pub const OWNERS: [&str; 5] = ["o0", "o1", "o2", "o3", "o4"];
/// The channels of ENQUEUE.
pub const CHANNELS: [&str; 3] = ["c0", "c1", "c2"];

/// A history, and the options of the server that it happens to.
#[derive(Clone, Arbitrary)]
pub struct History {
    /// The server's options.
    pub options: Options,
    /// What happens, one after the other.
    pub ops: Vec<Op>,
}

/// One line for each step.
impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}", self.options)?;
        self.ops.iter().enumerate().try_for_each(|(number, op)| writeln!(f, "{number:3}: {op:?}"))
    }
}

/// The module's options; small, so that each bound is met.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// `rlock.max-waiters`
    pub max_waiters: usize,
    /// `rlock.max-waiters-per-key`
    pub max_waiters_per_key: usize,
    /// `rlock.grant-confirm-ms`
    pub grant_confirm: i64,
    /// `rlock.foreign-turn-grants`
    pub turn_grants: u32,
    /// `rlock.foreign-turn-ms`
    pub turn_ms: u64,
    /// `rlock.foreign-window-ms`; 0 is never
    pub window: u64,
    /// What the locks of the history are.
    pub kinds: Kinds,
}

/// Which kinds of locks there are in a history: where all kinds meet on one key, most calls are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    /// Plain locks.
    Plain,
    /// Read/write locks.
    ReadWrite,
    /// Both, on the same keys.
    Mixed,
}

impl Kinds {
    /// What happens, as it may in such a history.
    #[must_use]
    pub fn of(self, mut op: Op) -> Op {
        let word = match &mut op {
            Op::Acquire { word, .. } | Op::Release { word, .. } | Op::Renew { word, .. } => Some(word),
            _ => None,
        };
        if let (Self::Plain, Some(word)) = (self, word) {
            *word = Word::None;
        }
        if let Op::Acquire { owner, word, fenced, .. } = &mut op {
            if (self, *word) == (Self::ReadWrite, Word::None) {
                *word = if owner.0 % 2 == 0 { Word::Read } else { Word::Write };
            }
            // The grammar has no such command.
            *fenced &= *word != Word::Read;
        }
        op
    }
}

/// READ or WRITE, or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Word {
    /// ACQUIRE: a plain lock; RELEASE, RENEW: whatever the owner holds.
    None,
    /// READ
    Read,
    /// WRITE
    Write,
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
        /// Who.
        owner: Owner,
        /// For how long.
        lease: Ms,
        /// READ or WRITE.
        word: Word,
        /// HOLDS.
        holds: Option<Count>,
        /// BLOCK or ENQUEUE.
        wait: Wait,
        /// FENCED.
        fenced: bool,
    },
    /// RLOCK.RELEASE
    Release {
        /// The lock.
        lock: Lock,
        /// Who.
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
        /// Who.
        owner: Owner,
        /// READ or WRITE.
        word: Word,
        /// For how long.
        lease: Ms,
    },
    /// RLOCK.CANCEL
    Cancel {
        /// The lock.
        lock: Lock,
        /// Who.
        owner: Owner,
    },
    /// RLOCK.FORCERELEASE
    ForceRelease {
        /// The lock.
        lock: Lock,
        /// Whose holds.
        owner: Option<Owner>,
    },
    /// A command of somebody without the module.
    Foreign {
        /// The lock.
        lock: Lock,
        /// What it does.
        what: Foreign,
    },
    /// All keys are deleted at once.
    Flush,
    /// Time passes, and the timer fires whenever it is due.
    Pass(Span),
    /// Time passes while the server does something else: the timer does not fire.
    Stall(Span),
    /// The wall clock steps, forward or back.
    Step(i8),
    /// The answer of an unblocked client reaches it.
    Deliver(u8),
    /// A client that is blocked, or whose answer is on its way, goes.
    Disconnect(u8),
    /// A channel of ENQUEUE has a subscriber from now on, or none.
    Subscribe(Channel, bool),
    /// Somebody listens on the unlock channels from now on, or nobody does.
    Listen(bool),
    /// What may be done outside commands from now on.
    Ground(Ground),
    /// The server is the primary from now on, or a replica.
    Primary(bool),
    /// `rlock.accept`
    Accept(bool),
}

/// What somebody without the module does to a lock's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Arbitrary)]
pub enum Foreign {
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
        /// Whose it is then.
        owner: Owner,
        /// How many times; one at least.
        holds: Count,
        /// Until when.
        lease: Option<Ms>,
    },
    /// Writes something over it that is no lock.
    Spoil,
    /// PEXPIRE
    Expire(Ms),
    /// PERSIST
    Persist,
    /// Writes the key of the last fencing token: this number, or something that is none.
    Token(Option<Count>),
    /// One of Redisson's scripts for read/write locks.
    Redisson {
        /// Which.
        script: Script,
        /// Whose.
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

/// What the server allows outside a client's own command on a lock.
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
    /// BLOCK in a transaction, where the server lets nobody block.
    BlockInMulti(WaitMs),
}

/// One of a few names, from one byte: mostly the first ones, so that they meet.
macro_rules! index {
    ($(#[$doc:meta])* $name:ident, $ends:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(pub usize);

        impl<'a> Arbitrary<'a> for $name {
            fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Self> {
                let byte = u8::arbitrary(bytes)?;
                Ok(Self($ends.iter().filter(|end| byte >= **end).count()))
            }
        }
    };
}

index!(/** One of [`LOCKS`]. */ Lock, [192, 224]);
index!(/** One of [`OWNERS`]. */ Owner, [64, 128, 192, 224]);
index!(/** One of [`CHANNELS`]. */ Channel, [128, 192]);

/// A count of holds: small, or at the end of the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count(pub i64);

/// Milliseconds of a lease: mostly few, so that much falls together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ms(pub i64);

/// Milliseconds that pass: as [`Ms`], 0 too, but two minutes at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub u64);

/// Milliseconds of a wait: as [`Ms`], or 0 for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitMs(pub i64);

impl<'a> Arbitrary<'a> for Count {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Self> {
        let byte = u8::arbitrary(bytes)?;
        Ok(Self(if byte < 250 { i64::from(byte % 5) } else { (1 << 53) - i64::from(255 - byte) }))
    }
}

impl<'a> Arbitrary<'a> for Ms {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Self> {
        let byte = i64::from(u8::arbitrary(bytes)?);
        Ok(Self(match byte {
            0..=199 => byte / 4 + 1,
            200..=249 => (byte - 199) * 20,
            _ => 1 << 43,
        }))
    }
}

impl<'a> Arbitrary<'a> for Span {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Self> {
        let Ms(ms) = Ms::arbitrary(bytes)?;
        Ok(Self((ms - 1).unsigned_abs().min(120_000)))
    }
}

impl<'a> Arbitrary<'a> for WaitMs {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Self> {
        let Ms(ms) = Ms::arbitrary(bytes)?;
        Ok(Self(if ms == 1 { 0 } else { ms - 1 }))
    }
}

impl<'a> Arbitrary<'a> for Options {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Self> {
        let mut below = |bound: u8| u8::arbitrary(bytes).map(|byte| byte % bound);
        Ok(Self {
            max_waiters: usize::from(8 - below(8)?),
            max_waiters_per_key: usize::from(5 - below(5)?),
            grant_confirm: i64::from(below(60)?) + 1,
            turn_grants: u32::from(below(6)?) + 1,
            turn_ms: u64::from(below(250)?) + 1,
            window: u64::from(below(30)?),
            kinds: match below(8)? {
                0..=2 => Kinds::Plain,
                3..=6 => Kinds::ReadWrite,
                _ => Kinds::Mixed,
            },
        })
    }
}
