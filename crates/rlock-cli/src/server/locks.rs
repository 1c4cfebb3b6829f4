//! Reading and changing locks by the client crate.

use std::future::pending;
use std::sync::OnceLock;
use std::time::Duration;

use rlock_client::{Builder, Client, Error as ClientError, Lock};
use tokio::runtime::{Builder as RuntimeBuilder, Runtime};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::link::SUSPICIOUS;
use super::target::parted;
use super::{LockInfo, PATIENCE, Place, Target, protocol};
use crate::clock::Moment;
use crate::error::Error;

/// Reads and changes locks now and then, for code that is not async.
pub(crate) struct Locks {
    runtime: &'static Runtime,
    client: Client,
    address: String,
}

impl Locks {
    /// Connects to the server that has the lock `key`.
    pub(crate) fn with(place: &Place, key: &[u8]) -> Result<Locks, Error> {
        Locks::open(place, Some(key))
    }

    /// Connects to one server, whichever locks it has.
    pub(crate) fn on(target: Target) -> Result<Locks, Error> {
        Locks::open(&Place::only(target), None)
    }

    fn open(place: &Place, key: Option<&[u8]>) -> Result<Locks, Error> {
        let runtime = runtime()?;
        let client = runtime.block_on(connect(place, key, Look::Required, Client::builder(), PATIENCE))?;
        Ok(Locks { runtime, client, address: place.address() })
    }

    /// The holders of a lock, its lease, and its waiters.
    pub(crate) fn info(&self, key: &[u8]) -> Result<LockInfo, Error> {
        let info = self.wait_for(self.client.lock(key).info())?;
        Ok(LockInfo::new(key, info))
    }

    /// As [`Locks::info`], of those of the keys that are locks and are here; asked for all at once.
    pub(crate) fn infos(&self, keys: &[Vec<u8>]) -> Result<Vec<LockInfo>, Error> {
        let locks: Vec<Lock> = keys.iter().map(|key| self.client.lock(key)).collect();
        let _entered = self.runtime.enter();
        let questions: Vec<_> =
            locks.into_iter().map(|lock| tokio::spawn(async move { lock.info().await })).collect();
        let mut found = Vec::new();
        for (key, question) in keys.iter().zip(questions) {
            match self.runtime.block_on(question) {
                Ok(Ok(info)) => found.push(LockInfo::new(key, info)),
                // Not a lock after all, or it moved to another node of the cluster, which is asked as well.
                Ok(Err(ClientError::NotALock { .. })) => {}
                Ok(Err(error)) if moved(&error).is_some() => {}
                Ok(Err(error)) => return Err(self.error(&error)),
                Err(cause) => {
                    return Err(Error::System { what: "an internal task failed", cause: cause.into() });
                }
            }
        }
        Ok(found)
    }

    /// Whether there is a connection to the lock's server, without asking.
    pub(crate) fn connected(&self, key: &[u8]) -> Result<(), Error> {
        self.client.lock(key).connected().map_err(|error| self.error(&error))
    }

    /// Releases all holds of an owner; `false` if it has no hold.
    pub(crate) fn release_all_of(&self, key: &[u8], owner: &[u8]) -> Result<bool, Error> {
        self.wait_for(self.client.lock(key).release_all_of(owner))
    }

    /// Releases the lock by force, from this owner only if one is named; `false` if nothing was released.
    pub(crate) fn force_release(&self, key: &[u8], owner: Option<&[u8]>) -> Result<bool, Error> {
        let lock = self.client.lock(key);
        match owner {
            Some(owner) => self.wait_for(lock.force_release_of(owner)),
            None => self.wait_for(lock.force_release()),
        }
    }

    fn wait_for<T>(&self, answer: impl Future<Output = Result<T, ClientError>>) -> Result<T, Error> {
        self.runtime.block_on(answer).map_err(|error| self.error(&error))
    }

    fn error(&self, error: &ClientError) -> Error {
        Error::of_client(self.address.clone(), error)
    }
}

/// The threads of all clients, until the process ends: dropping a runtime would wait for its look-ups of host names.
pub(crate) fn runtime() -> Result<&'static Runtime, Error> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let runtime = RuntimeBuilder::new_multi_thread()
        .worker_threads(1)
        .thread_name("lock")
        .enable_all()
        .build()
        .map_err(|cause| Error::System { what: "cannot start a thread for the lock", cause })?;
    Ok(RUNTIME.get_or_init(|| runtime))
}

/// Whether a user must be allowed to read a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    Required,
    /// A user that may not use RLOCK.INFO can still connect.
    IfAllowed,
}

/// Connects a client to the server that has the lock `key`, if one is named. The server must have the module.
///
/// An attempt may take as long as `attempt`; a slower one is repeated until [`PATIENCE`] is over.
/// A node of a cluster leads to the others.
pub(crate) async fn connect(
    place: &Place,
    key: Option<&[u8]>,
    look: Look,
    builder: Builder,
    attempt: Duration,
) -> Result<Client, Error> {
    let builder = place.certificates.of(builder.response_timeout(attempt));
    let last = Moment::now().after(PATIENCE).before(attempt);
    let mut cluster = None;
    loop {
        let place = cluster.as_ref().unwrap_or(place);
        let began = Moment::now();
        let outcome = tokio::select! {
            outcome = reach(place, key, look, builder.clone()) => outcome,
            error = wrong_protocol(place) => return Err(error),
        };
        let error = match outcome {
            Ok(client) => return Ok(client),
            Err(error) => error,
        };
        let now = Moment::now();
        let silent = match &error {
            ClientError::Transport { server, .. } if now.since(began) >= attempt => Some(server.clone()),
            _ => None,
        };
        match (moved(&error).filter(|_| cluster.is_none()), silent) {
            (Some((host, port)), _) => cluster = place.cluster_by(&host, port),
            (None, Some(_)) if now < last => {}
            (None, Some(server)) => return Err(Error::no_reply(server, PATIENCE)),
            (None, None) => return Err(Error::of_client(place.address(), &error)),
        }
    }
}

async fn reach(
    place: &Place,
    key: Option<&[u8]>,
    look: Look,
    builder: Builder,
) -> Result<Client, ClientError> {
    let client = builder.connect(&place.url).await?;
    let Some(key) = key else { return Ok(client) };
    match client.lock(key).info().await {
        Err(ClientError::Permission { message })
            if look == Look::IfAllowed && message.contains("'rlock.info'") => {}
        outcome => drop(outcome?),
    }
    Ok(client)
}

/// A server that is slow to answer may wait for another protocol: the reason, if so; else this never ends.
async fn wrong_protocol(place: &Place) -> Error {
    sleep(SUSPICIOUS).await;
    let starts = place.starts.clone();
    let asked = spawn_blocking(move || starts.iter().find_map(protocol::wrong_protocol));
    match asked.await {
        Ok(Some(error)) => error,
        _ => pending().await,
    }
}

/// Which other node a node of a cluster names. An empty host is the one that was asked.
fn moved(error: &ClientError) -> Option<(String, u16)> {
    let ClientError::Refused { message } = error else { return None };
    let mut words = message.split(' ');
    match (words.next(), words.next(), words.next()) {
        (Some("MOVED"), Some(_slot), Some(address)) => parted(address),
        _ => None,
    }
}
