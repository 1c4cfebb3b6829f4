//! How the exporter is reached: TLS and logins, by the web configuration file that Prometheus' exporters share.
//!
//! Each new connection reads the certificates anew, and each request the users, as those exporters do: a new certificate and a new
//! password need no restart. The next request of a removed user is refused; an open connection keeps its TLS.

mod encryption;
mod file;
mod login;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::header::{AUTHORIZATION, HeaderMap};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::timeout;

use self::login::{Credentials, Verified};
use crate::error::Error;
use crate::output::Notes;

/// How long a request waits while the passwords of others are verified.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the start of TLS may take.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// A connection, with encryption or without.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// The web configuration.
pub(super) struct Web {
    /// Without a file each request is served, without encryption.
    path: Option<PathBuf>,
    verified: Arc<Verified>,
    /// For one password at a time: a client that guesses passwords takes one core at most.
    turn: Arc<Semaphore>,
    /// The last fault of each purpose that the log names.
    told: Mutex<BTreeMap<Purpose, String>>,
    notes: Notes,
}

/// The purpose of reading the files. A file can be good for one purpose and not for another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Purpose {
    Encryption,
    Users,
    Login,
}

/// The access that a request has.
pub(super) enum Access {
    Granted,
    /// The request has no login, or a wrong one.
    Denied,
    /// Too many passwords wait to be verified.
    Busy,
    /// The file has a fault, which the log names.
    Broken,
}

impl Web {
    /// The configuration in a file, which is read once to show its faults.
    pub(super) fn new(path: Option<&Path>, notes: Notes) -> Result<Web, Error> {
        Ok(Web {
            path: path.map(Path::to_path_buf),
            verified: Arc::new(Verified::new()?),
            turn: Arc::new(Semaphore::new(1)),
            told: Mutex::default(),
            notes,
        })
    }

    /// The scheme of the exporter's URLs now; an error if the files have a fault.
    pub(super) fn scheme(&self) -> Result<&'static str, Error> {
        let tls = self.path.as_deref().map(encryption::acceptor).transpose()?.flatten();
        Ok(if tls.is_some() { "https" } else { "http" })
    }

    /// Begins a connection; `None` where the client does not do what the file asks for, or not in time.
    pub(super) async fn open(&self, stream: TcpStream) -> Option<Box<dyn Stream>> {
        let Some(path) = self.path.clone() else { return Some(Box::new(stream)) };
        match self.noted(Purpose::Encryption, blocking(move || encryption::acceptor(&path)).await)? {
            None => Some(Box::new(stream)),
            Some(acceptor) => Some(Box::new(timeout(HANDSHAKE, acceptor.accept(stream)).await.ok()?.ok()?)),
        }
    }

    /// Whether a request with these headers is served.
    pub(super) async fn access(&self, headers: &HeaderMap) -> Access {
        let Some(path) = self.path.clone() else { return Access::Granted };
        let read = blocking(move || Ok(file::read(&path)?.users)).await;
        let Some(users) = self.noted(Purpose::Users, read) else { return Access::Broken };
        if users.is_empty() {
            return Access::Granted;
        }
        let Some(login) = headers.get(AUTHORIZATION).and_then(Credentials::read) else {
            return Access::Denied;
        };
        // Before the turn: a guessed password delays no user that has logged in before.
        if self.verified.knows(&users, &login) {
            return Access::Granted;
        }
        let Ok(Ok(turn)) = timeout(PATIENCE, self.turn.clone().acquire_owned()).await else {
            return Access::Busy;
        };
        let verified = self.verified.clone();
        let verify = move || {
            let _turn = turn;
            Ok(verified.admits(&users, &login))
        };
        match self.noted(Purpose::Login, blocking(verify).await) {
            Some(true) => Access::Granted,
            Some(false) => Access::Denied,
            None => Access::Broken,
        }
    }

    /// The value that was read; the log gets each new fault once.
    fn noted<T>(&self, purpose: Purpose, read: Result<T, Error>) -> Option<T> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        match &read {
            Ok(_) => _ = told.remove(&purpose),
            Err(error) => {
                let fault = format!("{error}\n  → {}", error.advice());
                // One fault can hinder several purposes.
                if !told.values().any(|known| *known == fault) {
                    self.notes.say(&fault);
                }
                told.insert(purpose, fault);
            }
        }
        read.ok()
    }
}

/// Reads files or computes beside the thread that serves.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let cause = |error: JoinError| Error::System { what: "a thread failed", cause: error.into() };
    spawn_blocking(work).await.map_err(cause)?
}
