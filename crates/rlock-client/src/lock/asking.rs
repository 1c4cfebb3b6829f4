//! Questions about a lock without acquiring it, and the forced release.

use redis::Value;

use super::Lock;
use crate::command;
use crate::error::Error;
use crate::exchange::{Manner, Trouble, exchange_one};
use crate::info::Info;
use crate::kind::Kind;

impl<K: Kind> Lock<K> {
    /// Whether the lock is held.
    ///
    /// # Errors
    ///
    /// [`Error::Transport`] and the server's refusals.
    pub async fn locked(&self) -> Result<bool, Error> {
        Ok(self.info().await?.locked())
    }

    /// How many holds this owner has; for a side of a read/write lock, how many in this mode.
    ///
    /// # Errors
    ///
    /// As [`Lock::locked`].
    pub async fn hold_count(&self, owner: impl AsRef<[u8]>) -> Result<u64, Error> {
        let mut command = command::about("RLOCK.INFO", &self.spec.key, None);
        // All holders: of very many readers it may be the last.
        command.arg("LIMIT").arg(u32::MAX);
        let mode = self.spec.mode.word().map(str::to_ascii_lowercase);
        Ok(self.ask_info(command).await?.holds(owner.as_ref(), mode.as_deref()))
    }

    /// Takes the lock away from its holder; `false` if it had none.
    ///
    /// The holder notices it at its next renewal, and may still be working. Use this only if you know that it is not.
    ///
    /// # Errors
    ///
    /// As [`Lock::locked`]. After [`Error::OutcomeUnknown`] it may have worked.
    pub async fn force_release(&self) -> Result<bool, Error> {
        match self.ask(command::about("RLOCK.FORCERELEASE", &self.spec.key, None)).await? {
            Ok(value) => Ok(command::integer("RLOCK.FORCERELEASE", &value)? == Some(1)),
            Err(error) => Err(Error::unknown(&self.spec.key, error)),
        }
    }

    /// Everything that the server reports about the lock: holders, leases, waiters.
    ///
    /// # Errors
    ///
    /// As [`Lock::locked`].
    pub async fn info(&self) -> Result<Info, Error> {
        self.ask_info(command::about("RLOCK.INFO", &self.spec.key, None)).await
    }

    async fn ask_info(&self, command: redis::Cmd) -> Result<Info, Error> {
        match self.ask(command).await? {
            Ok(value) => Info::read(value),
            Err(error) => Err(error),
        }
    }

    /// Whether there is a connection to the lock's server, without asking it; an error gives the reason if there is
    /// not.
    ///
    /// The client restores broken connections itself. Use this to see why a wait takes long.
    ///
    /// # Errors
    ///
    /// The error of the last attempt to connect.
    pub fn connected(&self) -> Result<(), Error> {
        let node = self.spec.handle.shared.router.node(&self.spec.key);
        node.main.live().map(|_| ()).ok_or_else(|| node.main.trouble())
    }

    /// Asks the server; the inner error is a lost reply.
    pub(super) async fn ask(&self, command: redis::Cmd) -> Result<Result<Value, Error>, Error> {
        let shared = &self.spec.handle.shared;
        shared.check_open()?;
        let by = shared.answer_by(&self.spec.key);
        match exchange_one(shared, &self.spec.key, command, Manner::by(Some(by))).await {
            Ok(reply) => reply.map(Ok).map_err(|refusal| refusal.error),
            Err(Trouble::Unsent(error)) => Err(error),
            Err(Trouble::Unanswered(error)) => Ok(Err(error)),
        }
    }
}
