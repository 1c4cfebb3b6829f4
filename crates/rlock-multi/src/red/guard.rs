//! A red lock that is held.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rlock_client::{CancellationToken, Error, Guard, Lost, holding};
use tokio::task::JoinSet;

use super::members::Members;
use crate::name;

/// A held red lock. It is held until you drop or release the guard, or until too few servers have it.
///
/// Like [`Guard`], it is owned and `Send`, and may be dropped anywhere: it is released on all servers in the
/// background.
#[must_use = "a guard that is dropped releases its lock: bind it, as in `let guard = …`, not to `_`"]
pub struct RedGuard {
    held: RedHeld,
    /// A task for each server, which acquires the lock there again when it is lost.
    tasks: JoinSet<()>,
}

/// A view of a held red lock, which does not keep it held.
#[derive(Clone)]
pub struct RedHeld {
    members: Arc<Members>,
}

impl RedHeld {
    /// Checks that a quorum of servers certainly has the lock, without asking them, and returns how much longer the
    /// quorum lasts without another renewal.
    ///
    /// # Errors
    ///
    /// [`Error::LockLost`] if the quorum was missing at any moment since the acquisition, or the lock was released.
    pub fn check(&self) -> Result<Duration, Error> {
        self.members.check()
    }

    /// Waits until the lock is lost, and returns why the decisive server lost it; never returns if it is not lost.
    pub async fn lost(&self) -> Lost {
        // No watchdog finds the loss in the child of a fork.
        let _ = self.check();
        self.members.lost.cancelled().await;
        match self.members.why() {
            Some(why) => why,
            None => std::future::pending().await,
        }
    }

    /// A token that is cancelled when the lock is lost.
    ///
    /// It is a child of the guard's token: cancelling it does not affect the lock.
    pub fn cancellation_token(&self) -> CancellationToken {
        self.members.lost.child_token()
    }

    /// The lock's name.
    pub fn name(&self) -> &[u8] {
        &self.members.name
    }
}

impl RedGuard {
    pub(super) fn new(members: Arc<Members>, tasks: JoinSet<()>) -> RedGuard {
        RedGuard { held: RedHeld { members }, tasks }
    }

    /// Releases the lock on all servers, and fails if a quorum did not have it until the release.
    ///
    /// The method returns when the outcome is known. The other releases continue in the background, as they do
    /// if you drop the future.
    ///
    /// # Errors
    ///
    /// [`Error::LockLost`] if too few servers had it; [`Error::OutcomeUnknown`] if it is unknown whether
    /// they had it, because too many replies were lost.
    pub async fn release(mut self) -> Result<(), Error> {
        let members = self.held.members.clone();
        self.tasks.abort_all();
        let guards = members.close();
        if let Some(why) = members.why() {
            return Err(members.error(why));
        }
        let mut outcomes: FuturesUnordered<_> = guards.into_iter().map(Guard::release).collect();
        let (mut released, mut gone) = (0_usize, 0_usize);
        let mut cause = None;
        while let Some(outcome) = outcomes.next().await {
            match outcome {
                Ok(()) => released = released.saturating_add(1),
                Err(Error::LockLost { .. }) => gone = gone.saturating_add(1),
                Err(error) => cause = Some(error),
            }
            if released >= members.quorum {
                return Ok(());
            }
            if released.saturating_add(outcomes.len()) < members.quorum {
                break;
            }
        }
        match cause {
            Some(Error::OutcomeUnknown { source, .. }) => {
                Err(Error::OutcomeUnknown { lock: name(&members.name), source })
            }
            Some(error) if gone == 0 => Err(error),
            _ => Err(members.error(Lost::Taken)),
        }
    }
}

impl Drop for RedGuard {
    fn drop(&mut self) {
        self.tasks.abort_all();
        drop(self.held.members.close());
    }
}

holding!(RedGuard, RedHeld);

impl fmt::Debug for RedHeld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedHeld").field("lock", &name(self.name())).field("left", &self.check()).finish()
    }
}

impl fmt::Debug for RedGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedGuard").field("held", &self.held).finish()
    }
}
