//! A lock of any kind, and how it is acquired.

use std::sync::Arc;
use std::time::Duration;

use rlock_machine::Input;
use tracing::Instrument;

use crate::acquisition::{Acquisition, Reentry, Terms};
use crate::command::{Extras, check_grace, check_lease, check_permits};
use crate::config::{Durability, check_name};
use crate::durability;
use crate::error::{Error, Lost, name};
use crate::events::Event;
use crate::guard::Guard;
use crate::handle::Handle;
use crate::kind::Any;
use crate::message::{Claim, Mode};

/// A lock's name and settings.
#[derive(Clone)]
pub(crate) struct Spec {
    pub(crate) handle: Arc<Handle>,
    pub(crate) key: Vec<u8>,
    pub(super) owner: Option<Vec<u8>>,
    pub(super) durability: Durability,
    pub(crate) mode: Mode,
    pub(crate) terms: Terms,
}

/// The caller of an acquisition. Dropped without a guard, it gives the acquisition up.
struct Caller {
    handle: Arc<Handle>,
    acquisition: Option<Arc<Acquisition>>,
}

impl Caller {
    /// Waits until the caller has the lock, on as many replicas as it wants; `None` if the lock was lost during the wait for replicas.
    async fn guard(mut self, durability: Durability) -> Result<Option<Guard<Any>>, Error> {
        let Some(acquisition) = &self.acquisition else { return Ok(None) };
        acquisition.settled().await?;
        match durability::ensure(acquisition, durability).await {
            Ok(true) => (),
            Ok(false) => return Ok(None),
            Err(error) => {
                // The next request of the caller must not find this hold.
                acquisition.release_now().await;
                return Err(error);
            }
        }
        acquisition.tell_acquired();
        Ok(self.acquisition.take().map(|acquisition| Guard::new(self.handle.clone(), acquisition)))
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        if let Some(acquisition) = self.acquisition.take() {
            acquisition.abandon();
        }
    }
}

impl Spec {
    /// The lock with this name, as the client's settings have it.
    pub(crate) fn new(handle: Arc<Handle>, key: Vec<u8>) -> Spec {
        let config = &handle.all.shared.config;
        let terms = Terms {
            lease: config.lease,
            renew: true,
            wait: config.wait,
            extras: Extras { session: config.session_grace, ..Extras::default() },
            named: false,
            confirm_first: false,
            at_least: Duration::ZERO,
            max_hold: None,
        };
        let durability = config.durability;
        Spec { handle, key, owner: None, durability, mode: Mode::Plain, terms }
    }

    /// The semaphore with this name.
    pub(crate) fn semaphore(handle: Arc<Handle>, key: Vec<u8>, permits: u32) -> Spec {
        let mut spec = Spec::new(handle, key);
        spec.terms.extras.permits = Some(permits);
        Spec { mode: Mode::Permit, ..spec }
    }

    /// The claim of an owner of this lock.
    pub(super) fn claim(&self, owner: &[u8]) -> Claim {
        Claim { key: self.key.clone(), owner: owner.to_vec(), mode: self.mode }
    }

    /// Acquires the lock if it is free now.
    pub(crate) async fn acquire_now(&self) -> Result<Guard<Any>, Error> {
        self.acquire(Some(Duration::ZERO)).await
    }

    /// Acquires the lock, and waits for `wait` at most, or for ever.
    pub(crate) async fn acquire_within(&self, wait: Option<Duration>) -> Result<Guard<Any>, Error> {
        let outcome = self.acquire(wait).await;
        if wait != Some(Duration::ZERO) {
            return outcome;
        }
        // A wait of no time is one request.
        match outcome {
            Err(Error::Denied { .. }) => Err(Error::timeout(&self.key, Duration::ZERO, None)),
            Err(error) if error.is_unreachable() => {
                Err(Error::timeout(&self.key, Duration::ZERO, Some(error)))
            }
            outcome => outcome,
        }
    }

    /// Reports that an acquisition failed.
    pub(crate) fn tell_outcome<T>(&self, outcome: Result<T, Error>) -> Result<T, Error> {
        outcome.inspect_err(|error| self.tell_failure(error))
    }

    /// Raises the event of an acquisition that was denied or has timed out.
    pub(crate) fn tell_failure(&self, error: &Error) {
        match *error {
            Error::Denied { .. } => self.handle.all.shared.tell(Event::Denied { lock: &self.key }),
            Error::Timeout { waited, .. } => {
                self.handle.all.shared.tell(Event::TimedOut { lock: &self.key, waited });
            }
            _ => (),
        }
    }

    /// Begins an acquisition; the error is another acquisition of this owner.
    fn begin(&self, owner: &[u8], wait: Option<Duration>) -> Result<Caller, Arc<Acquisition>> {
        let durable = !matches!(self.durability, Durability::None | Durability::Replicas(0));
        let named = self.owner.is_some();
        let confirm_first = named || durable || self.terms.confirm_first;
        let terms = Terms { wait, named, confirm_first, ..self.terms };
        let acquisition = Some(self.handle.all.begin(self.claim(owner), terms, Input::Start)?);
        Ok(Caller { handle: self.handle.clone(), acquisition })
    }

    /// Adopts the hold of an owner that another process has detached.
    pub(super) async fn adopt(&self, owner: &[u8]) -> Result<Guard<Any>, Error> {
        self.check()?;
        let terms = Terms { wait: Some(Duration::ZERO), named: true, ..self.terms };
        let begun = self.handle.all.begin(self.claim(owner), terms, Input::Adopt);
        let acquisition = begun.map_err(|_| {
            Error::invalid("this client has an acquisition of this owner under way: use its guard")
        })?;
        let caller = Caller { handle: self.handle.clone(), acquisition: Some(acquisition) };
        caller.guard(Durability::None).await?.ok_or_else(|| Error::lost(&self.key, Lost::Taken))
    }

    /// Acquires the lock beside another hold of this owner, if it is free now.
    pub(super) async fn acquire_beside(&self, owner: &[u8]) -> Result<Guard<Any>, Error> {
        match self.begin(owner, Some(Duration::ZERO)) {
            Ok(caller) => caller.guard(Durability::None).await?.ok_or_else(|| Error::denied(&self.key)),
            Err(_) => Err(Error::denied(&self.key)),
        }
    }

    pub(super) async fn acquire(&self, wait: Option<Duration>) -> Result<Guard<Any>, Error> {
        self.check()?;
        let span = tracing::debug_span!("acquire", lock = %name(&self.key));
        self.pursue(wait).instrument(span).await
    }

    fn check(&self) -> Result<(), Error> {
        self.handle.all.shared.check_open()?;
        check_name(&self.key)?;
        check_lease(self.terms.lease)?;
        self.terms.extras.permits.map_or(Ok(()), check_permits)?;
        self.terms.extras.session.map_or(Ok(()), check_grace)
    }

    /// Acquires the lock as an owner that was never used, or as the owner that the user named. A named owner has one acquisition at a
    /// time, which a later one re-enters.
    async fn pursue(&self, wait: Option<Duration>) -> Result<Guard<Any>, Error> {
        let shared = &self.handle.all.shared;
        let began = shared.clock.now();
        let is_once = wait.is_some_and(|wait| wait.is_zero());
        let by = wait.filter(|_| !is_once).map(|wait| began.after(wait));
        loop {
            shared.check_open()?;
            let left = by.map(|by| by.since(shared.clock.now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(Error::timeout(&self.key, shared.clock.now().since(began), None));
            }
            let owner = self.owner.clone().unwrap_or_else(|| shared.new_owner());
            let other = match self.begin(&owner, if is_once { wait } else { left }) {
                Ok(caller) => match caller.guard(self.durability).await? {
                    Some(guard) => return Ok(guard),
                    None if is_once => return Err(Error::denied(&self.key)),
                    None => continue,
                },
                Err(other) => other,
            };
            let reentry = other.reenter_named()?;
            if let Reentry::Entered = reentry {
                let guard = Guard::new(self.handle.clone(), other);
                return guard.claim().await.map(|()| guard);
            }
            let by = if is_once { Some(shared.router.answer_by(&self.key)) } else { by };
            let over = async {
                tokio::select! {
                    () = other.over(&reentry) => (),
                    () = shared.closing.cancelled() => (),
                }
            };
            // A release under way is waited for even then, another's wait for the lock is not.
            let is_over = !(is_once && matches!(reentry, Reentry::Awaits))
                && shared.clock.until(by, over).await.is_some();
            if is_once && !is_over {
                return Err(Error::denied(&self.key));
            }
        }
    }
}
