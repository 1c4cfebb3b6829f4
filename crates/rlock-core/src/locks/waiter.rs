//! A waiter.

use std::rc::Rc;

use super::{Call, LockRef, Session, Ticket};
use crate::types::{LeaseMs, Mode, MonoMs, Wanted};
use crate::weight::Weighed;

/// The name of a user other than the default one.
pub type User = Rc<[u8]>;

/// A waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Its owner.
    pub owner: Box<[u8]>,
    /// What it wants of the lock.
    pub wanted: Wanted,
    /// The lease of the grant.
    pub lease: LeaseMs,
    /// Whether the grant gets a fencing token.
    pub fenced: bool,
    /// Whether the waiter is in the fair list as well.
    pub fair: bool,
    /// The start of the wait.
    pub since: MonoMs,
    /// The end of the wait; `None` waits for ever.
    pub until: Option<MonoMs>,
    /// The call that waits.
    pub ticket: Ticket,
    /// How it receives the outcome.
    pub via: Via,
    /// The id of the client that called.
    pub client_id: u64,
    /// SESSION: the connection with which its wait, or its hold after the grant, ends.
    pub session: Option<Session>,
    /// The user of the call; `None` for the default user, whose number of waiters only the limits of the server bound.
    pub user: Option<User>,
}

impl Waiter {
    /// Whether the lock may be free for this waiter once an earlier one has left: as one more reader, or because the two wanted it
    /// in different ways. Two waiters that want the lock alone, in one mode and both with or without FAIR, wait for the same event.
    pub(super) fn may_gain_by_the_end_of(&self, gone: &Self) -> bool {
        let joins = matches!(self.wanted, Wanted::Read | Wanted::Permit(_));
        joins || self.wanted != gone.wanted || self.fair != gone.fair
    }

    /// The call that waits.
    pub fn call(&self) -> Call {
        let session = self.session;
        Call {
            client: session.map_or(self.client_id, |session| session.client),
            grace: session.map(|session| session.grace),
        }
    }

    /// The mode in which it wants the lock.
    pub fn mode(&self) -> Mode {
        self.wanted.mode()
    }
}

impl Weighed for Waiter {
    fn bytes(&self) -> usize {
        let channel = if let Via::Enqueue(channel) = &self.via { channel.len() } else { 0 };
        self.owner.len().saturating_add(channel)
    }
}

/// A waiter, and its lock.
impl Weighed for (LockRef, Waiter) {
    fn bytes(&self) -> usize {
        self.0.bytes().saturating_add(self.1.bytes())
    }
}

/// How a waiter receives the outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Via {
    /// The waiter's client is blocked, and receives the reply.
    Block,
    /// A message on this channel.
    Enqueue(Rc<[u8]>),
}
