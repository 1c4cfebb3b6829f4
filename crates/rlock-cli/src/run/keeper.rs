//! The lock: acquired, renewed and released by the client crate, on a thread of its own.
//!
//! The thread that watches the command must never wait for a server.

use std::ffi::OsString;
use std::sync::PoisonError;
use std::sync::mpsc::Sender;
use std::time::Duration;

use rlock_client::{Any, Client, Error as ClientError, Guard, Held};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::event::{Event, LockEvent};
use super::nesting;
use super::request::Request;
use super::seen::Seen;
use super::work::{Failure, Slot, Work};
use crate::error::Error;
use crate::server::{PATIENCE, runtime};

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

/// How long the end of the process may wait for the server. A release that late requests could undo is repeated after 1 s.
const GOODBYE: Duration = Duration::from_millis(1_500);

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

    /// Releases the lock of a command that did not run, at once: an acquisition without `--at-least` adopts the hold.
    pub(super) fn release_fully(&self, guard: Guard<Any>) {
        let lock = client_of(&self.client).map(|client| self.request.lock(&client).at_least(Duration::ZERO));
        let Some(lock) = lock.filter(|_| !self.request.at_least.is_zero()) else {
            self.release(guard);
            return;
        };
        let given_back = async {
            let owner = guard.detach().await?.owner;
            lock.adopt(owner).await?.release().await
        };
        // Else the lock is free at its lease end.
        _ = self.runtime.block_on(async { timeout(PATIENCE, given_back).await });
        self.end();
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
