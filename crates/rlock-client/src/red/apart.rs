//! Whether the servers of a red lock are as many as they look.

use std::collections::HashMap;

use futures_util::future::join_all;

use super::attempt::patience;
use crate::error::Error;
use crate::lock::Spec;

/// Refuses a server that is reached by two addresses: it would give the lock to only one of them, so that fewer
/// servers may fail than the user counts on, or none.
///
/// Servers that do not answer in the time of an attempt, or do not report their identity, pass.
pub(super) async fn check_apart(locks: &[Spec]) -> Result<(), Error> {
    let time = patience(locks);
    let identities = join_all(locks.iter().map(async |lock| {
        let clock = lock.handle.shared.clock;
        clock.until(Some(clock.now().after(time)), identity(lock)).await.flatten()
    }));
    let mut known = HashMap::new();
    for (lock, identity) in locks.iter().zip(identities.await) {
        let server = lock.handle.server.as_str();
        let other = identity.and_then(|identity| known.insert(identity, server));
        if let Some(other) = other {
            return Err(Error::invalid(format!(
                "a red lock needs independent servers, but {other} and {server} lead to the same one: name each server once"
            )));
        }
    }
    Ok(())
}

/// Which server has the lock, where there is a connection to it.
async fn identity(lock: &Spec) -> Option<String> {
    let router = &lock.handle.shared.router;
    router.settled().await.ok()?;
    let live = router.node(&lock.key).main.live()?;
    live.identity().await.map(str::to_string)
}
