//! Whether the clients of a red lock reach different servers.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::try_join_all;
use rlock_client::{Error, Lock};
use tokio::time::timeout;

/// Refuses a server that is reached by two addresses. It would grant the lock to one of them only, so that
/// fewer servers may fail than the user counts on, or none.
///
/// Servers that do not answer in the time of an attempt, or do not report their identity, pass.
pub(super) async fn check_apart(locks: &[Lock], time: Duration) -> Result<(), Error> {
    // In the child of a fork no task runs, and no time passes: there each of these fails without a wait.
    let ids = locks.iter().map(async |lock| timeout(time, lock.server_id()).await.unwrap_or(Ok(None)));
    let mut known = HashMap::new();
    for (lock, id) in locks.iter().zip(try_join_all(ids).await?) {
        let server = lock.server();
        if let Some(other) = id.and_then(|id| known.insert(id, server)) {
            let message = format!(
                "a red lock needs independent servers, but {other} and {server} lead to the same one: name each server once"
            );
            return Err(Error::Invalid { message });
        }
    }
    Ok(())
}
