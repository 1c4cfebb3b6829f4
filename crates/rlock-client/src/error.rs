//! What can go wrong, and what to do about it.

use std::time::Duration;

/// Every error of this crate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The wait ended without the lock.
    #[error(
        "the lock {lock} could not be had within {waited:?}; wait longer, or see who holds it: RLOCK.INFO {lock}"
    )]
    Timeout {
        /// The lock's name.
        lock: String,
        /// How long was waited.
        waited: Duration,
    },
    /// The lock was acquired and is held no longer.
    #[error("the lock {lock} was lost: {why}; stop the work that it protects, and check what that has done")]
    Lost {
        /// The lock's name.
        lock: String,
        /// Why.
        why: Lost,
    },
    /// A release found that the owner held nothing.
    #[error(
        "the lock {lock} was not held any more when it was released: its lease had ended or somebody took it away; check what the work has done since"
    )]
    NotHeld {
        /// The lock's name.
        lock: String,
    },
    /// A release was sent, and whether it found the lock held cannot be told.
    #[error(
        "whether the lock {lock} was still held when it was released is unknown ({cause}); it is free now or at the end of its lease"
    )]
    OutcomeUnknown {
        /// The lock's name.
        lock: String,
        /// What kept the answer from coming.
        cause: String,
    },
    /// The lock was acquired, too few replicas had it in time, and it was given back.
    #[error(
        "the lock {lock} was given back: {reached} of {wanted} replicas had it in time; see INFO replication, ask for fewer, or allow more time"
    )]
    Durability {
        /// The lock's name.
        lock: String,
        /// How many replicas should have it.
        wanted: usize,
        /// How many had it in time.
        reached: usize,
    },
    /// The server does not know the commands.
    #[error(
        "this server has no rlock module: start it with `loadmodule /path/to/librlock.so` in its configuration ({message})"
    )]
    ModuleNotLoaded {
        /// What the server said.
        message: String,
    },
    /// The user may not do this.
    #[error(
        "the server's access control forbids it: {message}; grant the user +@rlock (or the RLOCK commands by name), the locks' keys and, for waiting, +subscribe and &rlock:grants:*; in a cluster +cluster|slots, +asking and, for waiting, +ssubscribe; or wait by polling (Waiting::Polling)"
    )]
    Permission {
        /// What the server said.
        message: String,
    },
    /// As many wait as the server allows.
    #[error(
        "the queue of the lock {lock} is full ({message}); try again later, raise rlock.max-waiters or rlock.max-waiters-per-key on the server, or wait by polling (Waiting::Polling)"
    )]
    QueueFull {
        /// The lock's name.
        lock: String,
        /// What the server said.
        message: String,
    },
    /// The key holds something that is no lock.
    #[error("the key {lock} holds something else than a lock ({message}); choose another name")]
    NotALock {
        /// The lock's name.
        lock: String,
        /// What the server said.
        message: String,
    },
    /// The server refused, for a reason of its own: read-only, out of memory, draining …
    #[error("the server refused: {message}; see what its error asks for, then try again")]
    Refused {
        /// What the server said.
        message: String,
    },
    /// The server could not be reached or did not answer in time.
    #[error("no answer from the server: {message}; check its address, that it runs, and the network")]
    Transport {
        /// What went wrong.
        message: String,
    },
    /// The server was reached, and no TLS connection to it came about.
    #[error(
        "no TLS connection to the server: {message}; check that this is its TLS port, that its certificate names this host, and that the authority is trusted (SSL_CERT_FILE, or Builder::root_certificates); a server that asks for a certificate of the client's gets Builder::client_certificate"
    )]
    Tls {
        /// What went wrong.
        message: String,
    },
    /// A setting or a name that cannot be.
    #[error("{message}")]
    Invalid {
        /// What is wrong, and what would be right.
        message: String,
    },
    /// The client was shut down.
    #[error("this client was shut down; make a new one")]
    ShutDown,
    /// A shutdown ended before every release was confirmed.
    #[error(
        "{locks} locks were not released when the shutdown ended: drop their guards before it or allow more time; they are free at the end of their leases"
    )]
    Unflushed {
        /// How many.
        locks: usize,
    },
}

/// Why a lock that was held is held no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Lost {
    /// Its lease has ended, by this client's clock, and was not to be renewed.
    #[error("its lease has ended")]
    Expired,
    /// The server says that this owner holds nothing: a forced release, a deletion, lost writes.
    #[error("it was taken away on the server (a forced release, a deletion or a fail-over)")]
    Taken,
    /// No renewal was confirmed before the lease ended, by this client's clock.
    #[error(
        "it could not be renewed before its lease ended (the server was out of reach or this process stood still)"
    )]
    Unreachable,
    /// The client was shut down, so it is renewed no longer.
    #[error("its client was shut down")]
    ShutDown,
}

impl Error {
    pub(crate) fn timeout(key: &[u8], waited: Duration) -> Error {
        Error::Timeout { lock: name(key), waited }
    }

    pub(crate) fn lost(key: &[u8], why: Lost) -> Error {
        Error::Lost { lock: name(key), why }
    }

    pub(crate) fn unknown(key: &[u8], cause: impl ToString) -> Error {
        Error::OutcomeUnknown { lock: name(key), cause: cause.to_string() }
    }

    pub(crate) fn transport(message: impl ToString) -> Error {
        Error::Transport { message: message.to_string() }
    }

    pub(crate) fn invalid(message: impl ToString) -> Error {
        Error::Invalid { message: message.to_string() }
    }
}

/// A lock's name, for people.
pub(crate) fn name(key: &[u8]) -> String {
    String::from_utf8_lossy(key).escape_debug().to_string()
}
