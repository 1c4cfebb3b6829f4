//! The common part of a client's clones, calls and guards.

use std::sync::Arc;

use crate::acquisition::Acquisitions;

/// The common part of clients, calls and guards. When the last of them is gone, the client ends as soon as nothing is left to release.
pub(crate) struct Handle {
    pub(crate) all: Arc<Acquisitions>,
    pub(crate) runtime: tokio::runtime::Handle,
    /// The server or servers, as `Endpoint::destination` names them.
    pub(crate) server: String,
}

impl Drop for Handle {
    fn drop(&mut self) {
        let all = self.all.clone();
        self.runtime.spawn(async move {
            tokio::select! {
                () = all.emptied() => all.shared.stop.cancel(),
                () = all.shared.stop.cancelled() => (),
            }
        });
    }
}
