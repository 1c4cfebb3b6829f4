//! Errors: what is wrong, and what to do.

use std::fmt;
use std::time::Duration;

use rlock_links::Cause;

/// Every error of this crate. Its text says in short what is wrong and what to do, [`Error::advice`] says more, and
/// [`source`](std::error::Error::source) is the cause where there is one.
///
/// `{:?}` shows all three, each on a line of its own: it is what a `main` that returns the error prints. `{:#?}` shows the variant
/// and its fields.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The wait ended without the lock.
    #[error("the lock {lock} was not acquired within {waited:?}{}", cause_of_timeout(.lock, .source.as_deref()))]
    Timeout {
        /// The lock's name.
        lock: String,
        /// The length of the wait.
        waited: Duration,
        /// The cause, if it is not another holder; see [`Error::is_unreachable`].
        source: Option<Box<Error>>,
    },
    /// The lock was asked for once, and another owner holds it.
    #[error("another owner holds the lock {lock}; wait for it, or try again later")]
    Denied {
        /// The lock's name.
        lock: String,
    },
    /// The lock was acquired and is no longer held.
    #[error("{}", loss(.lock, *.why))]
    LockLost {
        /// The lock's name.
        lock: String,
        /// Why.
        why: Lost,
    },
    /// A release was sent; it is unknown whether the owner still held the lock.
    #[error(
        "it is unknown whether the lock {lock} was still held at its release; it is free now or at its lease end"
    )]
    OutcomeUnknown {
        /// The lock's name.
        lock: String,
        /// Why no answer arrived.
        source: Cause,
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
    ModuleMissing {
        /// The server's text.
        message: String,
    },
    /// The server, its module or this build of the client lacks something.
    #[error("{message}")]
    Unsupported {
        /// The missing part, and its source.
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
    /// The server could not be reached, did not answer in time, or is not a primary.
    #[error("the server {server} is unreachable; check its address, its state and the network")]
    Transport {
        /// The server's address; for a primary that no Sentinel names, its name and the Sentinels.
        server: String,
        /// The cause.
        source: Cause,
    },
    /// The server was reached, but the TLS connection failed.
    #[error("no TLS connection to the server {server}; check its port and the certificates")]
    Tls {
        /// The server's address.
        server: String,
        /// The cause.
        source: Cause,
    },
    /// An invalid setting or name.
    #[error("{message}")]
    Invalid {
        /// What is wrong, and what would be right.
        message: String,
    },
    /// The client was closed.
    #[error("this client was closed; create a new one")]
    Closed,
    /// The client was closed before every release was confirmed. The locks that were not released are free at their lease ends.
    #[error(
        "{locks} locks were not released when the client closed; drop their guards earlier, or allow more time"
    )]
    Unflushed {
        /// The number of these locks.
        locks: usize,
    },
}

/// Why a held lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Lost {
    /// The lock's lease ended, by this client's clock, and was not meant to be renewed.
    #[error("its lease ended")]
    Expired,
    /// The lock was held for as long as [`Lock::max_hold`](crate::Lock::max_hold) allows, and was not renewed after that.
    #[error("it was held for longer than its limit (max_hold)")]
    Overdue,
    /// The server answered that this owner holds nothing: after a forced release, a deletion, or lost writes.
    #[error("the server no longer has it (forced release, deletion or fail-over)")]
    Taken,
    /// No renewal was confirmed before the lease or the session ended, by this client's clock.
    #[error(
        "no renewal was confirmed before its lease or session ended (server unreachable or process paused)"
    )]
    Unreachable,
    /// The client was closed, which ends its renewals.
    #[error("its client was closed")]
    Closed,
    /// This process is a fork of the process that acquired the lock, which still holds it.
    #[error("it belongs to the process before the fork")]
    Forked,
    /// The lock's last guard was released before.
    #[error("it was released")]
    Released,
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
            Error::LockLost { why: Lost::Released, .. } => None,
            Error::LockLost { .. } => Some(
                "another owner may hold it by now; a longer lease (Builder::lease) outlasts longer \
                 outages, a fencing token (Lock::fenced) lets the resource refuse a late holder",
            ),
            Error::OutcomeUnknown { .. } => Some("RLOCK.INFO shows the present holder"),
            Error::Durability { .. } => {
                Some("INFO replication on the primary shows its replicas and their lag")
            }
            Error::ModuleMissing { .. } => Some(
                "restart the server after the change, or use MODULE LOAD; its replicas need the module too",
            ),
            Error::Permission { .. } => Some(
                "grant the user +@rlock (or the RLOCK commands by name) and the locks' keys; for waiting also +subscribe \
                 and &rlock:grants:*; in a cluster also +cluster|slots and +asking, and for waiting +ssubscribe; without \
                 a permission for waiting, use Waiting::Polling",
            ),
            Error::QueueFull { .. } => Some(
                "raise rlock.max-waiters, rlock.max-waiters-per-key or rlock.max-share-per-user on the server, whichever the \
                 error names, or use Waiting::Polling",
            ),
            Error::Tls { .. } => Some(
                "the URL must name the server's TLS port, and a host of its certificate; the client must trust the \
                 certificate's authority (SSL_CERT_FILE, or Builder::root_certificates); if the server asks for a client \
                 certificate, set Builder::client_certificate",
            ),
            Error::Unflushed { .. } => Some("these locks are free at their lease ends"),
            Error::Timeout { source: Some(cause), .. } => cause.advice(),
            _ => None,
        }
    }
}

impl Error {
    /// Whether the server could not be asked, so that it is unknown whether another owner holds the lock. This includes a
    /// [`Error::Timeout`] that only an outage explains.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        match self {
            Error::Transport { .. } | Error::Tls { .. } | Error::OutcomeUnknown { .. } => true,
            Error::Timeout { source, .. } => source.as_ref().is_some_and(|cause| cause.is_unreachable()),
            _ => false,
        }
    }

    pub(crate) fn timeout(key: &[u8], waited: Duration, cause: Option<Error>) -> Error {
        Error::Timeout { lock: name(key), waited, source: cause.map(Box::new) }
    }

    pub(crate) fn denied(key: &[u8]) -> Error {
        Error::Denied { lock: name(key) }
    }

    pub(crate) fn lost(key: &[u8], why: Lost) -> Error {
        Error::LockLost { lock: name(key), why }
    }

    pub(crate) fn unknown(key: &[u8], cause: Error) -> Error {
        Error::OutcomeUnknown { lock: name(key), source: Cause::new(cause) }
    }

    pub(crate) fn transport(
        server: impl Into<String>,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        Error::Transport { server: server.into(), source: Cause::new(cause) }
    }

    pub(crate) fn invalid(message: impl ToString) -> Error {
        Error::Invalid { message: message.to_string() }
    }
}

impl From<rlock_links::Error> for Error {
    fn from(error: rlock_links::Error) -> Error {
        match error {
            rlock_links::Error::Transport { server, source } => Error::Transport { server, source },
            rlock_links::Error::Tls { server, source } => Error::Tls { server, source },
            rlock_links::Error::Permission { message } => Error::Permission { message },
            rlock_links::Error::UnknownCommand { message } => Error::ModuleMissing { message },
            rlock_links::Error::Refused { message } => Error::Refused { message },
            rlock_links::Error::Unsupported { message } => Error::Unsupported { message },
            rlock_links::Error::Invalid { message } => Error::Invalid { message },
            rlock_links::Error::Closed => Error::Closed,
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return self.fields(f);
        }
        let mut shown = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            let text = cause.to_string();
            // The texts of some errors repeat those of their causes.
            if !shown.contains(&text) && !self.says_its_cause() {
                shown = format!("{shown}\n  cause: {text}");
            }
            source = cause.source();
        }
        f.write_str(&shown)?;
        self.advice().map_or(Ok(()), |advice| write!(f, "\n  → {advice}"))
    }
}

impl Error {
    /// Whether the text contains the source's text.
    fn says_its_cause(&self) -> bool {
        matches!(self, Error::Timeout { .. })
    }

    /// The variant and its fields.
    fn fields(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (variant, fields): (&str, Vec<Field<'_>>) = match self {
            Error::Timeout { lock, waited, source } => {
                ("Timeout", vec![("lock", lock), ("waited", waited), ("source", source)])
            }
            Error::Denied { lock } => ("Denied", vec![("lock", lock)]),
            Error::LockLost { lock, why } => ("LockLost", vec![("lock", lock), ("why", why)]),
            Error::OutcomeUnknown { lock, source } => {
                ("OutcomeUnknown", vec![("lock", lock), ("source", source)])
            }
            Error::Durability { lock, wanted, reached } => {
                ("Durability", vec![("lock", lock), ("wanted", wanted), ("reached", reached)])
            }
            Error::ModuleMissing { message } => ("ModuleMissing", vec![("message", message)]),
            Error::Unsupported { message } => ("Unsupported", vec![("message", message)]),
            Error::Permission { message } => ("Permission", vec![("message", message)]),
            Error::QueueFull { lock, message } => ("QueueFull", vec![("lock", lock), ("message", message)]),
            Error::NotALock { lock, message } => ("NotALock", vec![("lock", lock), ("message", message)]),
            Error::Refused { message } => ("Refused", vec![("message", message)]),
            Error::Transport { server, source } => {
                ("Transport", vec![("server", server), ("source", source)])
            }
            Error::Tls { server, source } => ("Tls", vec![("server", server), ("source", source)]),
            Error::Invalid { message } => ("Invalid", vec![("message", message)]),
            Error::Closed => ("Closed", Vec::new()),
            Error::Unflushed { locks } => ("Unflushed", vec![("locks", locks)]),
        };
        let mut shape = f.debug_struct(variant);
        for (name, value) in fields {
            shape.field(name, value);
        }
        shape.finish()
    }

    /// The text and its causes in one line, for the log.
    pub(crate) fn line(&self) -> String {
        let shown = format!("{self:?}");
        let lines = shown.lines().map(str::trim_start).filter(|line| !line.starts_with('→'));
        lines.collect::<Vec<_>>().join("; ")
    }
}

/// A field of a variant, for the output of `{:#?}`.
type Field<'a> = (&'static str, &'a dyn fmt::Debug);

fn loss(lock: &str, why: Lost) -> String {
    if why == Lost::Released {
        return format!("the lock {lock} is not held: {why}; acquire it again");
    }
    format!("the lock {lock} was lost: {why}; stop the work and check its results")
}

/// What follows "was not acquired within": the cause, or what to do about another holder.
fn cause_of_timeout(lock: &str, cause: Option<&Error>) -> String {
    match cause {
        None => format!("; wait longer, or see its holder: RLOCK.INFO {lock}"),
        Some(Error::Transport { server, source }) => {
            format!(": the server {server} is unreachable: {source}")
        }
        Some(error) => format!(": {error}"),
    }
}

/// A name in the output of `{:?}`: as text, in quotes.
pub(crate) struct Quoted<'a>(pub(crate) &'a [u8]);

impl fmt::Debug for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", name(self.0))
    }
}

/// A lock's name, for people.
pub(crate) fn name(key: &[u8]) -> String {
    String::from_utf8_lossy(key).escape_debug().to_string()
}
