//! One lock on several servers that know nothing of each other.

mod apart;
mod attempt;
mod guard;
mod members;

use std::fmt;
use std::time::Duration;

use rlock_client::lockable::Lockable;
use rlock_client::{Client, Error, Lock, acquiring};
use tokio::time::{Instant, sleep};

use crate::name;
use apart::check_apart;
use attempt::{Attempt, Outcome};
pub use guard::{RedGuard, RedHeld};

/// An attempt fails after the lease divided by this …
const PART: u32 = 20;

/// … at least this …
const SHORTEST: Duration = Duration::from_millis(20);

/// … and at most this.
const LONGEST: Duration = Duration::from_secs(1);

/// The longest pause after the first attempt that failed; each next may be twice as long …
const FIRST_PAUSE: Duration = Duration::from_millis(25);

/// … up to this.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// A lock on several independent servers. Its holder is the owner that has it on more than half of them.
///
/// It survives the loss of any minority of the servers, at once and without a fail-over. The servers must be
/// independent: primaries without a common primary, an odd number, usually five. (A replica is not independent of its
/// primary; for one primary and its replicas see [`Durability`](rlock_client::Durability).)
///
/// An attempt asks all servers at the same time, each with a new owner. It fails unless more than half of them grant
/// the lock within a twentieth of the lease (between 20 ms and 1 s). After a failure it releases what it got, also
/// where the reply was lost, and retries after a random pause. There is no queue: the first to come may be the last
/// to acquire.
///
/// A hold counts from the sending of each request, less 1 % and 2 ms for clocks of different speed. It is renewed on
/// each server separately, and is lost when more than half of the servers can no longer have it. Servers that lost
/// it, or did not have it at first, are asked again: after 50 ms, then less and less often, at last every third of the lease.
///
/// # What it does not guarantee
///
/// Two owners can hold it at once, each in good faith, if:
///
/// * a process is paused between [`RedHeld::check`] and the next step for longer than the lease. No lock with a lease
///   prevents that; only the protected resource can, if it refuses the late one: by a fencing token, or by a version
///   number that each write raises. This lock has no tokens, because its servers do not count together;
/// * the clocks of servers run faster than the client's by more than 1 %, or step: each server ends leases by its own
///   wall clock;
/// * a server restarts without its memory: with `appendonly` off, or with any `appendfsync` except `always`. After a
///   crash, keep that server down for the longest lease;
/// * clients do not agree on the servers. All must name the same ones.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), rlock_client::Error> {
/// # let servers = [(); 3].map(|()| rlock_testkit::TestServer::start());
/// # let urls = servers.iter().map(|server| format!("redis://127.0.0.1:{}", server.port()));
/// use rlock_client::{Client, Error};
/// use rlock_multi::RedLock;
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
#[must_use = "a lock does nothing until it is acquired: `let guard = lock.acquire().await?`"]
#[derive(Clone)]
pub struct RedLock {
    /// A lock for each server, all with one name.
    locks: Vec<Lock>,
    /// Whether the locks are renewed.
    renew: bool,
    wait: Option<Duration>,
}

acquiring!(RedLock, RedGuard, RedHeld);

impl Lockable for RedLock {
    type Guard = RedGuard;

    fn limit(&self) -> Option<Duration> {
        self.wait
    }

    async fn now(self) -> Result<RedGuard, Error> {
        match self.attempt().await? {
            Outcome::Held(guard) => Ok(guard),
            Outcome::Denied => Err(Error::Denied { lock: name(self.name()) }),
            Outcome::Failed(errors) => Err(errors.into_iter().next().unwrap_or(Error::Closed)),
        }
    }

    async fn within(self, limit: Option<Duration>) -> Result<RedGuard, Error> {
        let began = Instant::now();
        let left = || limit.map_or(Duration::MAX, |limit| limit.saturating_sub(began.elapsed()));
        let mut pause = FIRST_PAUSE;
        loop {
            let cause = match self.attempt().await? {
                Outcome::Held(guard) => return Ok(guard),
                Outcome::Denied => None,
                Outcome::Failed(errors) => {
                    let first = errors.first().cloned();
                    let lasting: Vec<_> = errors.into_iter().filter(|error| !passes(error)).collect();
                    if lasting.len() > self.locks.len().saturating_sub(self.quorum()) {
                        return lasting.into_iter().next().map_or(Err(Error::Closed), Err);
                    }
                    first
                }
            };
            // Random: two attempts that were in each other's way should not meet again.
            sleep(pause.mul_f64(fastrand::f64()).min(left())).await;
            if left().is_zero() {
                let (lock, waited) = (name(self.name()), began.elapsed());
                return Err(Error::Timeout { lock, waited, source: cause.map(Box::new) });
            }
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        }
    }
}

impl RedLock {
    /// The lock with this name on the servers of these clients.
    ///
    /// The shortest lease and the shortest wait of the clients count. Make the clients with
    /// [`Builder::connect_lazy`](rlock_client::Builder::connect_lazy): the program can start while one server is down.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if there is no client, or two have the same address. One server by two addresses is
    /// detected when you acquire the lock.
    pub fn new<'a>(
        clients: impl IntoIterator<Item = &'a Client>,
        name: impl AsRef<[u8]>,
    ) -> Result<RedLock, Error> {
        let locks: Vec<Lock> = clients.into_iter().map(|client| client.lock(&name)).collect();
        if locks.is_empty() {
            let message = "a red lock needs at least one server, and should have five".into();
            return Err(Error::Invalid { message });
        }
        let mut servers: Vec<&str> = locks.iter().map(Lock::server).collect();
        servers.sort_unstable();
        let twice = servers.windows(2).find(|pair| pair.first() == pair.last()).and_then(<[_]>::first);
        if let Some(twice) = twice {
            let message = format!("a red lock has the server {twice} twice: name each server once");
            return Err(Error::Invalid { message });
        }
        let wait = locks.iter().filter_map(Lockable::limit).min();
        Ok(RedLock { locks, renew: true, wait })
    }

    /// Sets the lease, instead of those of the clients. The lock is renewed every third of it until you release it. From
    /// 100 ms to 2^43 ms.
    pub fn lease(mut self, lease: Duration) -> RedLock {
        self.locks = self.locks.into_iter().map(|lock| lock.lease(lease)).collect();
        self
    }

    /// Sets whether the lock is renewed, as it is by default. With `renew(false)`, the lock ends with its lease
    /// ([`Lost::Expired`](rlock_client::Lost::Expired)).
    pub fn renew(mut self, renew: bool) -> RedLock {
        self.locks = self.locks.into_iter().map(|lock| lock.renew(renew)).collect();
        self.renew = renew;
        self
    }

    /// Limits how long [`RedLock::acquire`] and [`RedLock::run`] wait. Without a limit they wait for ever.
    pub fn wait(mut self, wait: Duration) -> RedLock {
        self.wait = Some(wait);
        self
    }

    /// The lock's name.
    pub fn name(&self) -> &[u8] {
        self.locks.first().map_or(&[], Lock::name)
    }

    /// The number of servers that must have the lock.
    pub fn quorum(&self) -> usize {
        (self.locks.len() / 2).saturating_add(1)
    }

    async fn attempt(&self) -> Result<Outcome, Error> {
        let lease = self.locks.iter().map(Lock::effective_lease).min().unwrap_or_default();
        let patience = (lease / PART).clamp(SHORTEST, LONGEST);
        check_apart(&self.locks, patience).await?;
        Ok(Attempt::begin(self).outcome(patience).await)
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
        let servers: Vec<_> = self.locks.iter().map(Lock::server).collect();
        f.debug_struct("RedLock")
            .field("name", &name(self.name()))
            .field("servers", &servers)
            .finish_non_exhaustive()
    }
}
