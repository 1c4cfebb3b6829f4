//! Whether one more waiter, or one more tie, is allowed: by the limits of the server, and by the share of its user.

use super::records::Records;
use super::{LockName, Locks, Session, User, Waiter};
use crate::error::Error;
use crate::types::Mode;

/// The most waiters.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// On the whole server.
    pub server: usize,
    /// For one lock.
    pub lock: usize,
    /// For one user other than the default one.
    pub user: usize,
}

/// The most ties.
#[derive(Clone, Copy, Debug)]
pub struct TieLimits {
    /// On the whole server.
    pub server: usize,
    /// For one user other than the default one.
    pub user: usize,
}

impl Records {
    /// The waiter of this owner in this mode.
    fn entry(&self, lock: LockName<'_>, owner: &[u8], mode: Mode) -> Option<&Waiter> {
        self.queue(lock)?.waiters.find(owner, mode)
    }
}

impl Locks {
    /// Fails if a lock's queue has no place for this owner. An owner in the queue has a place, which counts for the user of its
    /// last call.
    pub fn admit(
        &self,
        lock: LockName<'_>,
        (owner, mode): (&[u8], Mode),
        user: Option<&[u8]>,
        limits: Limits,
    ) -> Result<(), Error> {
        let full = self.calls.waiting() >= limits.server || self.records.waiting_for(lock) >= limits.lock;
        let user_full = user.is_some() && self.users.usage(user).waiters >= limits.user;
        if !full && !user_full {
            return Ok(());
        }
        match self.records.entry(lock, owner, mode) {
            Some(entry) if entry.user.as_deref() == user => Ok(()),
            _ if user_full => Err(Error::UserQueueFull),
            Some(_) => Ok(()),
            None => Err(Error::QueueFull),
        }
    }

    /// Fails if the hold is tied to a connection that is younger than this one, and still there. The tie would stay there: the
    /// caller would take its own connection for the one that keeps the hold.
    pub fn check_tie_moves(
        &self,
        lock: LockName<'_>,
        (owner, mode): (&[u8], Mode),
        client: u64,
    ) -> Result<(), Error> {
        self.check_moves(self.session(lock, owner, mode), client)
    }

    /// The same of a waiter that asks for a message again.
    pub fn check_waiters_tie_moves(
        &self,
        lock: LockName<'_>,
        (owner, mode): (&[u8], Mode),
        client: u64,
    ) -> Result<(), Error> {
        self.check_moves(self.records.entry(lock, owner, mode).and_then(|waiter| waiter.session), client)
    }

    fn check_moves(&self, tie: Option<Session>, client: u64) -> Result<(), Error> {
        let stays = tie.is_some_and(|tie| self.sessions.stays(tie, client));
        if stays { Err(Error::TiedToYounger) } else { Ok(()) }
    }

    /// Fails if one more tie of this owner is not allowed. A tie counts for the user of the last call that set it.
    pub fn may_tie(
        &mut self,
        lock: LockName<'_>,
        (owner, mode): (&[u8], Mode),
        user: Option<&[u8]>,
        limits: TieLimits,
    ) -> Result<(), Error> {
        let before = self.session(lock, owner, mode);
        let before =
            before.map(|tie| self.sessions.user_of(tie.client, &(lock.to_ref(), owner.into(), mode)));
        self.check_ties(before, user, limits)
    }

    /// Fails if one more tie of this waiter is not allowed. A tied waiter that asks again needs no other tie.
    pub fn may_tie_waiter(
        &mut self,
        lock: LockName<'_>,
        (owner, mode): (&[u8], Mode),
        user: Option<&[u8]>,
        limits: TieLimits,
    ) -> Result<(), Error> {
        match self.records.entry(lock, owner, mode).filter(|waiter| waiter.session.is_some()) {
            Some(waiter) => self.check_ties(Some(waiter.user.clone()), user, limits),
            None => self.may_tie(lock, (owner, mode), user, limits),
        }
    }

    /// Fails if this user may not have one more tie; `before`: the user for which the present tie of the same owner counts. The
    /// sweep is hurried after that: some ties may be those of holds that have ended.
    fn check_ties(
        &mut self,
        before: Option<Option<User>>,
        user: Option<&[u8]>,
        limits: TieLimits,
    ) -> Result<(), Error> {
        let full = before.is_none() && self.sessions.tie_count() >= limits.server;
        let counts_already = before.is_some_and(|before| before.as_deref() == user);
        let user_full = user.is_some() && !counts_already && self.users.usage(user).ties() >= limits.user;
        if full || user_full {
            self.sessions.hurry_sweep();
        }
        match (user_full, full) {
            (true, _) => Err(Error::UserHasTooManyTies),
            (false, true) => Err(Error::TooManyTies),
            (false, false) => Ok(()),
        }
    }
}
