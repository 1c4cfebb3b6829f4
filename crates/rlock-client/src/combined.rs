//! What a combination of locks asks each of its locks.

use std::time::Duration;

use crate::error::Error;
use crate::kind::Kind;
use crate::lock::Lock;

/// For code that combines locks; see [`lockable`](crate::lockable).
impl<K: Kind> Lock<K> {
    /// The address of the lock's server, as it is in the client's URL; of a cluster and behind Sentinels, those of the URL.
    pub fn server(&self) -> &str {
        &self.spec.handle.server
    }

    /// What the lock's server calls itself (`run_id`): the same by whatever address it is reached, and new after a restart. `None`
    /// without a connection, and if the server does not say.
    ///
    /// It waits for the end of the client's first attempt to connect, and for the server's answer.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] after [`Client::close`](crate::Client::close), [`Error::Unsupported`] in the child of a fork.
    pub async fn server_id(&self) -> Result<Option<String>, Error> {
        let shared = &self.spec.handle.all.shared;
        shared.check_open()?;
        if shared.router.settled().await.is_err() {
            return Ok(None);
        }
        let Some(live) = shared.router.node(self.name()).main.live() else { return Ok(None) };
        Ok(live.identity().await.map(str::to_string))
    }

    /// The lease that the lock asks for: its own, or the client's.
    pub fn effective_lease(&self) -> Duration {
        self.spec.lease
    }

    /// Whether a hold of this lock can stand for one of `other`, if both have one name on one server: they are of the same kind, with
    /// the same permits and session grace, both fair or not, both fenced or not.
    pub fn asks_like<J: Kind>(&self, other: &Lock<J>) -> bool {
        self.spec.mode == other.spec.mode && self.spec.extras == other.spec.extras
    }
}
