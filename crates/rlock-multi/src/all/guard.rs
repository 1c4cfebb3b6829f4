//! Several locks that are held together.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, select_all};
use rlock_client::{Any, Error, Guard, Held, Lost, holding};

/// Several held locks. They are held until you drop or release this guard; it is lost as soon as one of the locks is.
///
/// Like [`Guard`], it is owned and `Send`, and may be dropped anywhere: all its locks are released in the background.
/// If one lock is lost, the others stay held and renewed until you drop or release the guard.
#[derive(Debug)]
#[must_use = "a guard that is dropped releases its locks: bind it, as in `let guard = …`, not to `_`"]
pub struct AllGuard {
    guards: Vec<Guard<Any>>,
    held: AllHeld,
}

/// A view of several locks that are held together, which does not keep them held.
#[derive(Clone, Debug)]
pub struct AllHeld {
    locks: Arc<[Held]>,
}

impl AllHeld {
    /// Checks that you still hold all the locks, without asking the servers, and returns how much longer you hold
    /// them without another renewal.
    ///
    /// # Errors
    ///
    /// As [`Held::check`], of the first lock that fails.
    pub fn check(&self) -> Result<Duration, Error> {
        let left: Result<Vec<Duration>, Error> = self.locks.iter().map(Held::check).collect();
        Ok(left?.into_iter().min().unwrap_or_default())
    }

    /// Waits until one of the locks is lost, and returns why; never returns if none is lost. `check` says which.
    pub async fn lost(&self) -> Lost {
        select_all(self.locks.iter().map(|lock| Box::pin(lock.lost()))).await.0
    }

    /// Each of the locks.
    pub fn locks(&self) -> &[Held] {
        &self.locks
    }
}

impl AllGuard {
    /// All these; at least one.
    pub(super) fn new(guards: impl IntoIterator<Item = Guard<Any>>) -> AllGuard {
        let guards: Vec<_> = guards.into_iter().collect();
        let locks = guards.iter().map(Guard::held).collect();
        AllGuard { guards, held: AllHeld { locks } }
    }

    /// Releases all the locks, and fails if one was lost before.
    ///
    /// If you drop the future, the releases continue in the background, as when you drop the guard.
    ///
    /// # Errors
    ///
    /// As [`Guard::release`], of the first lock that fails; a loss is reported before an unknown outcome.
    pub async fn release(self) -> Result<(), Error> {
        let outcomes = join_all(self.guards.into_iter().map(Guard::release)).await;
        let errors = outcomes.into_iter().filter_map(Result::err);
        errors.min_by_key(|error| !matches!(error, Error::LockLost { .. })).map_or(Ok(()), Err)
    }
}

holding!(AllGuard, AllHeld);
