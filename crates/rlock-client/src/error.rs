//! Errors: what is wrong, and what to do.

use std::time::Duration;

/// Every error of this crate. Its text says in short what is wrong and what to do; [`Error::advice`] says more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The wait ended without the lock.
    #[error(
        "the lock {lock} was not acquired within {waited:?}; wait longer, or see its holder: RLOCK.INFO {lock}"
    )]
    Timeout {
        /// The lock's name.
        lock: String,
        /// The length of the wait.
        waited: Duration,
    },
    /// The lock was acquired and is no longer held.
    #[error("the lock {lock} was lost: {why}; stop the work and check its results")]
    Lost {
        /// The lock's name.
        lock: String,
        /// Why.
        why: Lost,
    },
    /// At the release the owner held nothing.
    #[error("the lock {lock} was lost before its release; check the results of the work")]
    NotHeld {
        /// The lock's name.
        lock: String,
    },
    /// A release was sent; it is unknown whether the owner still held the lock.
    #[error(
        "it is unknown whether the lock {lock} was still held at its release ({cause}); it is free now or at its lease end"
    )]
    OutcomeUnknown {
        /// The lock's name.
        lock: String,
        /// Why no answer arrived.
        cause: String,
    },
    /// The lock was acquired, reached too few replicas in time, and was released again.
    #[error(
        "the lock {lock} was released again: it reached {reached} of {wanted} replicas in time; ask for fewer, or allow more time"
    )]
    Durability {
        /// The lock's name.
        lock: String,
        /// The number of replicas asked for.
        wanted: usize,
        /// The number of replicas that had it in time.
        reached: usize,
    },
    /// The server does not know the commands.
    #[error(
        "this server has no rlock module ({message}); add `loadmodule /path/to/librlock.so` to its configuration"
    )]
    ModuleNotLoaded {
        /// The server's text.
        message: String,
    },
    /// The server does not admit the user, or the user lacks a permission.
    #[error("the server denies access: {message}; check the user's password and permissions")]
    Permission {
        /// The server's text.
        message: String,
    },
    /// The queue is full, by a limit of the server.
    #[error("the queue of the lock {lock} is full ({message}); try again later, or raise the server's limit")]
    QueueFull {
        /// The lock's name.
        lock: String,
        /// The server's text.
        message: String,
    },
    /// The key holds other data, or a lock of another kind.
    #[error("the key {lock} holds something else ({message}); choose another name")]
    NotALock {
        /// The lock's name.
        lock: String,
        /// The server's text.
        message: String,
    },
    /// The server refused for another reason: read-only, out of memory, draining …
    #[error("the server refused: {message}; fix the cause, then try again")]
    Refused {
        /// The server's text.
        message: String,
    },
    /// The server could not be reached or did not answer in time.
    #[error("no answer from the server: {message}; check its address, its state and the network")]
    Transport {
        /// The cause.
        message: String,
    },
    /// The server was reached, but the TLS connection failed.
    #[error("no TLS connection to the server: {message}; check its port and the certificates")]
    Tls {
        /// The cause.
        message: String,
    },
    /// An invalid setting or name.
    #[error("{message}")]
    Invalid {
        /// What is wrong, and what would be right.
        message: String,
    },
    /// The client was shut down.
    #[error("this client was shut down; create a new one")]
    ShutDown,
    /// A shutdown ended before every release was confirmed. The locks that are left are free at their lease ends.
    #[error(
        "{locks} locks were not released before the shutdown ended; drop their guards earlier, or allow more time"
    )]
    Unflushed {
        /// How many.
        locks: usize,
    },
}

/// Why a held lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Lost {
    /// Its lease ended, by this client's clock, and was not meant to be renewed.
    #[error("its lease ended")]
    Expired,
    /// The server answered that this owner holds nothing: after a forced release, a deletion, or lost writes.
    #[error("the server no longer has it (forced release, deletion or fail-over)")]
    Taken,
    /// No renewal was confirmed before the lease ended, by this client's clock.
    #[error("no renewal was confirmed before its lease ended (server unreachable or process paused)")]
    Unreachable,
    /// The client was shut down, which ends its renewals.
    #[error("its client was shut down")]
    ShutDown,
}

impl Error {
    /// What to check or change, in more detail than the text; `None` if the text says it all.
    ///
    /// ```
    /// # use rlock_client::Error;
    /// # let error = Error::Permission { message: "NOPERM".to_string() };
    /// eprintln!("{error}");
    /// if let Some(advice) = error.advice() {
    ///     eprintln!("{advice}");
    /// }
    /// # assert!(error.advice().is_some());
    /// ```
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Error::NotHeld { .. } => {
                Some("the lease ended, or the lock was lost by a forced release, a deletion or a fail-over")
            }
            Error::Durability { .. } => {
                Some("INFO replication on the primary shows its replicas and their lag")
            }
            Error::ModuleNotLoaded { .. } => Some(
                "restart the server after the change, or use MODULE LOAD; its replicas need the module too",
            ),
            Error::Permission { .. } => Some(
                "grant the user +@rlock (or the RLOCK commands by name) and the locks' keys; for waiting also +subscribe \
                 and &rlock:grants:*; in a cluster also +cluster|slots and +asking, and for waiting +ssubscribe; without \
                 a permission for waiting, use Waiting::Polling",
            ),
            Error::QueueFull { .. } => Some(
                "raise rlock.max-waiters or rlock.max-waiters-per-key on the server, or use Waiting::Polling",
            ),
            Error::Tls { .. } => Some(
                "the URL must name the server's TLS port, and a host of its certificate; the client must trust the \
                 certificate's authority (SSL_CERT_FILE, or Builder::root_certificates); if the server asks for a client \
                 certificate, set Builder::client_certificate",
            ),
            Error::Unflushed { .. } => Some("these locks are free at their lease ends"),
            Error::Timeout { .. }
            | Error::Lost { .. }
            | Error::OutcomeUnknown { .. }
            | Error::NotALock { .. }
            | Error::Refused { .. }
            | Error::Transport { .. }
            | Error::Invalid { .. }
            | Error::ShutDown => None,
        }
    }
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
