//! A connection to one server, made when needed, for questions about servers and not about locks.

use std::time::{Duration, Instant};

use redis::{Cmd, Connection, ConnectionLike, ErrorKind, Pipeline, RedisError, Value};

use super::protocol::wrong_protocol;
use super::target::Target;
use crate::error::Error;

/// The shortest time-out: zero would mean no time-out.
const LEAST: Duration = Duration::from_millis(1);

/// A server that takes longer than this for a TLS connection may not support TLS.
pub(super) const SUSPICIOUS: Duration = Duration::from_millis(500);

/// What the driver says where a connection failed because of TLS.
const TLS_WORDS: [&str; 3] = ["certificate", "corrupt message", "fatal alert"];

/// How a server can be asked whether it takes writes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Probe {
    /// The key for that is not known yet.
    #[default]
    New,
    With(String),
    /// This user may not ask. It is not asked again: each refusal is an entry in ACL LOG.
    Forbidden,
}

/// A connection that is opened when it is needed, and again after it broke.
pub(crate) struct Link {
    target: Target,
    connection: Option<Connection>,
    /// How the server can be asked whether it takes writes.
    pub(crate) probe: Probe,
}

impl Link {
    /// A link without a connection yet.
    pub(crate) fn new(target: Target) -> Link {
        Link { target, connection: None, probe: Probe::default() }
    }

    /// The server that commands go to.
    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// Whether a connection is open, as far as is known.
    pub(crate) fn is_open(&self) -> bool {
        self.connection.is_some()
    }

    /// The address that commands go to.
    pub(crate) fn address(&self) -> String {
        self.target.address()
    }

    /// Sends a command and waits for the answer, `within` that time in all.
    pub(crate) fn ask(&mut self, command: &Cmd, within: Duration) -> Result<Value, Error> {
        let outcome = self.open(within)?.req_command(command).and_then(Value::extract_error);
        outcome.map_err(|error| self.failed(&error, within))
    }

    /// Sends commands together; errors of the server stand among the answers.
    ///
    /// The driver's own pipelines would wait for each answer anew where a server hangs.
    pub(crate) fn ask_all(&mut self, commands: &Pipeline, within: Duration) -> Result<Vec<Value>, Error> {
        let packed = commands.get_packed_pipeline();
        let connection = self.open(within)?;
        let outcome = connection
            .send_packed_command(&packed)
            .and_then(|()| (0..commands.len()).map(|_| connection.recv_response()).collect());
        outcome.map_err(|error| {
            // Answers that are not read would be taken for those of the next command.
            self.connection = None;
            self.failed(&error, within)
        })
    }

    fn open(&mut self, within: Duration) -> Result<&mut Connection, Error> {
        let start = Instant::now();
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect(within)?,
        };
        let left = within.saturating_sub(start.elapsed()).max(LEAST);
        let limited =
            connection.set_read_timeout(Some(left)).and_then(|()| connection.set_write_timeout(Some(left)));
        limited.map_err(|error| self.failed(&error, within))?;
        Ok(self.connection.insert(connection))
    }

    /// Connects. A server without TLS never answers a TLS handshake, so [`wrong_protocol`] checks one that is slow to answer.
    fn connect(&mut self, within: Duration) -> Result<Connection, Error> {
        let start = Instant::now();
        let first = if self.target.is_encrypted() { within.min(SUSPICIOUS) } else { within };
        let error = match self.target.connect(first.max(LEAST)) {
            Err(error) if error.is_timeout() && first < within => error,
            outcome => return outcome.map_err(|error| self.failed(&error, within)),
        };
        if let Some(cause) = wrong_protocol(&self.target) {
            return Err(cause);
        }
        let left = within.saturating_sub(start.elapsed());
        let outcome = if left < LEAST { Err(error) } else { self.target.connect(left) };
        outcome.map_err(|error| self.failed(&error, within))
    }

    /// Turns an error into an [`Error`]; a connection that failed is not used again: a late answer would be taken
    /// for that of the next command.
    fn failed(&mut self, error: &RedisError, within: Duration) -> Error {
        let address = self.address();
        match (error.code(), error.kind()) {
            _ if error.is_timeout() => {
                self.connection = None;
                Error::no_reply(address, within)
            }
            (Some(code), _) => refusal(address, code, error.detail().unwrap_or_default()),
            // The driver keeps the server's answer to a login as a detail.
            (None, ErrorKind::AuthenticationFailed) => {
                let code = if self.target.has_password() { "WRONGPASS" } else { "NOAUTH" };
                Error::Refused {
                    address,
                    text: format!("{code} {}", error.detail().unwrap_or("the login failed")),
                }
            }
            (None, _) => {
                self.connection = None;
                let cause = error.to_string();
                // The driver knows no kind of its own for this, and has the words of rustls.
                if TLS_WORDS.iter().any(|word| cause.contains(word)) {
                    return Error::Tls { address, cause };
                }
                Error::NoAnswer { address, cause }
            }
        }
    }
}

/// An error that the server answered.
pub(crate) fn refusal(address: String, code: &str, detail: &str) -> Error {
    if detail.to_ascii_lowercase().starts_with("unknown command") {
        return Error::NoModule { address };
    }
    Error::Refused { address, text: format!("{code} {detail}").trim_end().to_string() }
}
