//! The arguments of each command, parsed. Every parser takes the arguments after the key; those of commands that may wait, or end
//! a wait, check the key as well.
//!
//! Option words may be in any case and order, each at most once.

mod args;
mod hot_args;

pub use hot_args::Hot;

use crate::error::Error;
use crate::types::{Holds, LeaseMs, Mode, Owner, WaitMs, Wanted, check_name};
use args::{Args, Word, holds_or_none, lease_from, once, unexpected};

/// The longest channel in bytes.
pub const MAX_CHANNEL_LEN: usize = 512;

/// The most entries in a list of RLOCK.INFO or RLOCK.LIST without LIMIT.
pub const DEFAULT_LIMIT: u32 = 100;

/// `RLOCK.ACQUIRE key owner lease-ms [READ | WRITE | PERMITS n] [FAIR] [HOLDS n] [FENCED] [SESSION grace-ms] [BLOCK wait-ms | ENQUEUE wait-ms channel]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquire<'a> {
    /// The calling owner.
    pub owner: Owner<'a>,
    /// The lease of a new hold.
    pub lease: LeaseMs,
    /// READ, WRITE or PERMITS; without them a plain lock.
    pub wanted: Wanted,
    /// HOLDS: the number of holds after the call, in place of one more.
    pub arrive_at: Option<Holds>,
    /// FAIR: whether to respect the turns of waiters for Redisson's fair lock of this name.
    pub fair: bool,
    /// FENCED: whether the acquisition gets a fencing token.
    pub fenced: bool,
    /// SESSION: the longest lease after the end of the connection.
    pub session: Option<LeaseMs>,
    /// Whether and how to wait if another owner holds the lock.
    pub wait: Option<Wait<'a>>,
}

/// How a caller waits, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait<'a> {
    /// BLOCK: the client is blocked.
    Block(WaitMs),
    /// ENQUEUE: the outcome is published on a channel with a name of 1 to 512 bytes.
    Enqueue(WaitMs, &'a [u8]),
}

impl Wait<'_> {
    /// The length of the wait.
    pub fn wait(self) -> WaitMs {
        match self {
            Self::Block(wait) | Self::Enqueue(wait, _) => wait,
        }
    }
}

/// `RLOCK.RELEASE key owner [READ | WRITE] [ALL | HOLDS n] [LEASE lease-ms]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release<'a> {
    /// The releasing owner.
    pub owner: Owner<'a>,
    /// READ or WRITE: which holds; by default those that the owner has.
    pub mode: Option<Mode>,
    /// The number of holds to keep.
    pub down_to: DownTo,
    /// LEASE: the lease that remaining holds get, counted from now.
    pub lease: Option<LeaseMs>,
}

/// How far RLOCK.RELEASE lowers the holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DownTo {
    /// One hold less.
    OneLess,
    /// At most this number; ALL is 0. A larger number than the present holds changes nothing.
    AtMost(i64),
}

/// `RLOCK.RENEW key owner lease-ms [READ | WRITE] [SESSION grace-ms]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renew<'a> {
    /// The renewing owner.
    pub owner: Owner<'a>,
    /// The lease, counted from now.
    pub lease: LeaseMs,
    /// READ or WRITE: which holds; by default those that the owner has.
    pub mode: Option<Mode>,
    /// SESSION: the longest lease after the end of the connection.
    pub session: Option<LeaseMs>,
}

/// `RLOCK.CANCEL key owner`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancel<'a> {
    /// The owner whose wait ends.
    pub owner: Owner<'a>,
}

/// `RLOCK.INFO key [LIMIT n]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// The most entries in each list of the reply.
    pub limit: u32,
}

/// `RLOCK.LIST cursor [LIMIT n]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List<'a> {
    /// The place at which to continue.
    pub cursor: Cursor<'a>,
    /// The most entries in the reply.
    pub limit: u32,
}

/// A place in the list of locks with waiters, in the order of their keys' bytes. No lock appears twice, and every lock
/// that has waiters during the whole listing appears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cursor<'a> {
    /// The start or the end of the list: `0`.
    Bound,
    /// After this key: `>key`.
    After(&'a [u8]),
}

/// `RLOCK.FORCERELEASE key [owner]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForceRelease<'a> {
    /// The owner of the holds to remove; by default every owner.
    pub owner: Option<Owner<'a>>,
}

impl<'a> Acquire<'a> {
    /// Checks the lock's name, and parses the arguments after it.
    pub fn parse(name: &[u8], args: impl Iterator<Item = &'a [u8]>) -> Result<Self, Error> {
        check_name(name)?;
        let mut args = Args(args);
        let (owner, lease) = (args.required()?, args.required()?);
        let (owner, lease) = (Owner::new(owner)?, lease_from(lease)?);
        let (mut mode, mut fair, mut arrive_at, mut fenced) = (None, None, None, None);
        let (mut block, mut enqueue, mut session, mut permits) = (None, None, None, None);
        while let Some(word) = args.next() {
            match Word::of(word) {
                Some(Word::Mode(asked)) => args::one_mode(&mut mode, asked)?,
                Some(Word::Holds) => once(&mut arrive_at, "HOLDS", args.holds(1, Holds::new)?)?,
                Some(Word::Fair) => once(&mut fair, "FAIR", ())?,
                Some(Word::Fenced) => once(&mut fenced, "FENCED", ())?,
                Some(Word::Session) => once(&mut session, "SESSION", args.grace()?)?,
                Some(Word::Permits) => once(&mut permits, "PERMITS", args.permits()?)?,
                Some(Word::Block) => once(&mut block, "BLOCK", args.wait("BLOCK")?)?,
                Some(Word::Enqueue) => {
                    once(&mut enqueue, "ENQUEUE", (args.wait("ENQUEUE")?, args.channel()?))?
                }
                _ => return Err(unexpected(word)),
            }
        }
        let wait = match (block, enqueue) {
            (Some(_), Some(_)) => return Err(Error::BlockAndEnqueue),
            (Some(wait), None) => Some(Wait::Block(wait)),
            (None, Some((wait, channel))) => Some(Wait::Enqueue(wait, channel)),
            (None, None) => None,
        };
        let wanted = match (mode, permits) {
            (Some(_), Some(_)) => return Err(Error::PermitsWith),
            (None, Some(limit)) => Wanted::Permit(limit),
            (Some(Mode::Read), None) => Wanted::Read,
            (Some(Mode::Write), None) => Wanted::Write,
            (Some(Mode::Mutex | Mode::Permit) | None, None) => Wanted::Mutex,
        };
        let (fair, fenced) = (fair.is_some(), fenced.is_some());
        let request = Self { owner, lease, wanted, fair, arrive_at, fenced, session, wait };
        request.check().map(|()| request)
    }

    /// The mode of the hold.
    #[inline(always)]
    pub fn mode(&self) -> Mode {
        self.wanted.mode()
    }

    /// Refuses options that exclude each other.
    #[inline(always)]
    fn check(&self) -> Result<(), Error> {
        match (self.wanted, self.fair, self.fenced) {
            (Wanted::Permit(_), ..) => self.check_permit(),
            (Wanted::Mutex, ..) | (Wanted::Read | Wanted::Write, false, false) => Ok(()),
            (_, true, _) => Err(Error::FairMode),
            (Wanted::Read, ..) => Err(Error::FencedRead),
            (Wanted::Write, ..) => Ok(()),
        }
    }

    /// PERMITS excludes a second hold as well.
    #[cold]
    fn check_permit(&self) -> Result<(), Error> {
        let many = self.arrive_at.is_some_and(|holds| holds > Holds::ONE);
        if self.fair || self.fenced || many { Err(Error::PermitsWith) } else { Ok(()) }
    }
}

impl<'a> Release<'a> {
    /// Parses the arguments after the key.
    pub fn parse(args: impl Iterator<Item = &'a [u8]>) -> Result<Self, Error> {
        let mut args = Args(args);
        let owner = Owner::new(args.required()?)?;
        let (mut mode, mut all, mut holds, mut lease) = (None, None, None, None);
        while let Some(word) = args.next() {
            match Word::of(word) {
                Some(Word::Mode(asked)) => args::one_mode(&mut mode, asked)?,
                Some(Word::All) => once(&mut all, "ALL", ())?,
                Some(Word::Holds) => once(&mut holds, "HOLDS", args.holds(0, holds_or_none)?)?,
                Some(Word::Lease) => once(&mut lease, "LEASE", lease_from(args.value("LEASE")?)?)?,
                _ => return Err(unexpected(word)),
            }
        }
        let down_to = match (all, holds) {
            (Some(()), Some(_)) => return Err(Error::AllAndHolds),
            (Some(()), None) => DownTo::AtMost(0),
            (None, Some(count)) => DownTo::AtMost(count),
            (None, None) => DownTo::OneLess,
        };
        Ok(Self { owner, mode, down_to, lease })
    }
}

impl<'a> Renew<'a> {
    /// Parses the arguments after the key.
    pub fn parse(args: impl Iterator<Item = &'a [u8]>) -> Result<Self, Error> {
        let mut args = Args(args);
        let (owner, lease) = (args.required()?, args.required()?);
        let (owner, lease) = (Owner::new(owner)?, lease_from(lease)?);
        let (mut mode, mut session) = (None, None);
        while let Some(word) = args.next() {
            match Word::of(word) {
                Some(Word::Mode(asked)) => args::one_mode(&mut mode, asked)?,
                Some(Word::Session) => once(&mut session, "SESSION", args.grace()?)?,
                _ => return Err(unexpected(word)),
            }
        }
        Ok(Self { owner, lease, mode, session })
    }
}

impl<'a> Cancel<'a> {
    /// Checks the lock's name, and parses the arguments after it.
    pub fn parse(name: &[u8], args: impl Iterator<Item = &'a [u8]>) -> Result<Self, Error> {
        check_name(name)?;
        let mut args = Args(args);
        let owner = Owner::new(args.required()?)?;
        if args.next().is_some() {
            return Err(Error::Arity);
        }
        Ok(Self { owner })
    }
}

impl Info {
    /// Parses the arguments after the key.
    pub fn parse<'a>(args: impl Iterator<Item = &'a [u8]>) -> Result<Self, Error> {
        Ok(Self { limit: args::limit(&mut Args(args), 0)? })
    }
}

impl<'a> List<'a> {
    /// Parses the arguments after the command's name.
    pub fn parse(args: impl Iterator<Item = &'a [u8]>) -> Result<Self, Error> {
        let mut args = Args(args);
        let cursor = Cursor::parse(args.required()?)?;
        // With none the next call would be for the same place, and never end.
        Ok(Self { cursor, limit: args::limit(&mut args, 1)? })
    }
}

impl<'a> Cursor<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        match bytes {
            b"0" => Ok(Self::Bound),
            [b'>', key @ ..] => Ok(Self::After(key)),
            _ => Err(Error::BadCursor),
        }
    }

    /// The cursor as written in a call or reply.
    pub fn bytes(self) -> Vec<u8> {
        match self {
            Self::Bound => b"0".to_vec(),
            Self::After(key) => [b">", key].concat(),
        }
    }
}

impl<'a> ForceRelease<'a> {
    /// Parses the arguments after the key.
    pub fn parse(args: impl Iterator<Item = &'a [u8]>) -> Result<Self, Error> {
        let mut args = Args(args);
        let owner = args.next().map(Owner::new).transpose()?;
        if args.next().is_some() {
            return Err(Error::Arity);
        }
        Ok(Self { owner })
    }
}
