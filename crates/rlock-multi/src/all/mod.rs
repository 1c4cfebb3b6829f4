//! Several locks that are acquired together.

mod guard;

use std::fmt;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use rlock_client::lockable::Lockable;
use rlock_client::{Any, Error, Guard, Kind, Lock, acquiring};
use tokio::time::{Instant, timeout};

use crate::name;
pub use guard::{AllGuard, AllHeld};

/// Acquires all these locks, and waits as long as it takes, or as long as the shortest `wait` of the locks says.
///
/// It is `LockAll::new(locks)?.acquire().await`; see [`LockAll`].
///
/// # Errors
///
/// As [`LockAll::new`] and [`Lock::acquire`].
pub async fn lock_all<K: Kind>(locks: impl IntoIterator<Item = Lock<K>>) -> Result<AllGuard, Error> {
    LockAll::new(locks)?.acquire().await
}

/// Several locks that are acquired together, of one client or several, on one server or several, in any slots.
///
/// Free locks take one round trip: the requests are sent together, and none waits for the reply to another. If another owner holds
/// one of the locks, the locks before it stay held, those after it are released, and the client waits in the queue of that one.
/// Then it asks for the rest together, and so on. *Before* is an order that all clients share: by name, then by the server's address.
///
/// # Deadlocks
///
/// **Two `LockAll`s never wait for each other**, whatever order you named their locks in. Three things break the order:
///
/// * other code that holds one of the locks while it waits for an earlier one;
/// * work under the guard that waits for a further lock which comes before one of these;
/// * programs that know one server by different addresses, if locks of one name are on several servers.
///
/// There, two owners can wait for each other for ever, while each renews what it holds. Set a limit ([`LockAll::wait`],
/// [`LockAll::acquire_timeout`]): at its end everything is released.
///
/// # What else holds
///
/// Acquiring them is not one atomic command. Other clients may see some of the locks held during an attempt that fails, or during a
/// wait; the guarantee concerns what the caller gets. (MULTI/EXEC would guarantee no more: EXEC does not undo earlier commands if a
/// later one is denied, and in a cluster it is bound to one slot.)
///
/// Each lock keeps its settings, such as lease and durability, and is renewed by its own client, also while another one is waited for.
/// A lock that is lost during the wait for another one is acquired again; if it is not free, the locks after it are released first. So
/// a lock that is not renewed ([`Lock::renew`]) need not outlast the wait. Its lease counts from its own acquisition: `check` says
/// how much is left. A lock with [`Lock::at_least`] stays held for that time also if it is released for the sake of the order.
///
/// Dropping the future of an acquisition leaves no lock and no waiter behind.
#[must_use = "locks are not held until they are acquired: `let guard = locks.acquire().await?`"]
#[derive(Clone)]
pub struct LockAll {
    /// The locks, in the order in which they are waited for.
    locks: Vec<Lock<Any>>,
    wait: Option<Duration>,
}

acquiring!(LockAll, AllGuard, AllHeld);

impl Lockable for LockAll {
    type Guard = AllGuard;

    fn limit(&self) -> Option<Duration> {
        self.wait
    }

    async fn now(self) -> Result<AllGuard, Error> {
        let mut parts = self.parts();
        take_free(&mut parts).await?;
        let guard = AllGuard::new(parts.into_iter().filter_map(|part| part.guard));
        // A lease that is not renewed may be shorter than the slowest reply.
        guard.check()?;
        Ok(guard)
    }

    async fn within(self, limit: Option<Duration>) -> Result<AllGuard, Error> {
        let began = Instant::now();
        let left = || limit.map(|limit| limit.saturating_sub(began.elapsed()));
        let mut parts = self.parts();
        while !are_held(&mut parts) {
            // An error is as good as a denial: the wait meets it again, and knows whether it passes.
            _ = until(left(), take_free(&mut parts)).await;
            let Some(missing) = keep_before_missing(&mut parts) else { continue };
            match missing.lock.clone().within(left()).await {
                Ok(guard) => missing.guard = Some(guard),
                Err(Error::Timeout { lock, source, .. }) => {
                    return Err(Error::Timeout { lock, waited: began.elapsed(), source });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(AllGuard::new(parts.into_iter().filter_map(|part| part.guard)))
    }
}

impl LockAll {
    /// All these locks as one. You may name the same lock more than once. Locks of different kinds are locks of
    /// [`Any`] kind: `[client.lock("a").any(), client.read_write_lock("b").write().any()]`.
    ///
    /// Servers are distinguished by the addresses in their URLs. If two clients have one server by different
    /// addresses, locks of one name from both are two locks, which exclude each other.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if there is no lock, or if one name has two variants: to read and to write, with and
    /// without a fencing token, with and without FAIR.
    pub fn new<K: Kind>(locks: impl IntoIterator<Item = Lock<K>>) -> Result<LockAll, Error> {
        let mut locks: Vec<Lock<Any>> = locks.into_iter().map(Lock::any).collect();
        let wait = locks.iter().filter_map(Lockable::limit).min();
        // By name first: two programs agree on names even where one has a server by another address.
        locks.sort_by(|one, other| place(one).cmp(&place(other)));
        let same = |one: &Lock<Any>, other: &Lock<Any>| place(one) == place(other);
        // If the first were taken for both, a writer could have the lock for reading only, and a user of the
        // token could have none.
        let two_ways =
            |pair: &&[Lock<Any>]| matches!(pair, [one, other] if same(one, other) && !one.asks_like(other));
        let message = match (locks.windows(2).find(two_ways), locks.is_empty()) {
            (Some([lock, _]), _) => format!(
                "the lock {} is named twice in different modes: name it once, as the writer if you read and write, fenced if \
                 you need the token, fair if you need its order",
                name(lock.name())
            ),
            (_, true) => "name at least one lock".to_string(),
            _ => {
                locks.dedup_by(|one, other| same(one, other));
                return Ok(LockAll { locks, wait });
            }
        };
        Err(Error::Invalid { message })
    }

    /// Limits how long [`LockAll::acquire`] and [`LockAll::run`] wait. The default is the shortest limit of the
    /// locks; without one they wait for ever.
    pub fn wait(mut self, wait: Duration) -> LockAll {
        self.wait = Some(wait);
        self
    }

    /// The names of the locks, each lock once, in the order of waiting.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.locks.iter().map(Lock::name)
    }

    fn parts(self) -> Vec<Part> {
        self.locks.into_iter().map(|lock| Part { lock, guard: None }).collect()
    }
}

/// One of the locks during an acquisition, and its guard while it is held.
struct Part {
    lock: Lock<Any>,
    guard: Option<Guard<Any>>,
}

/// Where a lock stands in the order; equal for equal locks.
fn place(lock: &Lock<Any>) -> (&[u8], &str) {
    (lock.name(), lock.server())
}

/// Whether all locks are held. Guards of lost locks are dropped: a named owner is refused as long as one is left.
fn are_held(parts: &mut [Part]) -> bool {
    for part in parts.iter_mut() {
        part.guard.take_if(|guard| guard.check().is_err());
    }
    parts.iter().all(|part| part.guard.is_some())
}

/// Asks at once for all locks that are not held; the error is that of the first one that is not free. No request waits, so none of
/// them can be part of a deadlock, in whatever order the others are held.
async fn take_free(parts: &mut [Part]) -> Result<(), Error> {
    let missing = parts.iter().filter(|part| part.guard.is_none());
    let mut attempts: FuturesOrdered<_> = missing.map(|part| part.lock.try_acquire()).collect();
    for part in parts.iter_mut().filter(|part| part.guard.is_none()) {
        if let Some(outcome) = attempts.next().await {
            part.guard = Some(outcome?);
        }
    }
    Ok(())
}

/// The first lock that is not held. Those after it are released: only the locks before it may be held while it is waited for.
fn keep_before_missing(parts: &mut [Part]) -> Option<&mut Part> {
    let mut parts = parts.iter_mut();
    let missing = parts.find(|part| part.guard.is_none());
    parts.for_each(|part| part.guard = None);
    missing
}

/// Runs `work` for at most `limit`.
async fn until<T>(limit: Option<Duration>, work: impl Future<Output = T>) -> Option<T> {
    match limit {
        None => Some(work.await),
        Some(limit) => timeout(limit, work).await.ok(),
    }
}

impl fmt::Debug for LockAll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.names().map(name).collect();
        f.debug_struct("LockAll").field("names", &names).finish_non_exhaustive()
    }
}
