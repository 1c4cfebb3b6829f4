//! Errors of connections.

use std::fmt;
use std::sync::Arc;

/// Why there is no connection, or why a server did not do what its links need.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The server could not be reached, did not answer in time, or is not a primary.
    #[error("the server {server} is unreachable: {source}")]
    Transport {
        /// The server's address; for a primary that no Sentinel names, its name and the Sentinels.
        server: String,
        /// The cause.
        source: Cause,
    },
    /// The server was reached, but the TLS connection failed.
    #[error("no TLS connection to the server {server}: {source}")]
    Tls {
        /// The server's address.
        server: String,
        /// The cause.
        source: Cause,
    },
    /// The server does not admit the user, or the user lacks a permission.
    #[error("{message}")]
    Permission {
        /// The server's text.
        message: String,
    },
    /// The server does not know a command.
    #[error("{message}")]
    UnknownCommand {
        /// The server's text.
        message: String,
    },
    /// The server refused for another reason.
    #[error("{message}")]
    Refused {
        /// The server's text.
        message: String,
    },
    /// The server or this build lacks something.
    #[error("{message}")]
    Unsupported {
        /// The missing part, and its source.
        message: String,
    },
    /// An invalid URL or setting.
    #[error("{message}")]
    Invalid {
        /// What is wrong, and what would be right.
        message: String,
    },
    /// The links have ended.
    #[error("the links have ended")]
    Closed,
}

impl Error {
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

/// The cause of an error: an error of the driver or the system, or a text.
#[derive(Clone)]
pub struct Cause(Arc<dyn std::error::Error + Send + Sync>);

impl Cause {
    /// A cause.
    pub fn new(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Cause {
        Cause(cause.into().into())
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cause").field(&self.to_string()).finish()
    }
}

/// Two causes are equal if they say the same.
impl PartialEq for Cause {
    fn eq(&self, other: &Cause) -> bool {
        self.0.to_string() == other.0.to_string()
    }
}

impl Eq for Cause {}
