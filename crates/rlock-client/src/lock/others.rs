//! Releasing the holds of other owners, for callers that know that these are gone.

use super::Lock;
use crate::command;
use crate::error::Error;
use crate::kind::Kind;
use crate::message::{Claim, Mode};

impl<K: Kind> Lock<K> {
    /// Releases all holds of an owner, which may be another client's; `false` if it held nothing.
    ///
    /// For the locks of this client, use guards.
    ///
    /// # Errors
    ///
    /// As [`Lock::locked`]. After [`Error::OutcomeUnknown`] it may have worked.
    pub async fn release_all_of(&self, owner: impl AsRef<[u8]>) -> Result<bool, Error> {
        let claim = self.spec.claim(owner.as_ref());
        match self.change("RLOCK.RELEASE", command::release(&claim, 0)).await {
            Err(Error::Refused { .. }) if claim.mode == Mode::Plain => {
                // It may hold a read/write lock in both ways.
                let mut released = false;
                for mode in [Mode::Write, Mode::Read] {
                    let claim = Claim { mode, ..claim.clone() };
                    released |= self.change("RLOCK.RELEASE", command::release(&claim, 0)).await?.is_some();
                }
                Ok(released)
            }
            outcome => Ok(outcome?.is_some()),
        }
    }

    /// Takes the lock away from this owner only; `false` if it held nothing. See [`Lock::force_release`].
    ///
    /// # Errors
    ///
    /// As [`Lock::locked`]. After [`Error::OutcomeUnknown`] it may have worked.
    pub async fn force_release_of(&self, owner: impl AsRef<[u8]>) -> Result<bool, Error> {
        let command = command::about("RLOCK.FORCERELEASE", self.name(), Some(owner.as_ref()));
        Ok(self.change("RLOCK.FORCERELEASE", command).await? == Some(1))
    }
}
