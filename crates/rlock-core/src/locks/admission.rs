//! Whether one more waiter, or one more tie, is allowed: by the limits of the server, and by the share of its user.

use super::records::Records;
use super::{LockName, Locks, User, Waiter};
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

    /// Fails if a call with SESSION on this connection cannot tie the hold, see [`Tie::has_left`](super::Tie). The caller would take its own
    /// connection for the one that keeps the hold.
    pub fn check_tie_moves(
        &self,
        lock: LockName<'_>,
        (owner, mode): (&[u8], Mode),
        client: u64,
    ) -> Result<(), Error> {
        match self.tie_of(lock, owner, mode).filter(|tie| tie.has_left(client)) {
            None => Ok(()),
            Some(tie) if tie.session().is_some() && !self.sessions.is_over(tie) => Err(Error::TiedToAnother),
            Some(_) => Err(Error::Untied),
        }
    }

    /// Fails if the owner waits for a message on a younger connection, which has not ended.
    pub fn check_waiters_tie_moves(
        &self,
        lock: LockName<'_>,
        (owner, mode): (&[u8], Mode),
        client: u64,
    ) -> Result<(), Error> {
        let session = self.records.entry(lock, owner, mode).and_then(|waiter| waiter.session);
        let stays = session.is_some_and(|tie| client < tie.client && !self.sessions.has_ended(tie.client));
        if stays { Err(Error::TiedToAnother) } else { Ok(()) }
    }

    /// Fails if one more tie of this owner is not allowed. A tie counts for the user of the last call that set it.
    pub fn may_tie(
        &mut self,
        lock: LockName<'_>,
        (owner, mode): (&[u8], Mode),
        user: Option<&[u8]>,
        limits: TieLimits,
    ) -> Result<(), Error> {
        self.check_ties(self.user_of_tie(lock, owner, mode), user, limits)
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
