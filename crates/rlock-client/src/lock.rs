//! A lock by its name.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::sync::OwnedMutexGuard;
use tracing::Instrument;

use crate::acquire::{Attempt, Order, Step};
use crate::client::Handle;
use crate::clock::Moment;
use crate::command::{self, check_lease};
use crate::config::Durability;
use crate::error::{Error, name};
use crate::exchange::{Manner, Trouble, exchange_one};
use crate::guard::{Guard, Held};
use crate::info::Info;
use crate::message::Party;
use crate::wait;

/// A lock by its name, and how it is to be acquired. Cheap to make and to clone; made by
/// [`Client::lock`](crate::Client::lock).
///
/// Every acquisition has an owner of its own, so two tasks with one `Lock` exclude each other.
#[derive(Clone)]
pub struct Lock {
    handle: Arc<Handle>,
    key: Vec<u8>,
    owner: Option<Vec<u8>>,
    lease: Option<Duration>,
    wait: Option<Duration>,
    durability: Durability,
}

/// How long to wait.
#[derive(Clone, Copy)]
enum Patience {
    None,
    /// For ever where there is no moment.
    Until(Option<Moment>),
}

impl Lock {
    pub(crate) fn new(handle: Arc<Handle>, key: Vec<u8>) -> Lock {
        let config = &handle.shared.config;
        let (lease, wait, durability) = (config.lease, config.wait, config.durability);
        Lock { handle, key, owner: None, lease, wait, durability }
    }

    /// Sets a lease: the lock ends so long after it was acquired, and is not renewed. From 1 ms to 2^43 ms.
    ///
    /// Without a lease the lock is renewed until it is given back.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Lock {
        self.lease = Some(lease);
        self
    }

    /// Limits how long [`Lock::lock`] and [`Lock::run`] wait. Without a limit they wait for ever.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Lock {
        self.wait = Some(wait);
        self
    }

    /// Sets how many replicas must have the lock before it is handed out.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Lock {
        self.durability = durability;
        self
    }

    /// Names the owner, 1 to 512 bytes, instead of a new one for each acquisition.
    ///
    /// Within this client, acquiring the lock while the owner holds it enters it again. A process that was
    /// restarted takes up the holds of its predecessor. No two clients may use one owner at a time: the server
    /// cannot tell them apart.
    #[must_use]
    pub fn owner(mut self, owner: impl AsRef<[u8]>) -> Lock {
        self.owner = Some(owner.as_ref().to_vec());
        self
    }

    /// The lock's name.
    pub fn name(&self) -> &[u8] {
        &self.key
    }

    /// Acquires the lock if it is free now; `None` where somebody else holds it.
    ///
    /// Dropping the future gives back whatever it may have been granted.
    ///
    /// # Errors
    ///
    /// All but [`Error::Timeout`]; [`Error::Transport`] after two response timeouts without an answer.
    pub async fn try_lock(&self) -> Result<Option<Guard>, Error> {
        self.acquire(Patience::None).await
    }

    /// Acquires the lock, waiting as long as it takes, or as [`Lock::wait`] says.
    ///
    /// Waits also while the server is out of reach. Dropping the future loses the place in the queue and never
    /// leaves a lock behind.
    ///
    /// # Errors
    ///
    /// Anything that waiting does not mend; [`Error::Timeout`] where a limit was set.
    pub async fn lock(&self) -> Result<Guard, Error> {
        match self.wait {
            Some(wait) => self.lock_timeout(wait).await,
            None => self.acquire_patiently(None).await,
        }
    }

    /// Acquires the lock, waiting for so long at most.
    ///
    /// # Errors
    ///
    /// As [`Lock::lock`]; [`Error::Timeout`] after that time.
    pub async fn lock_timeout(&self, wait: Duration) -> Result<Guard, Error> {
        let by = self.handle.shared.clock.now().after(wait);
        self.acquire_patiently(Some(by)).await
    }

    async fn acquire_patiently(&self, by: Option<Moment>) -> Result<Guard, Error> {
        let began = self.handle.shared.clock.now();
        let guard = self.acquire(Patience::Until(by)).await?;
        // Only an owner whose turn never came leaves without a guard or an error of its own.
        guard.ok_or_else(|| Error::timeout(&self.key, self.handle.shared.clock.now().since(began)))
    }

    /// Runs `work` under the lock, and drops it when the lock is lost.
    ///
    /// `Ok` says that the lock was held from the beginning of the work to its end.
    ///
    /// # Errors
    ///
    /// As [`Lock::lock`], and [`Error::Lost`] when the work was dropped, or had ended only after the loss.
    pub async fn run<T, F>(&self, work: impl FnOnce(Held) -> F) -> Result<T, Error>
    where
        F: Future<Output = T>,
    {
        let guard = self.lock().await?;
        let value = tokio::select! {
            biased;
            why = guard.lost() => return Err(Error::lost(&self.key, why)),
            value = work(guard.held()) => value,
        };
        guard.check()?;
        match guard.unlock().await {
            // Our own clock says that it was held to the end of the work: what came of the release is no matter.
            Ok(()) | Err(Error::OutcomeUnknown { .. } | Error::Permission { .. }) => Ok(value),
            Err(Error::NotHeld { .. }) => Err(Error::lost(&self.key, crate::error::Lost::Taken)),
            Err(error) => Err(error),
        }
    }

    /// Whether anybody holds the lock.
    ///
    /// # Errors
    ///
    /// [`Error::Transport`] and the server's refusals.
    pub async fn is_locked(&self) -> Result<bool, Error> {
        Ok(self.info().await?.is_locked())
    }

    /// Whether this owner holds the lock.
    ///
    /// # Errors
    ///
    /// As [`Lock::is_locked`].
    pub async fn is_held_by(&self, owner: impl AsRef<[u8]>) -> Result<bool, Error> {
        Ok(self.hold_count(owner).await? > 0)
    }

    /// How many holds this owner has.
    ///
    /// # Errors
    ///
    /// As [`Lock::is_locked`].
    pub async fn hold_count(&self, owner: impl AsRef<[u8]>) -> Result<u64, Error> {
        Ok(self.info().await?.holds_of(owner.as_ref()))
    }

    /// What is left of the lease: `None` where nobody holds the lock, [`Duration::MAX`] where it has no end.
    ///
    /// # Errors
    ///
    /// As [`Lock::is_locked`].
    pub async fn remaining(&self) -> Result<Option<Duration>, Error> {
        Ok(self.info().await?.remaining())
    }

    /// Takes the lock away from whoever holds it; `false` where nobody did.
    ///
    /// The holder learns it from its next renewal and may be at work until then. Use this when you know that it is not.
    ///
    /// # Errors
    ///
    /// As [`Lock::is_locked`]. After [`Error::OutcomeUnknown`] it may have been done.
    pub async fn force_release(&self) -> Result<bool, Error> {
        match self.ask(command::about("RLOCK.FORCERELEASE", &self.key, None)).await? {
            Ok(value) => Ok(command::integer("RLOCK.FORCERELEASE", &value)? == Some(1)),
            Err(why) => Err(Error::unknown(&self.key, why)),
        }
    }

    async fn info(&self) -> Result<Info, Error> {
        match self.ask(command::about("RLOCK.INFO", &self.key, None)).await? {
            Ok(value) => Info::read(value),
            Err(why) => Err(Error::transport(why)),
        }
    }

    /// Asks the server; the inner error is a lost reply.
    async fn ask(&self, command: redis::Cmd) -> Result<Result<Value, String>, Error> {
        let shared = &self.handle.shared;
        shared.check_open()?;
        let by = shared.clock.now().after(shared.config.response());
        match exchange_one(shared, &self.key, command, Manner::by(Some(by))).await {
            Ok(reply) => reply.map(Ok).map_err(|refusal| refusal.error),
            Err(Trouble::Unsent(error)) => Err(error),
            Err(Trouble::Unanswered(why)) => Ok(Err(why)),
        }
    }

    async fn acquire(&self, patience: Patience) -> Result<Option<Guard>, Error> {
        let shared = &self.handle.shared;
        shared.check_open()?;
        self.lease.map_or(Ok(()), check_lease)?;
        let span = tracing::debug_span!("acquire", lock = %name(&self.key));
        async {
            match &self.owner {
                None => self.attempt(shared.new_owner(), None, patience).await,
                Some(owner) => self.acquire_as(owner, patience).await,
            }
        }
        .instrument(span)
        .await
    }

    /// Acquires the lock, or enters it again, as an owner that the user named.
    async fn acquire_as(&self, owner: &[u8], patience: Patience) -> Result<Option<Guard>, Error> {
        let shared = &self.handle.shared;
        let party = Party { key: self.key.clone(), owner: owner.to_vec() };
        let turn = shared.turns.of(&party);
        loop {
            let changed = turn.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let hold = turn.hold();
            if let Some(hold) = hold.as_ref().filter(|hold| hold.add_guard()) {
                let guard = Guard::new(self.handle.clone(), hold.clone());
                guard.claim().await?;
                return Ok(Some(guard));
            }
            let by = match patience {
                Patience::Until(by) => by,
                // A release under way is waited for, another's wait for the lock is not.
                Patience::None if hold.is_none() && turn.gate.try_lock().is_err() => return Ok(None),
                Patience::None => Some(shared.clock.now().after(shared.config.response())),
            };
            let gate = turn.gate.clone().lock_owned();
            let next = shared.clock.until(by, async {
                tokio::select! {
                    gate = gate => Some(gate),
                    () = changed => None,
                }
            });
            match next.await {
                None => return Ok(None),
                Some(None) => continue,
                Some(Some(gate)) => return self.attempt(owner.to_vec(), Some(gate), patience).await,
            }
        }
    }

    async fn attempt(
        &self,
        owner: Vec<u8>,
        turn: Option<OwnedMutexGuard<()>>,
        patience: Patience,
    ) -> Result<Option<Guard>, Error> {
        let shared = &self.handle.shared;
        let order = Order {
            party: Party { key: self.key.clone(), owner },
            lease: self.lease.unwrap_or(shared.config.watchdog),
            renewed: self.lease.is_none(),
            durability: self.durability,
        };
        let mut attempt = Attempt::new(self.handle.clone(), order, turn);
        match patience {
            Patience::None => {
                let by = shared.clock.now().after(shared.config.response().saturating_mul(2));
                wait::ask_once(attempt, by).await
            }
            Patience::Until(by) => match attempt.ask_in_queue(false, by).await {
                Step::Held(sent) if self.durability == Durability::None => Ok(Some(attempt.finish(sent))),
                step => wait::wait(attempt, step, by).await.map(Some),
            },
        }
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("name", &name(&self.key)).finish_non_exhaustive()
    }
}
