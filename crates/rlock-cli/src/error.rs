//! What can go wrong, and what to do about it.

use std::fmt::{self, Display};
use std::io;
use std::time::Duration;

use rlock_client::Error as ClientError;

use crate::duration;

/// Why `rlock` itself failed. Losing a lock, or not getting it, is no error: those are outcomes.
#[derive(Debug)]
pub(crate) enum Error {
    /// Something in the call cannot be; both texts are for the user.
    Usage(String, &'static str),
    /// The URL of the server cannot be read.
    Url(String),
    /// The server cannot be reached, or did not answer in time.
    NoAnswer { address: String, cause: String },
    /// The server is not known to be the one that it should be, or does not know us.
    Tls { address: String, cause: String },
    /// A change was asked for and its answer was lost.
    Unknown { address: String, cause: String },
    /// The server does not know the commands of the module.
    NoModule { address: String },
    /// The server refused an answer: the text is its own.
    Refused { address: String, text: String },
    /// The server answered what this version does not understand.
    Unexpected { address: String, what: &'static str },
    /// The command to be run is not there.
    NotFound { program: String },
    /// The command to be run cannot be executed.
    NotExecutable { program: String, cause: String },
    /// The system refused something that `run` needs.
    System { what: &'static str, cause: io::Error },
    /// What was to be printed could not be written.
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

    /// What the client crate tells about the server at `address`.
    pub(crate) fn of_client(address: String, error: &ClientError) -> Error {
        match error {
            ClientError::ModuleNotLoaded { .. } => Error::NoModule { address },
            ClientError::Permission { message }
            | ClientError::QueueFull { message, .. }
            | ClientError::NotALock { message, .. }
            | ClientError::Refused { message } => Error::Refused { address, text: message.clone() },
            ClientError::OutcomeUnknown { cause, .. } => Error::Unknown { address, cause: cause.clone() },
            ClientError::Tls { message, .. } => Error::Tls { address, cause: message.clone() },
            ClientError::Transport { message } => Error::NoAnswer { address, cause: message.clone() },
            // What else there is can only come of locks that are held, or waited for.
            other => Error::NoAnswer { address, cause: other.to_string() },
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

    /// Whether the server refused with one of these first words.
    pub(crate) fn is_refusal(&self, words: &[&str]) -> bool {
        let Error::Refused { text, .. } = self else { return false };
        words.contains(&text.split(' ').next().unwrap_or_default())
    }

    /// What to do next.
    pub(crate) fn advice(&self) -> String {
        match self {
            Error::Usage(_, advice) => (*advice).to_string(),
            Error::Url(_) => {
                "write redis://[user:password@]host[:port][/db], rediss://… for TLS, unix:///path, \
                 redis+sentinel://host:port,host:port/name[?sentinel_password=…], or redis+cluster://host:port,host:port; \
                 in --url or REDIS_URL"
            }
            .to_string(),
            Error::NoAnswer { address, .. } => format!(
                "check that a server runs at {address}, that --url or REDIS_URL names the right one, and \
                 that it is not overloaded (`redis-cli --latency`)"
            ),
            Error::Tls { .. } => {
                "check the name in the URL, and that the authority which signed the server's \
                 certificate is one of this system's: SSL_CERT_FILE names a file of others"
                    .to_string()
            }
            Error::Unknown { .. } => {
                "it may have been done: look with `rlock status`, then try again".to_string()
            }
            Error::NoModule { .. } => "add `loadmodule /path/to/librlock.so` to its configuration file and \
                 restart it, or use MODULE LOAD; `rlock ping` looks at all its replicas too. (For a Sentinel \
                 write redis+sentinel://host:port/name)"
                .to_string(),
            Error::Refused { text, .. } => refusal_advice(text).to_string(),
            Error::Unexpected { .. } => "is the module newer than this command? `rlock ping` tells its \
                 version, `rlock --version` this one's"
                .to_string(),
            Error::NotFound { program } => {
                format!("check the spelling and PATH, or write the path of '{program}'")
            }
            Error::NotExecutable { program, .. } => {
                format!("make it executable (chmod +x), or name the interpreter: -- sh {program}")
            }
            Error::System { .. } => {
                "check the limits of this user and of the container (ulimit -a)".to_string()
            }
            Error::Output(_) => "check the file or the program that takes the output".to_string(),
        }
    }
}

/// What to do about an error that the server answers, by its first word.
fn refusal_advice(text: &str) -> &'static str {
    match text.split(' ').next().unwrap_or_default() {
        "WRONGTYPE" | "WRONGLOCK" => {
            "choose another key: this one holds something that is no such lock, and nothing was changed"
        }
        "QUEUEFULL" => {
            "try again later, or raise rlock.max-waiters or rlock.max-waiters-per-key in the server"
        }
        "UNBLOCKED" => "try again: the server that serves the lock now decides",
        "NOAUTH" | "WRONGPASS" => {
            "give the user and the password in the URL: redis://user:password@host; best by REDIS_URL, which ps does not show"
        }
        "NOPERM" => {
            "let the user use the commands and the key: ACL SETUSER <user> ~<keys> +@rlock; on servers without that category +rlock.acquire +rlock.release +rlock.renew +rlock.cancel +rlock.info"
        }
        "READONLY" => {
            "this server is a replica: give the URL of the primary; `rlock ping` shows which one it is"
        }
        "LOADING" => "the server is still loading its data: try again soon",
        "OOM" => "the server's memory is full: raise maxmemory or remove keys; releasing still works",
        "MISCONF" | "NOREPLICAS" | "CLUSTERDOWN" | "MASTERDOWN" => {
            "the server takes no writes now: mend what it says, then try again"
        }
        _ => "the text is the server's own; the commands are described in docs/COMMANDS.md",
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Usage(text, _) => f.write_str(text),
            Error::Url(cause) => write!(f, "the server's URL cannot be read: {cause}"),
            Error::NoAnswer { address, cause } => write!(f, "no answer from {address}: {cause}"),
            Error::Tls { address, cause } => {
                write!(f, "no encrypted connection to {address}: {cause}")
            }
            Error::Unknown { address, cause } => {
                write!(f, "whether {address} did it is unknown: {cause}")
            }
            Error::NoModule { address } => write!(f, "the module rlock is not loaded on {address}"),
            Error::Refused { address, text } => write!(f, "{address} refused: {text}"),
            Error::Unexpected { address, what } => write!(f, "{address} answered {what} in an unknown way"),
            Error::NotFound { program } => write!(f, "'{program}' was not found"),
            Error::NotExecutable { program, cause } => write!(f, "'{program}' cannot be run: {cause}"),
            Error::System { what, cause } => write!(f, "{what}: {cause}"),
            Error::Output(cause) => write!(f, "the output could not be written: {cause}"),
        }
    }
}

impl From<io::Error> for Error {
    /// For `?` after writing to the standard output.
    fn from(cause: io::Error) -> Self {
        Error::Output(cause)
    }
}
