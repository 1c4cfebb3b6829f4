//! One connection to whoever serves a key, made when needed.

use std::time::{Duration, Instant};

use redis::{Cmd, Connection, ConnectionLike, ErrorKind, Pipeline, RedisError, ServerErrorKind, Value, cmd};

use super::Target;
use super::target::parted;
use crate::error::Error;

/// How often a command follows a cluster's redirections before it gives up.
const REDIRECTIONS: usize = 5;

/// A connection that is opened when it is needed, and again after it broke.
pub(crate) struct Link {
    target: Target,
    connection: Option<Connection>,
}

impl Link {
    /// No connection yet.
    pub(crate) fn new(target: Target) -> Link {
        Link { target, connection: None }
    }

    /// The address that the next command goes to.
    pub(crate) fn address(&self) -> String {
        self.target.address()
    }

    /// Sends a command and waits for the answer: at most `within` for connecting, and as long again for
    /// the answer.
    pub(crate) fn ask(&mut self, command: &Cmd, within: Duration) -> Result<Value, Error> {
        self.ask_waiting(command, within, Some(within))
    }

    /// Like [`Link::ask`], for a command that the server may take its time with; `None` is for ever.
    pub(crate) fn ask_waiting(
        &mut self,
        command: &Cmd,
        connect_within: Duration,
        answer_within: Option<Duration>,
    ) -> Result<Value, Error> {
        let mut asking = false;
        for _ in 0..REDIRECTIONS {
            let outcome = self.attempt(command, asking, connect_within, answer_within);
            let error = match outcome {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let Some((host, port)) = redirection(&error) else {
                return Err(self.failed(&error, answer_within.unwrap_or(connect_within)));
            };
            asking = error.kind() == ErrorKind::Server(ServerErrorKind::Ask);
            let host = if host.is_empty() { self.target.host().to_string() } else { host };
            *self = Link::new(self.target.at(&host, port));
        }
        let text = "CLUSTERDOWN the nodes send this key around in a circle".to_string();
        Err(Error::Refused { address: self.address(), text })
    }

    /// Sends commands together; errors of the server stand among the answers. Follows no redirection.
    ///
    /// The driver's own pipelines would wait for each answer anew where a server hangs.
    pub(crate) fn ask_all(&mut self, commands: &Pipeline, within: Duration) -> Result<Vec<Value>, Error> {
        let packed = commands.get_packed_pipeline();
        let outcome = self.open(within, Some(within)).and_then(|connection| {
            connection.send_packed_command(&packed)?;
            (0..commands.len()).map(|_| connection.recv_response()).collect()
        });
        outcome.map_err(|error| {
            // Answers that are not read would be taken for those of the next command.
            self.connection = None;
            self.failed(&error, within)
        })
    }

    fn attempt(
        &mut self,
        command: &Cmd,
        asking: bool,
        connect_within: Duration,
        answer_within: Option<Duration>,
    ) -> Result<Value, RedisError> {
        let connection = self.open(connect_within, answer_within)?;
        if asking {
            connection.req_command(&cmd("ASKING"))?;
        }
        connection.req_command(command)?.extract_error()
    }

    fn open(&mut self, connect: Duration, answer: Option<Duration>) -> Result<&mut Connection, RedisError> {
        // A time-out of zero would be none.
        let least = Duration::from_millis(1);
        let start = Instant::now();
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.target.connect(connect.max(least))?,
        };
        // Whoever is short of time has `connect` for both.
        let answer = answer.map(|answer| {
            if answer == connect { answer.saturating_sub(start.elapsed()) } else { answer }.max(least)
        });
        connection.set_read_timeout(answer)?;
        connection.set_write_timeout(Some(connect.max(least)))?;
        Ok(self.connection.insert(connection))
    }

    /// Turns an error into ours; a connection that failed is not used again: a late answer would be taken
    /// for that of the next command.
    fn failed(&mut self, error: &RedisError, within: Duration) -> Error {
        let address = self.address();
        if error.is_timeout() {
            self.connection = None;
            return Error::NoAnswer { address, within };
        }
        match (error.code(), error.kind()) {
            (Some(code), _) => refusal(address, code, error.detail().unwrap_or_default()),
            // The driver keeps the server's answer to a login as a detail.
            (None, ErrorKind::AuthenticationFailed) => Error::Refused {
                address,
                text: format!("NOAUTH {}", error.detail().unwrap_or("login failed")),
            },
            (None, ErrorKind::Io) => {
                self.connection = None;
                Error::Unreachable { address, cause: error.to_string() }
            }
            (None, _) => {
                self.connection = None;
                Error::Unreachable { address, cause: error.to_string() }
            }
        }
    }
}

/// Where the server sends us instead. An empty host is the one that was asked.
fn redirection(error: &RedisError) -> Option<(String, u16)> {
    let moved = [ServerErrorKind::Moved, ServerErrorKind::Ask].map(ErrorKind::Server);
    let (address, _slot) = error.redirect_node().filter(|_| moved.contains(&error.kind()))?;
    parted(address)
}

/// An error that the server answered.
pub(crate) fn refusal(address: String, code: &str, detail: &str) -> Error {
    if detail.to_ascii_lowercase().starts_with("unknown command") {
        return Error::NoModule { address };
    }
    Error::Refused { address, text: format!("{code} {detail}").trim_end().to_string() }
}
