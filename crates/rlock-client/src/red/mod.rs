//! One lock on several servers that know nothing of each other.

mod apart;
mod attempt;
mod guard;
pub(crate) mod members;

use std::fmt;
use std::time::Duration;

use crate::client::Client;
use crate::clock::Clock;
use crate::error::{Error, name};
use crate::lock::Lock;
use apart::check_apart;
use attempt::{Attempt, Outcome};
pub use guard::{RedGuard, RedHeld};

/// The longest pause after the first attempt that failed; each next may be twice as long …
const FIRST_PAUSE: Duration = Duration::from_millis(25);

/// … up to this.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// A lock on several independent servers, held by whoever has it on more than half of them.
///
/// It outlives the loss of any minority of the servers, at once and without a fail-over. It needs servers that are
/// independent: primaries without a common one, an odd number, five as a rule. (A replica is not independent of its
/// primary; for one primary and its replicas see [`Durability`](crate::Durability).)
///
/// An attempt asks all servers at the same time, each by a new owner, and fails where more than half do not answer
/// "yes" within a twentieth of the lease (between 20 ms and 1 s). Then it gives back what it got, also where the
/// answer was lost, and tries again after a random pause. Nobody queues: whoever comes first may come last.
///
/// What it got counts from the sending of each request, less 1 % and 2 ms for clocks that run at different speeds.
/// It is renewed on each server by itself, and lost when more than half of the servers can no longer have it. A
/// server that lost it, or did not have it at first, is asked for it again every third of the lease.
///
/// # What it does not guarantee
///
/// Two can hold it at once, each in good faith:
///
/// * where a process stands still between [`RedHeld::check`] and the next step for longer than the lease. No lock with
///   a lease prevents that; only what the lock protects can, by refusing the late one: by a fencing token or a
///   version number that each write raises. This lock has no tokens, since its servers do not count together;
/// * where the clocks of servers run faster than the client's by more than 1 %, or step: each server ends leases
///   by its own wall clock;
/// * where a server restarts without its memory: with `appendonly` off, or with any `appendfsync` but `always`. Keep
///   such a server down for the longest lease after a crash, and let it come back only then;
/// * where clients do not agree on the servers. All must name the same ones.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), rlock_client::Error> {
/// # let servers = [(); 3].map(|()| rlock_testkit::TestServer::start());
/// # let urls = servers.iter().map(|server| format!("redis://127.0.0.1:{}", server.port()));
/// use rlock_client::{Client, Error, RedLock};
///
/// let clients = urls.map(|url| Client::builder().connect_lazy(&url)).collect::<Result<Vec<_>, _>>()?;
/// let lock = RedLock::new(&clients, "report")?;
/// lock.run(|held| async move {
///     // … the work, which is dropped when the lock is lost …
///     held.check()?;
///     Ok::<_, Error>(())
/// })
/// .await?
/// # }
/// ```
#[derive(Clone)]
pub struct RedLock {
    /// One to a server.
    locks: Vec<Lock>,
    wait: Option<Duration>,
}

impl RedLock {
    /// The lock with this name on the servers of these clients.
    ///
    /// Leases and waits are those of the clients; their shortest counts. Make the clients with
    /// [`Builder::connect_lazy`](crate::Builder::connect_lazy), lest a program not start while one server is down.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] where there is no client, or two have one address. One server by two addresses is noticed
    /// when the lock is asked for.
    pub fn new<'a>(
        clients: impl IntoIterator<Item = &'a Client>,
        name: impl AsRef<[u8]>,
    ) -> Result<RedLock, Error> {
        let locks: Vec<Lock> = clients.into_iter().map(|client| client.lock(&name)).collect();
        if locks.is_empty() {
            return Err(Error::invalid("a red lock needs at least one server, and should have five"));
        }
        let mut servers: Vec<&str> = locks.iter().map(|lock| lock.handle.server.as_str()).collect();
        servers.sort_unstable();
        let twice = servers.windows(2).find(|pair| pair.first() == pair.last()).and_then(<[_]>::first);
        if let Some(twice) = twice {
            let message = format!("a red lock has the server {twice} twice: name each server once");
            return Err(Error::invalid(message));
        }
        let wait = locks.iter().filter_map(|lock| lock.wait).min();
        Ok(RedLock { locks, wait })
    }

    /// Sets a lease: the lock ends so long after it was acquired, and is not renewed. From 1 ms to 2^43 ms.
    ///
    /// Without a lease the lock is renewed until it is given back.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> RedLock {
        self.locks = self.locks.into_iter().map(|lock| lock.lease(lease)).collect();
        self
    }

    /// Limits how long [`RedLock::lock`] and [`RedLock::run`] wait. Without a limit they wait for ever.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> RedLock {
        self.wait = Some(wait);
        self
    }

    /// The lock's name.
    pub fn name(&self) -> &[u8] {
        self.locks.first().map_or(&[], Lock::name)
    }

    /// On how many servers it has to be held.
    pub fn quorum(&self) -> usize {
        self.locks.len() / 2 + 1
    }

    /// Makes one attempt; `None` where too many servers have given the lock to others.
    ///
    /// Dropping the future gives back whatever it may have been granted.
    ///
    /// # Errors
    ///
    /// The first error, where so many servers had one that there could be no quorum; [`Error::Invalid`] where two
    /// addresses lead to one server, as far as it lets this user ask for `INFO`.
    pub fn try_lock(&self) -> impl Future<Output = Result<Option<RedGuard>, Error>> + Send + use<> {
        let red = self.clone();
        async move {
            match red.attempt().await? {
                Outcome::Held(guard) => Ok(Some(guard)),
                Outcome::Denied => Ok(None),
                Outcome::Failed(errors) => errors.into_iter().next().map_or(Ok(None), Err),
            }
        }
    }

    /// Acquires the lock, trying as long as it takes, or as [`RedLock::wait`] says.
    ///
    /// Tries also while servers are out of reach. Dropping the future never leaves a lock behind.
    ///
    /// # Errors
    ///
    /// Anything that waiting does not mend on so many servers that there can be no quorum, [`Error::Invalid`] as from
    /// [`RedLock::try_lock`]; [`Error::Timeout`] where a limit was set.
    pub fn lock(&self) -> impl Future<Output = Result<RedGuard, Error>> + Send + use<> {
        let red = self.clone();
        async move { red.acquire_within(red.wait).await }
    }

    /// Acquires the lock, trying for so long at most.
    ///
    /// # Errors
    ///
    /// As [`RedLock::lock`]; [`Error::Timeout`] after that time.
    pub fn lock_timeout(
        &self,
        wait: Duration,
    ) -> impl Future<Output = Result<RedGuard, Error>> + Send + use<> {
        let red = self.clone();
        async move { red.acquire_within(Some(wait)).await }
    }

    /// Runs `work` under the lock, and drops it when the lock is lost.
    ///
    /// `Ok` says that a quorum held the lock from the beginning of the work to its end.
    ///
    /// # Errors
    ///
    /// As [`RedLock::lock`], and [`Error::Lost`] when the work was dropped, or had ended only after the loss.
    pub fn run<T, F, W>(&self, work: W) -> impl Future<Output = Result<T, Error>> + use<T, F, W>
    where
        F: Future<Output = T>,
        W: FnOnce(RedHeld) -> F,
    {
        let red = self.clone();
        async move { red.run_under(work).await }
    }

    async fn run_under<T, F: Future<Output = T>>(self, work: impl FnOnce(RedHeld) -> F) -> Result<T, Error> {
        let guard = self.lock().await?;
        let value = tokio::select! {
            biased;
            why = guard.lost() => return Err(Error::lost(self.name(), why)),
            value = work(guard.held()) => value,
        };
        guard.end_work().await?;
        Ok(value)
    }

    async fn acquire_within(&self, wait: Option<Duration>) -> Result<RedGuard, Error> {
        let clock = self.clock();
        let began = clock.now();
        let by = wait.map(|wait| began.after(wait));
        let mut pause = FIRST_PAUSE;
        loop {
            match self.attempt().await? {
                Outcome::Held(guard) => return Ok(guard),
                Outcome::Denied => (),
                Outcome::Failed(errors) => {
                    let lasting: Vec<_> = errors.into_iter().filter(|error| !passes(error)).collect();
                    if lasting.len() > self.locks.len().saturating_sub(self.quorum()) {
                        return lasting.into_iter().next().map_or(Err(Error::ShutDown), Err);
                    }
                }
            }
            // By chance, lest two that were in each other's way be so again.
            let next = clock.now().after(pause.mul_f64(fastrand::f64()));
            clock.sleep_until(by.map_or(next, |by| by.min(next))).await;
            if by.is_some_and(|by| clock.now() >= by) {
                return Err(Error::timeout(self.name(), clock.now().since(began)));
            }
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        }
    }

    async fn attempt(&self) -> Result<Outcome, Error> {
        check_apart(&self.locks).await?;
        Ok(Attempt::begin(&self.locks, self.quorum()).outcome().await)
    }

    fn clock(&self) -> Clock {
        self.locks.first().map_or(Clock::System, |lock| lock.handle.shared.clock)
    }
}

/// Whether a server that answered so may answer otherwise a little later.
fn passes(error: &Error) -> bool {
    matches!(
        error,
        Error::Transport { .. } | Error::Refused { .. } | Error::Durability { .. } | Error::Timeout { .. }
    )
}

impl fmt::Debug for RedLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers: Vec<_> = self.locks.iter().map(|lock| &lock.handle.server).collect();
        f.debug_struct("RedLock")
            .field("name", &name(self.name()))
            .field("servers", &servers)
            .finish_non_exhaustive()
    }
}
