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
use crate::lock::Lock;
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
/// of one kind, and the first one counts. A fixed lease counts from that lock's acquisition, so make it long compared
/// with the wait for the others.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), rlock_client::Error> {
/// # let server = rlock_testkit::TestServer::start();
/// # let client = rlock_client::Client::connect(&format!("redis://127.0.0.1:{}", server.port())).await?;
/// use rlock_client::MultiLock;
///
/// let accounts = MultiLock::new([client.lock("account:7"), client.lock("account:3")])?;
/// let guard = accounts.lock().await?;
/// // … the transfer …
/// guard.check()?; // do you still hold both?
/// guard.unlock().await
/// # }
/// ```
#[derive(Clone)]
pub struct MultiLock {
    /// In the order in which they are waited for.
    locks: Vec<Lock>,
    wait: Option<Duration>,
}

impl MultiLock {
    /// All these locks as one. You may name the same lock more than once.
    ///
    /// Servers are distinguished by the addresses in their URLs. If two clients have one server by different
    /// addresses, locks of one name from both are two locks, which exclude each other.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if there is no lock, or if one name has two variants: to read and to write, with and
    /// without a fencing token, with and without FAIR.
    pub fn new(locks: impl IntoIterator<Item = Lock>) -> Result<MultiLock, Error> {
        let mut locks: Vec<Lock> = locks.into_iter().collect();
        if locks.is_empty() {
            return Err(Error::invalid("a multi lock needs at least one lock"));
        }
        let wait = locks.iter().filter_map(|lock| lock.wait).min();
        // By name first: two programs agree on names even where one has a server by another address.
        locks.sort_by(|one, other| place(one).cmp(&place(other)));
        // To write under what was taken to read only would be to write without the lock, and who counts on a token would
        // write without one.
        let way = |lock: &Lock| (lock.mode(), lock.extras());
        let two_ways = |pair: &[Lock]| matches!(pair, [one, other] if place(one) == place(other) && way(one) != way(other));
        if let Some([lock, _]) = locks.windows(2).find(|pair| two_ways(pair)) {
            return Err(Error::invalid(format!(
                "the lock {} is named twice in different modes: name it once, as the writer if you read and write, fenced if \
                 you need the token, fair if you need its order",
                name(lock.name())
            )));
        }
        locks.dedup_by(|one, other| place(one) == place(other));
        Ok(MultiLock { locks, wait })
    }

    /// Limits how long [`MultiLock::lock`] and [`MultiLock::run`] wait. The default is the shortest limit of the
    /// locks; without one they wait for ever.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> MultiLock {
        self.wait = Some(wait);
        self
    }

    /// The locks, each once, in the order of waiting.
    pub fn locks(&self) -> &[Lock] {
        &self.locks
    }

    /// Acquires the locks if all are free now; `None` if another owner holds one of them.
    ///
    /// Locks acquired before that was known, or on their way, are released in the background, also if you drop the
    /// future.
    ///
    /// # Errors
    ///
    /// As [`Lock::try_lock`].
    pub fn try_lock(&self) -> impl Future<Output = Result<Option<MultiGuard>, Error>> + Send + use<> {
        let multi = self.clone();
        async move { multi.acquire_now().await }
    }

    /// Acquires all the locks, waiting without limit, or as long as [`MultiLock::wait`] says.
    ///
    /// It also waits while a server is out of reach. Dropping the future loses the places in the queues and never
    /// leaves a lock behind.
    ///
    /// # Errors
    ///
    /// As [`Lock::lock`]; [`Error::Timeout`] names the lock that was missing.
    pub fn lock(&self) -> impl Future<Output = Result<MultiGuard, Error>> + Send + use<> {
        let multi = self.clone();
        async move { multi.acquire_within(multi.wait).await }
    }

    /// Acquires all the locks, waiting for at most `wait`.
    ///
    /// # Errors
    ///
    /// As [`MultiLock::lock`].
    pub fn lock_timeout(
        &self,
        wait: Duration,
    ) -> impl Future<Output = Result<MultiGuard, Error>> + Send + use<> {
        let multi = self.clone();
        async move { multi.acquire_within(Some(wait)).await }
    }

    /// Runs `work` under all the locks, and drops it when one of them is lost.
    ///
    /// `Ok` says that all locks were held from the beginning of the work to its end.
    ///
    /// # Errors
    ///
    /// As [`MultiLock::lock`], and [`Error::Lost`] if the work was dropped, or ended only after the loss.
    pub fn run<T, F, W>(&self, work: W) -> impl Future<Output = Result<T, Error>> + use<T, F, W>
    where
        F: Future<Output = T>,
        W: FnOnce(MultiHeld) -> F,
    {
        let multi = self.clone();
        async move { multi.run_under(work).await }
    }

    async fn run_under<T, F: Future<Output = T>>(
        self,
        work: impl FnOnce(MultiHeld) -> F,
    ) -> Result<T, Error> {
        let guard = self.lock().await?;
        let value = tokio::select! {
            biased;
            (lock, why) = guard.lost() => return Err(Error::lost(lock.name(), why)),
            value = work(guard.held()) => value,
        };
        guard.end_work().await?;
        Ok(value)
    }

    async fn acquire_now(&self) -> Result<Option<MultiGuard>, Error> {
        let attempts = self.locks.iter().map(async |lock| match lock.try_lock().await {
            Ok(Some(guard)) => Ok(guard),
            Ok(None) => Err(None),
            Err(error) => Err(Some(error)),
        });
        // The first that fails ends the others.
        match try_join_all(attempts).await {
            Ok(guards) => {
                let guard = MultiGuard::new(guards);
                // Past the end of a short lease one of them is not held any more.
                Ok(guard.check().is_ok().then_some(guard))
            }
            Err(None) => Ok(None),
            Err(Some(error)) => Err(error),
        }
    }

    async fn acquire_within(&self, wait: Option<Duration>) -> Result<MultiGuard, Error> {
        let clock = self.clock();
        let began = clock.now();
        let by = wait.map(|wait| began.after(wait));
        let mut patience = FIRST_PATIENCE;
        loop {
            // Whoever else waits so should not give up at the same moment.
            let missed = match self.round(patience.mul_f64(0.75 + fastrand::f64() / 2.0), by).await? {
                Round::Held(guard) => return Ok(guard),
                Round::Missed(lock) => lock,
            };
            if by.is_some_and(|by| clock.now() >= by) {
                return Err(Error::timeout(missed.name(), clock.now().since(began)));
            }
            tracing::debug!(
                lock = name(missed.name()),
                ?patience,
                "not all locks were acquired; trying again"
            );
            tokio::time::sleep(PAUSE.mul_f64(fastrand::f64())).await;
            patience = patience.saturating_mul(2).min(LONGEST_PATIENCE);
        }
    }

    /// Takes what is free and waits for what is not, lock after lock; while any is held for so long at most.
    async fn round(&self, patience: Duration, by: Option<Instant>) -> Result<Round<'_>, Error> {
        let clock = self.clock();
        let mut guards: Vec<Guard> = Vec::with_capacity(self.locks.len());
        loop {
            let now = clock.now();
            let soon = now.after(patience);
            let soon = by.map_or(soon, |by| by.min(soon));
            let rest = self.locks.get(guards.len()..).unwrap_or_default();
            self.take_free(rest, soon, &mut guards).await;
            let Some(missing) = self.locks.get(guards.len()) else { break };
            // Those before it are held meanwhile, those after it are not: no two wait for each other.
            let end = if guards.is_empty() { by } else { Some(self.end_of_wait(&guards, soon)) };
            let outcome = match end {
                Some(end) => missing.lock_timeout(end.since(clock.now())).await,
                // Then it has no limit of its own either.
                None => missing.lock().await,
            };
            match outcome {
                Ok(guard) => guards.push(guard),
                Err(Error::Timeout { .. }) => return Ok(Round::Missed(missing)),
                Err(error) => return Err(error),
            }
        }
        let guard = MultiGuard::new(guards);
        let lost = guard.locks().iter().position(|held| held.check().is_err());
        Ok(match lost.and_then(|index| self.locks.get(index)) {
            Some(lock) => Round::Missed(lock),
            None => Round::Held(guard),
        })
    }

    /// Asks for all of `locks` at once, and keeps what it got before the first that it did not get.
    async fn take_free(&self, locks: &[Lock], by: Instant, guards: &mut Vec<Guard>) {
        let clock = self.clock();
        let attempts = locks.iter().map(|lock| clock.until(Some(by), lock.try_lock()));
        let mut attempts: FuturesOrdered<_> = attempts.collect();
        // An error is as good as a denial: waiting will meet it again, and knows whether it passes.
        while let Some(Some(Ok(Some(guard)))) = attempts.next().await {
            guards.push(guard);
        }
    }

    /// Until when to wait while these locks are held: not until the leases are over that are not renewed.
    fn end_of_wait(&self, guards: &[Guard], end: Instant) -> Instant {
        let held = self.locks.iter().zip(guards).filter(|(lock, _)| lock.lease.is_some());
        let left = held.map(|(_, guard)| guard.check().unwrap_or_default()).min();
        left.map_or(end, |left| end.min(self.clock().now().after(left / 2)))
    }

    fn clock(&self) -> Clock {
        self.locks.first().map_or(Clock::System, |lock| lock.handle.shared.clock)
    }
}

/// What came of a round.
enum Round<'a> {
    Held(MultiGuard),
    /// This one was not to be had in time, or is held no longer.
    Missed(&'a Lock),
}

/// Where a lock stands in the order; equal for equal locks.
fn place(lock: &Lock) -> (&[u8], &str) {
    (lock.name(), &lock.handle.server)
}

impl fmt::Debug for MultiLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiLock").field("locks", &self.locks).finish_non_exhaustive()
    }
}
