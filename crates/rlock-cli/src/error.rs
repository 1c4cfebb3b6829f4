//! What can go wrong.

use std::fmt::{self, Display};
use std::io;
use std::time::Duration;

use rlock_client::Error as ClientError;

use crate::duration;

/// Why `rlock` itself failed. A lock that is lost, or not acquired, is an outcome, not an error.
#[derive(Debug)]
pub(crate) enum Error {
    /// The call has an invalid value or combination; both texts are for the user.
    Usage(String, &'static str),
    /// The URL of the server cannot be read: the text of the client crate, with what to write.
    Url(String),
    /// The server cannot be reached, or did not answer in time.
    NoAnswer { address: String, cause: String },
    /// The server's identity is not proven, or the server does not accept this client's.
    Tls { address: String, cause: String },
    /// A change was asked for and its answer was lost.
    Unknown { address: String, cause: String },
    /// The server does not know the commands of the module.
    NoModule { address: String },
    /// The server answered with an error: the text is its own.
    Refused { address: String, text: String },
    /// The server is not what the URL says; both texts are for the user.
    Mismatch { what: String, advice: String },
    /// A run around this one holds the same lock.
    Nested { lock: String },
    /// The server sent a reply that this version does not understand.
    Unexpected { address: String, what: &'static str },
    /// The command to run does not exist.
    NotFound { program: String },
    /// The command to run cannot be executed.
    NotExecutable { program: String, cause: String },
    /// Another error of the client crate.
    Other(ClientError),
    /// The system refused something that `run` needs.
    System { what: &'static str, cause: io::Error },
    /// The file of `--lead-file` cannot be written or removed.
    LeadFile { path: String, cause: io::Error },
    /// The exporter cannot listen.
    Listen { address: String, cause: io::Error },
    /// The output could not be written.
    Output(io::Error),
}

/// `rlock` itself failed.
pub(crate) const FAILED: u8 = 125;

impl Error {
    /// The code to exit with.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Error::NotExecutable { .. } => 126,
            Error::NotFound { .. } => 127,
            _ => FAILED,
        }
    }

    /// An error of the client crate, about the server at `address`.
    pub(crate) fn of_client(address: String, error: &ClientError) -> Error {
        match error {
            ClientError::ModuleMissing { .. } => Error::NoModule { address },
            ClientError::Permission { message }
            | ClientError::QueueFull { message, .. }
            | ClientError::NotALock { message, .. }
            | ClientError::Refused { message } => Error::Refused { address, text: message.clone() },
            ClientError::OutcomeUnknown { source, .. } => {
                Error::Unknown { address, cause: source.to_string() }
            }
            // The server that is dead, not those of the URL that may be well.
            ClientError::Tls { server, source } => {
                Error::Tls { address: server.clone(), cause: source.to_string() }
            }
            ClientError::Transport { server, source } => {
                Error::NoAnswer { address: server.clone(), cause: source.to_string() }
            }
            ClientError::Timeout { source: Some(cause), .. } => Error::of_client(address, cause),
            ClientError::Invalid { message } if message.contains("not one of a cluster") => {
                Error::not_a_cluster(&address)
            }
            other => Error::Other(other.clone()),
        }
    }

    /// A server that should be a node of a cluster.
    pub(crate) fn not_a_cluster(address: &str) -> Error {
        Error::Mismatch {
            what: format!("{address} is not a node of a cluster"),
            advice: "write redis:// in place of redis+cluster://".to_string(),
        }
    }

    /// The server takes what is sent and does not reply.
    pub(crate) fn no_reply(address: String, within: Duration) -> Error {
        let within = duration::shown(duration::ms(within).cast_signed());
        Error::NoAnswer { address, cause: format!("no reply within {within}") }
    }

    /// Whether the server could not be asked, so that another try may be answered.
    pub(crate) fn is_transport(&self) -> bool {
        matches!(self, Error::NoAnswer { .. })
    }

    /// Whether the server may serve locks a little later: it cannot be asked, is starting, or is being replaced.
    pub(crate) fn passes(&self) -> bool {
        self.is_transport() || self.is_refusal(&["LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN"])
    }

    /// Whether the server refused with one of these first words.
    pub(crate) fn is_refusal(&self, words: &[&str]) -> bool {
        let Error::Refused { text, .. } = self else { return false };
        words.contains(&text.split(' ').next().unwrap_or_default())
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Usage(text, _) => f.write_str(text),
            Error::Url(text) => f.write_str(text),
            Error::NoAnswer { address, cause } => {
                write!(f, "no answer from {address}: {}", cause.lines().next().unwrap_or_default())
            }
            Error::Tls { address, cause } => {
                write!(f, "no encrypted connection to {address}: {cause}")
            }
            Error::Unknown { address, cause } => {
                write!(f, "it is unknown whether {address} executed the command: {cause}")
            }
            Error::NoModule { address } => write!(f, "the module rlock is not loaded on {address}"),
            Error::Refused { address, text } => write!(f, "{address} refused: {}", shortened(text)),
            Error::Mismatch { what, .. } => f.write_str(what),
            Error::Nested { lock } => {
                write!(
                    f,
                    "the lock {lock} is held by the `rlock run` around this one, which waits for this one"
                )
            }
            Error::Unexpected { address, what } => write!(f, "{address} sent an unknown reply to {what}"),
            Error::NotFound { program } => write!(f, "'{program}' was not found"),
            Error::NotExecutable { program, cause } => write!(f, "'{program}' cannot be run: {cause}"),
            Error::Other(error) => write!(f, "{error}"),
            Error::System { what, cause } => write!(f, "{what}: {cause}"),
            Error::LeadFile { path, cause } => write!(f, "the file of --lead-file, {path}: {cause}"),
            Error::Listen { address, cause } => write!(f, "cannot listen on {address}: {cause}"),
            Error::Output(cause) => write!(f, "the output could not be written: {cause}"),
        }
    }
}

/// The server's text without its lesson in HELLO, which each version words differently.
fn shortened(text: &str) -> String {
    let lesson = text.split_once("HELLO must be called").and_then(|(before, rest)| {
        let (_, after) = rest.split_once("at the same time")?;
        Some(format!("{before}Authentication required.{after}"))
    });
    lesson.unwrap_or_else(|| text.to_string())
}

impl From<io::Error> for Error {
    /// For `?` after writing to the standard output.
    fn from(cause: io::Error) -> Self {
        Error::Output(cause)
    }
}
