//! A lock of any kind, and how it is acquired.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tracing::Instrument;

use crate::acquire::{Attempt, Order, Step};
use crate::clock::Instant;
use crate::command::{Extras, check_grace, check_lease, check_permits};
use crate::config::Durability;
use crate::error::{Error, name};
use crate::events::Event;
use crate::guard::Guard;
use crate::handle::Handle;
use crate::kind::Any;
use crate::message::{Mode, Party};
use crate::wait;

/// How long to wait.
#[derive(Clone, Copy)]
pub(super) enum Patience {
    None,
    /// For ever where there is no moment.
    Until(Option<Instant>),
}

/// A lock's name and settings.
#[derive(Clone)]
pub(crate) struct Spec {
    pub(crate) handle: Arc<Handle>,
    pub(crate) key: Vec<u8>,
    pub(super) owner: Option<Vec<u8>>,
    pub(crate) lease: Duration,
    /// Whether it is renewed every third of the lease.
    pub(crate) renew: bool,
    pub(crate) wait: Option<Duration>,
    pub(super) durability: Durability,
    pub(crate) mode: Mode,
    pub(crate) extras: Extras,
}

impl Spec {
    /// The lock with this name, as the client's settings have it.
    pub(crate) fn new(handle: Arc<Handle>, key: Vec<u8>) -> Spec {
        let config = &handle.shared.config;
        let (lease, wait, durability) = (config.lease, config.wait, config.durability);
        let (mode, session) = (Mode::Plain, config.session_grace);
        let extras = Extras { session, ..Extras::default() };
        Spec { handle, key, owner: None, lease, renew: true, wait, durability, mode, extras }
    }

    /// The semaphore with this name.
    pub(crate) fn semaphore(handle: Arc<Handle>, key: Vec<u8>, permits: u32) -> Spec {
        let spec = Spec::new(handle, key);
        let extras = Extras { permits: Some(permits), ..spec.extras };
        Spec { mode: Mode::Permit, extras, ..spec }
    }

    /// An owner of this lock.
    pub(super) fn party(&self, owner: &[u8]) -> Party {
        Party { key: self.key.clone(), owner: owner.to_vec(), mode: self.mode }
    }

    /// Acquires the lock if it is free now.
    pub(crate) async fn acquire_now(&self) -> Result<Guard<Any>, Error> {
        self.acquire(Patience::None).await?.ok_or_else(|| Error::denied(&self.key))
    }

    /// Acquires the lock, and waits for `wait` at most, or for ever.
    pub(crate) async fn acquire_within(&self, wait: Option<Duration>) -> Result<Guard<Any>, Error> {
        let by = wait.map(|wait| self.handle.shared.clock.now().after(wait));
        // Only an owner whose turn never came leaves without a guard or an error of its own.
        let late = || Error::timeout(&self.key, wait.unwrap_or_default(), None);
        self.acquire(Patience::Until(by)).await?.ok_or_else(late)
    }

    /// Reports that an acquisition failed. Only for an acquisition of the user: its rounds and parts are not reported.
    pub(crate) fn tell_outcome<T>(&self, outcome: Result<T, Error>) -> Result<T, Error> {
        outcome.inspect_err(|error| self.tell_failure(error))
    }

    /// Raises the event of an acquisition that was denied or has timed out.
    pub(crate) fn tell_failure(&self, error: &Error) {
        match *error {
            Error::Denied { .. } => self.handle.shared.tell(Event::Denied { lock: &self.key }),
            Error::Timeout { waited, .. } => {
                self.handle.shared.tell(Event::TimedOut { lock: &self.key, waited });
            }
            _ => (),
        }
    }

    pub(super) async fn acquire(&self, patience: Patience) -> Result<Option<Guard<Any>>, Error> {
        let shared = &self.handle.shared;
        shared.check_open()?;
        crate::config::check_name(&self.key)?;
        check_lease(self.lease)?;
        self.extras.permits.map_or(Ok(()), check_permits)?;
        self.extras.session.map_or(Ok(()), check_grace)?;
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
    async fn acquire_as(&self, owner: &[u8], patience: Patience) -> Result<Option<Guard<Any>>, Error> {
        let shared = &self.handle.shared;
        let party = self.party(owner);
        let turn = self.handle.turns.of(&party);
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
            if let Some(hold) = hold.as_ref().filter(|hold| hold.guards() > 0) {
                // The turn ends with the last guard of what was lost, and the caller may be the one that has it.
                hold.check()?;
            }
            let by = match patience {
                Patience::Until(by) => by,
                // A release under way is waited for, another's wait for the lock is not.
                Patience::None if hold.is_none() && turn.gate.try_lock().is_err() => return Ok(None),
                Patience::None => Some(shared.answer_by(&self.key)),
            };
            let next = shared.clock.until(by, async {
                tokio::select! {
                    gate = turn.take() => Ok(Some(gate)),
                    () = changed => Ok(None),
                    () = shared.closing.cancelled() => Err(Error::Closed),
                }
            });
            match next.await {
                None => return Ok(None),
                Some(Ok(None)) => continue,
                Some(Err(closed)) => return Err(closed),
                Some(Ok(Some(gate))) => return self.attempt(owner.to_vec(), Some(gate), patience).await,
            }
        }
    }

    pub(super) async fn attempt(
        &self,
        owner: Vec<u8>,
        turn: Option<OwnedMutexGuard<()>>,
        patience: Patience,
    ) -> Result<Option<Guard<Any>>, Error> {
        let shared = &self.handle.shared;
        let order = Order {
            party: Arc::new(self.party(&owner)),
            lease: self.lease,
            renewed: self.renew,
            extras: self.extras,
            durability: self.durability,
        };
        let mut attempt = Attempt::new(self.handle.clone(), order, turn);
        match patience {
            Patience::None => wait::ask_once(attempt, shared.answer_by(&self.key)).await,
            Patience::Until(by) => match attempt.ask_in_queue(false, by).await {
                Step::Held(sent) if self.durability == Durability::None => Ok(Some(attempt.finish(sent))),
                step => wait::wait(attempt, step, by).await.map(Some),
            },
        }
    }
}
