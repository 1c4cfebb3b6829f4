//! Several locks that are held together.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, select_all};

use crate::error::{Error, Lost};
use crate::guard::{Guard, Held};
use crate::kind::Any;
use crate::lockable::holding;

/// Several held locks. They are held until you drop or release this guard; it is lost as soon as one of the locks is.
///
/// Like [`Guard`], it is owned and `Send`, and may be dropped anywhere: all its locks are released in the background.
/// If one lock is lost, the others stay held and renewed until you drop or release the guard.
#[derive(Debug)]
#[must_use = "a guard that is dropped releases its locks: bind it, as in `let guard = …`, not to `_`"]
pub struct MultiGuard {
    guards: Vec<Guard<Any>>,
    held: MultiHeld,
}

/// A view of several locks that are held together, which does not keep them held.
#[derive(Clone, Debug)]
pub struct MultiHeld {
    locks: Arc<[Held]>,
}

impl MultiHeld {
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

impl MultiGuard {
    /// All these; at least one.
    pub(super) fn new(guards: Vec<Guard<Any>>) -> MultiGuard {
        let locks = guards.iter().map(Guard::held).collect();
        MultiGuard { guards, held: MultiHeld { locks } }
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
        let mut errors: Vec<Error> = outcomes.into_iter().filter_map(Result::err).collect();
        errors.sort_by_key(|error| !matches!(error, Error::LockLost { .. }));
        errors.into_iter().next().map_or(Ok(()), Err)
    }
}

holding!(MultiGuard, MultiHeld);
