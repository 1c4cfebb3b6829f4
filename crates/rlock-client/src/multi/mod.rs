//! Several locks at once: all of them or none.

mod guard;

use std::fmt;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::try_join_all;
use futures_util::stream::FuturesOrdered;

use crate::clock::{Clock, Instant};
use crate::error::{Error, name};
use crate::guard::Guard;
use crate::kind::{Any, Kind};
use crate::lock::{Lock, Spec};
use crate::lockable::{Lockable, acquiring};
pub use guard::{MultiGuard, MultiHeld};

/// How long a lock is waited for in the first round while others are held; in each next round twice as long …
const FIRST_PATIENCE: Duration = Duration::from_secs(5);

/// … up to this.
const LONGEST_PATIENCE: Duration = Duration::from_secs(3600);

/// The longest pause between two rounds.
const PAUSE: Duration = Duration::from_millis(20);

/// Several locks, acquired together: all of them or none, on one server or several.
///
/// Free locks take one round trip: the requests are sent together, and none waits for the reply to another. If a lock
/// is held, the client waits in its queue while it holds the locks before it. *Before* is an order that all clients
/// share, by name and then by the server's address, so two `MultiLock`s never wait for each other, whatever order you
/// named their locks in.
///
/// Other clients may use no order (two plain locks, one acquired under the other) or another order (locks of one name
/// on two servers, which two programs know by different addresses). Waits against these have a bound: after 5 seconds
/// the client releases everything and starts the next round, with twice the time.
///
/// It is not one atomic command. Other clients may see some of the locks held during an attempt that fails, or during
/// a wait; the guarantee concerns what the caller gets. (MULTI/EXEC would guarantee no more: EXEC does not undo
/// earlier commands if a later one is denied, and in a cluster it is bound to one slot.)
///
/// Each lock keeps its settings, such as lease and durability. If two locks have one name on one server, they must be
/// of one kind, and the first one counts. A lock that is not renewed ([`Lock::renew`]) ends a lease after its own
/// acquisition, so make that lease long compared with the wait for the others.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), rlock_client::Error> {
/// # let server = rlock_testkit::TestServer::start();
/// # let client = rlock_client::Client::connect(&format!("redis://127.0.0.1:{}", server.port())).await?;
/// use rlock_client::MultiLock;
///
/// let accounts = MultiLock::new([client.lock("account:7"), client.lock("account:3")])?;
/// let guard = accounts.acquire().await?;
/// // … the transfer …
/// guard.check()?; // do you still hold both?
/// guard.release().await
/// # }
/// ```
#[must_use = "a lock does nothing until it is acquired: `let guard = lock.acquire().await?`"]
#[derive(Clone)]
pub struct MultiLock {
    /// In the order in which they are waited for.
    specs: Vec<Spec>,
    wait: Option<Duration>,
}

acquiring!(MultiLock, MultiGuard, MultiHeld);

impl Lockable for MultiLock {
    type Guard = MultiGuard;

    fn limit(&self) -> Option<Duration> {
        self.wait
    }

    async fn now(self) -> Result<MultiGuard, Error> {
        // The first that fails ends the others.
        let ask = async |lock: &Spec| lock.tell_outcome(lock.acquire_now().await);
        match self.all(try_join_all(self.specs.iter().map(ask)).await?) {
            Round::Held(guard) => Ok(guard),
            Round::Missed(lock, _) => lock.tell_outcome(Err(Error::denied(&lock.key))),
        }
    }

    async fn within(self, limit: Option<Duration>) -> Result<MultiGuard, Error> {
        let clock = self.clock();
        let began = clock.now();
        let by = limit.map(|limit| began.after(limit));
        let mut patience = FIRST_PATIENCE;
        loop {
            // Random: two acquisitions that block each other should not give up at the same time.
            let (missed, cause) = match self.round(patience.mul_f64(0.75 + fastrand::f64() / 2.0), by).await?
            {
                Round::Held(guard) => return Ok(guard),
                Round::Missed(lock, cause) => (lock, cause),
            };
            if by.is_some_and(|by| clock.now() >= by) {
                return missed.tell_outcome(Err(Error::Timeout {
                    lock: name(&missed.key),
                    waited: clock.now().since(began),
                    source: cause,
                }));
            }
            tracing::debug!(lock = name(&missed.key), ?patience, "not all locks were acquired; trying again");
            tokio::time::sleep(PAUSE.mul_f64(fastrand::f64())).await;
            patience = patience.saturating_mul(2).min(LONGEST_PATIENCE);
        }
    }
}

impl MultiLock {
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
    pub fn new<K: Kind>(locks: impl IntoIterator<Item = Lock<K>>) -> Result<MultiLock, Error> {
        let mut specs: Vec<Spec> = locks.into_iter().map(|lock| lock.spec).collect();
        if specs.is_empty() {
            return Err(Error::invalid("a multi lock needs at least one lock"));
        }
        let wait = specs.iter().filter_map(|lock| lock.wait).min();
        // By name first: two programs agree on names even where one has a server by another address.
        specs.sort_by(|one, other| place(one).cmp(&place(other)));
        // If the first were taken for both, a writer could have the lock for reading only, and a user of the
        // token could have none.
        let way = |lock: &Spec| (lock.mode, lock.extras);
        let two_ways = |pair: &[Spec]| matches!(pair, [one, other] if place(one) == place(other) && way(one) != way(other));
        if let Some([lock, _]) = specs.windows(2).find(|pair| two_ways(pair)) {
            return Err(Error::invalid(format!(
                "the lock {} is named twice in different modes: name it once, as the writer if you read and write, fenced if \
                 you need the token, fair if you need its order",
                name(&lock.key)
            )));
        }
        specs.dedup_by(|one, other| place(one) == place(other));
        Ok(MultiLock { specs, wait })
    }

    /// Limits how long [`MultiLock::acquire`] and [`MultiLock::run`] wait. The default is the shortest limit of the
    /// locks; without one they wait for ever.
    pub fn wait(mut self, wait: Duration) -> MultiLock {
        self.wait = Some(wait);
        self
    }

    /// The names of the locks, each lock once, in the order of waiting.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.specs.iter().map(|spec| spec.key.as_slice())
    }

    /// Takes the free locks and waits for the others, lock after lock; for `patience` at most while it holds any.
    async fn round(&self, patience: Duration, by: Option<Instant>) -> Result<Round<'_>, Error> {
        let clock = self.clock();
        let mut guards: Vec<Guard<Any>> = Vec::with_capacity(self.specs.len());
        loop {
            let now = clock.now();
            let soon = now.after(patience);
            let soon = by.map_or(soon, |by| by.min(soon));
            let rest = self.specs.get(guards.len()..).unwrap_or_default();
            self.take_free(rest, soon, &mut guards).await;
            let Some(missing) = self.specs.get(guards.len()) else { break };
            // Those before it are held meanwhile, those after it are not: no two wait for each other.
            let end = if guards.is_empty() { by } else { Some(self.end_of_wait(&guards, soon)) };
            let limit = end.map(|end| end.since(clock.now()));
            match missing.acquire_within(limit).await {
                Ok(guard) => guards.push(guard),
                Err(Error::Timeout { source, .. }) => return Ok(Round::Missed(missing, source)),
                Err(error) => return Err(error),
            }
        }
        Ok(self.all(guards))
    }

    /// All locks were acquired; past the end of a short lease one of them may not be held any more.
    fn all(&self, guards: Vec<Guard<Any>>) -> Round<'_> {
        let guard = MultiGuard::new(guards);
        let lost = guard.locks().iter().position(|held| held.check().is_err());
        match lost.and_then(|index| self.specs.get(index)) {
            Some(lock) => Round::Missed(lock, None),
            None => Round::Held(guard),
        }
    }

    /// Asks for all of `locks` at once, and keeps what it got before the first that it did not get.
    async fn take_free(&self, locks: &[Spec], by: Instant, guards: &mut Vec<Guard<Any>>) {
        let clock = self.clock();
        let attempts = locks.iter().map(|lock| clock.until(Some(by), lock.acquire_now()));
        let mut attempts: FuturesOrdered<_> = attempts.collect();
        // An error is as good as a denial: waiting will meet it again, and knows whether it passes.
        while let Some(Some(Ok(guard))) = attempts.next().await {
            guards.push(guard);
        }
    }

    /// Until when to wait while these locks are held: not until the leases are over that are not renewed.
    fn end_of_wait(&self, guards: &[Guard<Any>], end: Instant) -> Instant {
        let held = self.specs.iter().zip(guards).filter(|(lock, _)| !lock.renew);
        let left = held.map(|(_, guard)| guard.check().unwrap_or_default()).min();
        left.map_or(end, |left| end.min(self.clock().now().after(left / 2)))
    }

    fn clock(&self) -> Clock {
        self.specs.first().map_or(Clock::System, |lock| lock.handle.shared.clock)
    }
}

/// What came of a round.
enum Round<'a> {
    Held(MultiGuard),
    /// This one was not acquired in time, with the reason if its server could not be asked; or it is no longer held.
    Missed(&'a Spec, Option<Box<Error>>),
}

/// Where a lock stands in the order; equal for equal locks.
fn place(lock: &Spec) -> (&[u8], &str) {
    (&lock.key, &lock.handle.server)
}

impl fmt::Debug for MultiLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.names().map(name).collect();
        f.debug_struct("MultiLock").field("names", &names).finish_non_exhaustive()
    }
}
