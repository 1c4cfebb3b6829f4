//! The actions, one of which is a step.

use std::fmt;

use crate::ghost::Party;

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// ACQUIRE … HOLDS 1; if the reply is lost, the owner does not know that it holds.
    Acquire { party: Party, how: How, reply: Reply },
    /// ACQUIRE … HOLDS 2 by an owner that knows that it holds.
    Again { party: Party },
    /// RELEASE … HOLDS n.
    Release { party: Party, down_to: u8 },
    /// RENEW.
    Renew { party: Party },
    /// CANCEL.
    Cancel { owner: u8, lock: u8 },
    /// The undelivered answer to a client arrives: the oldest client is 0.
    Deliver { client: u8 },
    /// A client that is blocked, or has an undelivered answer, disconnects.
    Disconnect { client: u8 },
    /// Another client deletes the key, without the module.
    ForeignDelete { lock: u8 },
    /// Another client takes the free lock, or joins its readers, without the module.
    ForeignAcquire { lock: u8 },
    /// A script of Redisson's fair lock.
    Fair { lock: u8, script: Script },
    /// A step of a Redisson client that wants to write.
    Writer { lock: u8, deed: Deed },
    /// FORCERELEASE.
    ForceRelease { lock: u8 },
    /// Another client writes the key of the last fencing token: an invalid value, or the former token again.
    SpoilToken { lock: u8 },
    /// A channel loses or regains its subscriber.
    Listen { channel: u8 },
    /// Time passes until the next end of a lease or a wait, or the next timer.
    Pass,
    /// The due timer fires.
    Fire,
    /// The server becomes a replica, or a primary again.
    Role,
    /// CLIENT PAUSE begins or ends.
    Pause,
    /// The lock's slot begins to migrate, or returns.
    Slot,
    /// An owner gives its connection up, or has lost it, and opens another.
    Connect { owner: u8 },
    /// The server sees the end of a connection of an owner.
    End { owner: u8, age: Age },
    /// RENEW arrives on this connection while the owner uses a younger one.
    Late { party: Party, by: u8 },
    /// RENEW without SESSION: to detach, or on the oldest connection to adopt, as another process does.
    Untie { party: Party, age: Age },
    /// The same arrives late on this connection, which its owner has closed.
    LateUntie { party: Party, by: u8 },
    /// The wall clock steps forward or back by this many ms.
    Step { ms: i8 },
}

/// How a caller waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// Not at all.
    Not,
    /// BLOCK, for ever or for a while.
    Block { forever: bool },
    /// ENQUEUE, for ever or for a while.
    Enqueue { forever: bool },
}

/// The fate of an immediate reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// It arrives.
    Arrives,
    /// It is lost with the connection.
    Lost,
}

/// Which connection of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Age {
    /// The oldest that the server has, beside the one in use.
    Oldest,
    /// The one in use.
    Newest,
}

/// A step of a Redisson client that uses the fair lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    /// It takes the lock, or queues for it.
    Take,
    /// It releases the lock.
    GiveBack,
    /// It stops waiting.
    GiveUp,
    /// A client whose clock is ahead drops the head.
    Drop,
}

/// A step of a Redisson client that wants to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// It did not get the lock, and listens for a message.
    Waits,
    /// It stops waiting.
    Goes,
    /// It takes the lock, which is free.
    Takes,
    /// It releases the lock.
    GivesBack,
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Not => "",
            Self::Block { forever: true } => " BLOCK 0",
            Self::Block { forever: false } => " BLOCK 3",
            Self::Enqueue { forever: true } => " ENQUEUE 0",
            Self::Enqueue { forever: false } => " ENQUEUE 3",
        })
    }
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waits => "waits to write",
            Self::Goes => "waits no more to write",
            Self::Takes => "writes",
            Self::GivesBack => "writes no more",
        })
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Acquire { party, how, reply } => {
                let lost = if reply == Reply::Lost { ", and the reply is lost" } else { "" };
                write!(f, "o{}: ACQUIRE {party}, HOLDS 1{how}{lost}", party.owner)
            }
            Self::Again { party } => write!(f, "o{}: ACQUIRE {party}, HOLDS 2", party.owner),
            Self::Release { party, down_to } => {
                write!(f, "o{}: RELEASE {party}, HOLDS {down_to}", party.owner)
            }
            Self::Renew { party } => write!(f, "o{}: RENEW {party}", party.owner),
            Self::Cancel { owner, lock } => write!(f, "o{owner}: CANCEL k{lock}"),
            Self::Deliver { client } => write!(f, "the answer to waiting client {client} arrives"),
            Self::Disconnect { client } => write!(f, "waiting client {client} disconnects"),
            Self::ForeignDelete { lock } => write!(f, "another client deletes k{lock}"),
            Self::ForeignAcquire { lock } => write!(f, "another client takes k{lock}"),
            Self::Fair { lock, script } => write!(f, "Redisson's fair lock k{lock}: {script:?}"),
            Self::Writer { lock, deed } => write!(f, "a Redisson client {deed} k{lock}"),
            Self::ForceRelease { lock } => write!(f, "an operator: FORCERELEASE k{lock}"),
            Self::SpoilToken { lock } => write!(f, "the token key of k{lock} is spoiled, or mended"),
            Self::Listen { channel } => write!(f, "channel c{channel} loses or regains its subscriber"),
            Self::Pass => f.write_str("time passes"),
            Self::Fire => f.write_str("the timer fires"),
            Self::Role => f.write_str("the server's role changes"),
            Self::Pause => f.write_str("CLIENT PAUSE begins or ends"),
            Self::Slot => f.write_str("the slot begins to migrate, or returns"),
            Self::Connect { owner } => write!(f, "o{owner} opens another connection"),
            Self::End { owner, age } => {
                write!(f, "the server sees the end of a connection of o{owner}: {age:?}")
            }
            Self::Late { party, by } => write!(f, "o{}: RENEW {party} on old connection {by}", party.owner),
            Self::Untie { party, age } => {
                write!(f, "o{}: RENEW {party} without SESSION: {age:?}", party.owner)
            }
            Self::LateUntie { party, by } => {
                write!(f, "o{}: RENEW {party} without SESSION on closed connection {by}", party.owner)
            }
            Self::Step { ms } => write!(f, "the wall clock steps by {ms} ms"),
        }
    }
}
