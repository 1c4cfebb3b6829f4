//! The lock: acquired, renewed and released by the client crate, on a thread of its own.
//!
//! The thread that watches the command must never wait for a server.

use std::ffi::OsString;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rlock_client::{Any, Client, Error as ClientError, Event as ClientEvent, Guard, Held, Lock, Waiting};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, timeout};

use super::Event;
use super::kind::Kind;
use super::nesting::{self, Hold};
use super::progress::Seen;
use super::timing::{RENEWALS, Timing};
use crate::clock::Moment;
use crate::error::Error;
use crate::names;
use crate::server::{Look, PATIENCE, Place, connect, explain, runtime, servers};

/// How long to wait for the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    No,
    AtMost(Duration),
    ForEver,
}

/// News from the keeper.
#[derive(Debug)]
pub(super) enum LockEvent {
    /// The lock is held.
    Held(Guard<Any>),
    /// Other owners held it for the whole wait, or the server says why it gives no locks now.
    NotAcquired(Option<Error>),
    /// The request itself failed.
    Failed(Error),
    /// There is no contact to the server yet.
    Unreachable(Error),
    /// This user may not subscribe to messages: rlock polls the lock.
    Polling,
    /// What the server says about the wait, if anything.
    Seen(Option<Seen>),
    /// The lock may be lost: check it.
    Changed,
}

/// The outcome of a release.
#[derive(Debug)]
pub(super) enum Release {
    /// The lock was held until its release.
    Done,
    /// The lock was lost before.
    NotHeld,
    /// The outcome is unknown: the hold ends with its lease at the latest.
    Unknown,
}

/// Which lock is wanted, and how.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) place: Place,
    pub(super) key: Vec<u8>,
    pub(super) timing: Timing,
    pub(super) wait: Wait,
    pub(super) kind: Kind,
    /// Whether the lock gets a fencing token.
    pub(super) fenced: bool,
}

impl Request {
    /// This lock as a hold of an owner.
    pub(super) fn hold(&self, owner: &[u8]) -> Hold {
        let (server, key) = (self.place.identity(), self.key.clone());
        Hold { owner: owner.to_vec(), kind: self.kind, server, key }
    }

    fn lock(&self, client: &Client) -> Lock<Any> {
        self.kind.lock(client, &self.key, self.fenced)
    }
}

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
const RETRY: Duration = Duration::from_millis(100);

/// How long the end of the process may wait for the server.
const GOODBYE: Duration = Duration::from_secs(1);

/// The client in use, once there is one.
type Slot = Arc<Mutex<Option<Client>>>;

/// Why the last renewal failed, until one succeeds.
type Failure = Arc<Mutex<Option<Error>>>;

/// Keeps one lock.
pub(super) struct Keeper {
    runtime: &'static Runtime,
    work: JoinHandle<()>,
    client: Slot,
    failure: Failure,
    request: Request,
    events: Sender<Event>,
}

impl Keeper {
    /// Begins to acquire the lock; the outcome arrives as an event.
    pub(super) fn start(request: Request, events: Sender<Event>) -> Result<Keeper, Error> {
        let runtime = runtime()?;
        let (client, failure) = (Slot::default(), Failure::default());
        let work = Work {
            request: request.clone(),
            client: client.clone(),
            failure: failure.clone(),
            events: events.clone(),
        };
        let work = runtime.spawn(work.run());
        Ok(Keeper { runtime, work, client, failure, request, events })
    }

    /// Why the server cannot be asked now, if so.
    pub(super) fn trouble(&self) -> Option<Error> {
        let client = client_of(&self.client)?;
        let error = client.lock(&self.request.key).connected().err()?;
        Some(Error::of_client(self.request.place.address(), &error))
    }

    /// Why the lock is not renewed: the server answers with an error, cannot be asked, or is silent.
    pub(super) fn failure(&self) -> String {
        let refused = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let trouble = self.trouble();
        let why = trouble.as_ref().or(refused.as_ref());
        why.map_or_else(|| "the server has not answered".to_string(), Error::to_string)
    }

    /// Asks for the holders and waiters of the lock; the answer arrives as an event.
    pub(super) fn look(&self) {
        let Some(client) = client_of(&self.client) else { return };
        let (events, key) = (self.events.clone(), self.request.key.clone());
        self.runtime.spawn(async move {
            let info = client.lock(key).info().await;
            let seen = info.ok().map(|info| Seen::new(&info, client.identity()));
            let _ = events.send(Event::Lock(LockEvent::Seen(seen)));
        });
    }

    /// The variables that show runs inside the command which lock is held.
    pub(super) fn variables(&self, guard: &Guard<Any>) -> Vec<(OsString, OsString)> {
        vec![(nesting::VARIABLE.into(), nesting::with(&self.request.hold(guard.owner())))]
    }

    /// From now on sends an event when the lock is lost.
    pub(super) fn watch(&self, held: Held) {
        let events = self.events.clone();
        self.runtime.spawn(async move {
            held.lost().await;
            // The receiver is gone only when the process is about to end.
            let _ = events.send(Event::Lock(LockEvent::Changed));
        });
    }

    /// Releases the lock, and returns the outcome. Retries until the hold has ended, for at most [`PATIENCE`].
    pub(super) fn release(&self, guard: Guard<Any>) -> Release {
        let outcome = self.runtime.block_on(async { timeout(PATIENCE, guard.release()).await });
        self.end();
        match outcome {
            Ok(Ok(())) => Release::Done,
            Ok(Err(ClientError::LockLost { .. })) => Release::NotHeld,
            Ok(Err(_)) | Err(_) => Release::Unknown,
        }
    }

    /// Leaves the queue, or releases a lock that was granted at this very moment.
    pub(super) fn abandon(&self) {
        self.work.abort();
        self.end();
    }

    /// Sends what is left to be sent, but does not insist: the server notices when this process is gone.
    fn end(&self) {
        if let Some(client) = client_of(&self.client) {
            let _ = self.runtime.block_on(client.close(GOODBYE));
        }
    }
}

fn client_of(slot: &Slot) -> Option<Client> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

struct Work {
    request: Request,
    client: Slot,
    failure: Failure,
    events: Sender<Event>,
}

impl Work {
    async fn run(mut self) {
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
        let mut told = String::new();
        loop {
            let outcome = timeout(end.left(), self.connect(Waiting::Queue)).await;
            let mut error = match outcome {
                Ok(Err(error)) if error.passes() => error,
                Ok(outcome) => return outcome,
                Err(_) => return Err(Error::no_reply(self.request.place.address(), limit)),
            };
            if end.left() <= RETRY {
                return Err(error);
            }
            if told.is_empty() {
                // A server that speaks another protocol will not do later either.
                let place = self.request.place.clone();
                let explained = spawn_blocking(move || explain(&place, error)).await;
                error = explained.map_err(|cause| Error::System {
                    what: "an internal task failed",
                    cause: cause.into(),
                })?;
                if !error.passes() {
                    return Err(error);
                }
            }
            let text = error.to_string();
            if text != told {
                told = text;
                self.tell(LockEvent::Unreachable(error));
            }
            sleep(RETRY).await;
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
        thread::spawn(move || answer.send(servers::is_node(&place)));
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
