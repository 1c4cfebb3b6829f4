//! Acquiring the lock, for as long as it is wanted.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rlock_client::{Any, Client, Error as ClientError, Event as ClientEvent, Guard, Waiting};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::event::{Event, LockEvent};
use super::nesting::{self, Hold};
use super::request::{Request, Wait};
use super::timing::RENEWALS;
use crate::clock::Moment;
use crate::error::Error;
use crate::names;
use crate::server::{Look, PATIENCE, connect, explain, primaries};

/// Why the lock was not acquired.
enum Missed {
    /// The time is over; with the reason where that is not another holder.
    Late(Option<Error>),
    /// The request itself failed.
    Failed(Error),
}

impl From<Error> for Missed {
    fn from(error: Error) -> Missed {
        Missed::Failed(error)
    }
}

/// How long a wait without a limit tries to reach the server at its start: longer than a fail-over.
const FIRST_CONTACT: Duration = Duration::from_secs(60);

/// The pause between two tries.
const RETRY: Duration = Duration::from_millis(250);

/// The client in use, once there is one.
pub(super) type Slot = Arc<Mutex<Option<Client>>>;

/// Why the last renewal failed, until one succeeds.
pub(super) type Failure = Arc<Mutex<Option<Error>>>;

/// The task that acquires the lock.
pub(super) struct Work {
    pub(super) request: Request,
    pub(super) client: Slot,
    pub(super) failure: Failure,
    pub(super) events: Sender<Event>,
}

impl Work {
    pub(super) async fn run(mut self) {
        let event = match self.acquire().await {
            Ok(guard) => LockEvent::Held(guard),
            Err(Missed::Late(why)) => LockEvent::NotAcquired(why),
            Err(Missed::Failed(error)) => LockEvent::Failed(error),
        };
        self.tell(event);
    }

    fn tell(&self, event: LockEvent) {
        // A guard without a receiver is dropped, and thereby released.
        let _ = self.events.send(Event::Lock(event));
    }

    /// Waits for the lock as long as wanted, also for the server.
    async fn acquire(&mut self) -> Result<Guard<Any>, Missed> {
        let start = Moment::now();
        let mut client = self.reach(start).await?;
        if self.leads_to_cluster().await {
            client = self.connect(Waiting::Queue).await?;
        }
        self.check_nesting(&client).await?;
        if self.request.wait == Wait::No {
            return self.try_acquire(&client, start).await;
        }
        match self.wait_for_lock(&client, start).await {
            // The user may not subscribe; any other missing permission fails again below.
            Err(ClientError::Permission { .. }) => {}
            outcome => return outcome.map_err(|error| self.missed(&error)),
        }
        let client = self.connect(Waiting::Polling).await?;
        match self.try_acquire(&client, start).await {
            Err(Missed::Late(_)) => {}
            outcome => return outcome,
        }
        self.tell(LockEvent::Polling);
        self.wait_for_lock(&client, start).await.map_err(|error| self.missed(&error))
    }

    /// Connects. A server that is out of reach is waited for as long as for the lock; without a limit, since its address may
    /// be wrong, for [`FIRST_CONTACT`].
    async fn reach(&self, start: Moment) -> Result<Client, Error> {
        let limit = match self.request.wait {
            Wait::No => return self.connect(Waiting::Queue).await,
            Wait::AtMost(wait) => wait,
            Wait::ForEver => FIRST_CONTACT,
        };
        let end = start.after(limit);
        let mut last: Option<Error> = None;
        loop {
            let mut error = match timeout(end.left(), self.connect(Waiting::Queue)).await {
                Ok(Err(error)) if error.passes() => error,
                Ok(outcome) => return outcome,
                Err(_) => {
                    return Err(last.unwrap_or_else(|| Error::no_reply(self.request.place.address(), limit)));
                }
            };
            let news = last.as_ref().is_none_or(|last| last.to_string() != error.to_string());
            if last.is_none() && !end.left().is_zero() {
                // A server that speaks another protocol will not do later either.
                let (place, text) = (self.request.place.clone(), error.to_string());
                let explained = timeout(end.left(), spawn_blocking(move || explain(&place, error))).await;
                error = match explained {
                    Ok(Ok(error)) => error,
                    _ => Error::NoAnswer { address: self.request.place.address(), cause: text },
                };
                if !error.passes() {
                    return Err(error);
                }
            }
            if news {
                self.tell(LockEvent::Unreachable(error.to_string()));
            }
            last = Some(error);
            sleep(RETRY.min(end.left())).await;
        }
    }

    async fn connect(&self, waiting: Waiting) -> Result<Client, Error> {
        let Request { place, key, timing, .. } = &self.request;
        let builder = Client::builder().lease(timing.lease).renewals_per_lease(RENEWALS).waiting(waiting);
        let (failure, address) = (self.failure.clone(), place.address());
        let builder = builder.on_event(move |event| {
            let failed = match event {
                ClientEvent::RenewalFailed { error, .. } => Some(Error::of_client(address.clone(), error)),
                ClientEvent::Renewed { .. } => None,
                _ => return,
            };
            *failure.lock().unwrap_or_else(PoisonError::into_inner) = failed;
        });
        let builder = match timing.session {
            Some(grace) => builder.session_grace(grace),
            None => builder,
        };
        let client = connect(place, Some(key), Look::IfAllowed, builder, timing.attempt()).await?;
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(client.clone());
        Ok(client)
    }

    /// A lock that a run around this one holds is not free before this run has ended.
    async fn check_nesting(&self, client: &Client) -> Result<(), Error> {
        let wanted = self.request.hold(b"");
        let around: Vec<Hold> = nesting::around().into_iter().filter(|hold| hold.excludes(&wanted)).collect();
        if around.is_empty() {
            return Ok(());
        }
        let info = match client.lock(&self.request.key).info().await {
            Ok(info) => Some(info),
            Err(ClientError::Permission { .. }) => None,
            // The request for the lock will show what is wrong.
            Err(_) => return Ok(()),
        };
        let held = around.iter().filter(|hold| hold.is_in(info.as_ref(), &wanted.server)).count();
        match held >= wanted.kind.most() {
            true => Err(Error::Nested { lock: names::shown(&self.request.key) }),
            false => Ok(()),
        }
    }

    /// A URL that names one node of a cluster is taken for the cluster: the lock may move to another node.
    async fn leads_to_cluster(&mut self) -> bool {
        let place = self.request.place.clone();
        let Some(cluster) = place.as_cluster() else { return false };
        let (answer, asked) = oneshot::channel();
        thread::spawn(move || answer.send(primaries::is_node(&place)));
        let node = asked.await.unwrap_or_default();
        if node {
            self.request.place = cluster;
        }
        node
    }

    /// Tries once. After a lost reply it retries until [`PATIENCE`] has passed since `start`, even without a wait.
    async fn try_acquire(&self, client: &Client, start: Moment) -> Result<Guard<Any>, Missed> {
        let lock = self.request.lock(client);
        loop {
            match lock.try_acquire().await {
                Err(ClientError::Transport { .. }) if !start.after(PATIENCE).left().is_zero() => {}
                outcome => return outcome.map_err(|error| self.missed(&error)),
            }
        }
    }

    async fn wait_for_lock(&self, client: &Client, start: Moment) -> Result<Guard<Any>, ClientError> {
        let lock = self.request.lock(client);
        match self.request.wait {
            Wait::AtMost(wait) => lock.acquire_timeout(start.after(wait).left()).await,
            Wait::No | Wait::ForEver => lock.acquire().await,
        }
    }

    fn missed(&self, error: &ClientError) -> Missed {
        let cause = Error::of_client(self.request.place.address(), error);
        match error {
            ClientError::Denied { .. } | ClientError::Timeout { source: None, .. } => Missed::Late(None),
            // A job must not take an outage for another holder.
            ClientError::Timeout { .. } if !error.is_unreachable() => Missed::Late(Some(cause)),
            _ => Missed::Failed(cause),
        }
    }
}
