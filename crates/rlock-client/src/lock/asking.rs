//! Questions about a lock without acquiring it, and the forced release.

use super::Lock;
use crate::command;
use crate::error::Error;
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

    /// Takes the lock away from its holder; `false` if the lock had no holder.
    ///
    /// The holder notices the loss at its next renewal, and may work until that. Use this only if you know that the holder does not work.
    ///
    /// # Errors
    ///
    /// As [`Lock::locked`]. After [`Error::OutcomeUnknown`] it may have worked.
    pub async fn force_release(&self) -> Result<bool, Error> {
        let command = command::about("RLOCK.FORCERELEASE", &self.spec.key, None);
        Ok(self.change("RLOCK.FORCERELEASE", command).await? == Some(1))
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
        let (shared, key) = (&self.spec.handle.all.shared, &self.spec.key);
        shared.check_open()?;
        let reply = shared.router.request(key, command).await;
        Info::read(reply.map_err(|failed| command::failed(key, failed))?)
    }

    /// Checks that there is a connection to the lock's server, without asking the server. The error is the reason
    /// why the connection is missing.
    ///
    /// The client restores broken connections itself. Use this to see why a wait takes long.
    ///
    /// # Errors
    ///
    /// The error of the last attempt to connect.
    pub fn connected(&self) -> Result<(), Error> {
        let node = self.spec.handle.all.shared.router.node(&self.spec.key);
        node.main.live().map(|_| ()).ok_or_else(|| node.fault().into())
    }

    /// Sends a command that changes something, and reads its reply: an integer or null.
    pub(super) async fn change(&self, word: &str, command: redis::Cmd) -> Result<Option<i64>, Error> {
        let (shared, key) = (&self.spec.handle.all.shared, &self.spec.key);
        shared.check_open()?;
        let reply = shared.router.request(key, command).await;
        command::integer(word, &reply.map_err(|failed| command::unless_known(key, failed))?)
    }
}
