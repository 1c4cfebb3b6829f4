//! Properties of a lock for code that combines locks.

use std::time::Duration;

use crate::error::Error;
use crate::kind::Kind;
use crate::lock::Lock;

/// Properties of a lock for code that combines locks; see [`lockable`](crate::lockable).
impl<K: Kind> Lock<K> {
    /// The address of the lock's server as the client's URL has it; for a cluster or Sentinels, all addresses of the URL.
    pub fn server(&self) -> &str {
        &self.spec.handle.server
    }

    /// The identity of the lock's server (`run_id`), the same for each address that leads to it, until it restarts. `None`
    /// without a connection, or without the permission `+info`.
    ///
    /// The call waits for the end of the client's first attempt to connect, and for the server's answer. The client asks once for each
    /// connection.
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
        self.spec.terms.lease
    }

    /// Whether a hold of this lock can replace a hold of `other` if both have one name on one server. The two must be of the same
    /// kind, with the same permits and session grace, both fair or not, both fenced or not.
    pub fn asks_like<J: Kind>(&self, other: &Lock<J>) -> bool {
        self.spec.mode == other.spec.mode && self.spec.terms.extras == other.spec.terms.extras
    }
}
