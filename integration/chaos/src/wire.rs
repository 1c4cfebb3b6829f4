//! Connections that break, and are expected to.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use redis::{
    Client, Cmd, Connection, ConnectionAddr, ConnectionLike, IntoConnectionInfo, RedisConnectionInfo, Value,
};

/// How long it may take to connect.
const CONNECTING: Duration = Duration::from_secs(2);

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The connection broke, or nothing came in time: whether the command was carried out is unknown.
    Lost,
    /// The server refused, with this as the first word of the error and the rest.
    Refused(String, String),
}

/// An answer, or none.
pub(crate) type Answer = Result<Value, Trouble>;

fn open(port: u16) -> Option<Connection> {
    let address = ConnectionAddr::Tcp("127.0.0.1".into(), port).into_connection_info().ok()?;
    // Without CLIENT SETINFO a connection sends nothing but what it is told to.
    let settings = RedisConnectionInfo::default().set_skip_set_lib_name();
    let client = Client::open(address.set_redis_settings(settings)).ok()?;
    let connection = client.get_connection_with_timeout(CONNECTING).ok()?;
    connection.set_write_timeout(Some(CONNECTING)).ok()?;
    Some(connection)
}

fn packed(words: &[&str]) -> Vec<u8> {
    Cmd::new().arg(words).get_packed_command()
}

/// What the server said, its refusals apart.
fn told(value: Value) -> Answer {
    match value {
        Value::ServerError(error) => {
            Err(Trouble::Refused(error.code().to_owned(), error.details().unwrap_or_default().to_owned()))
        }
        value => Ok(value),
    }
}

/// Connections to several servers, opened when they are needed.
#[derive(Default)]
pub(crate) struct Wires {
    open: HashMap<u16, Connection>,
}

impl Wires {
    /// Sends one command or several, and takes the answer to the last.
    pub(crate) fn ask(&mut self, port: u16, commands: &[&[&str]], within: Duration) -> Answer {
        let outcome = self.try_ask(port, commands, within);
        if outcome.is_none() {
            self.open.remove(&port);
        }
        outcome.map_or(Err(Trouble::Lost), told)
    }

    fn try_ask(&mut self, port: u16, commands: &[&[&str]], within: Duration) -> Option<Value> {
        let connection = match self.open.entry(port) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(open(port)?),
        };
        connection.set_read_timeout(Some(within.max(Duration::from_millis(1)))).ok()?;
        let bytes: Vec<u8> = commands.iter().flat_map(|words| packed(words)).collect();
        connection.send_packed_command(&bytes).ok()?;
        let mut last = None;
        for _ in commands {
            last = Some(match connection.recv_response() {
                Ok(value) => value,
                Err(error) if !connection.is_open() || error.is_io_error() => return None,
                Err(error) => Value::ServerError(error.try_into().ok()?),
            });
        }
        last
    }

    /// Closes all connections without a word.
    pub(crate) fn hang_up(&mut self) {
        self.open.clear();
    }
}

/// What a subscriber hears.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// A message, without its channel.
    Message(String),
    /// Nothing so far.
    Nothing,
    /// Nothing ever again: the connection broke, or the subscription was ended.
    Broken,
}

/// A connection that receives messages.
pub(crate) struct Ear {
    connection: Connection,
    port: u16,
    channel: String,
}

impl Ear {
    /// Subscribes to a channel; nothing where the server does not confirm that.
    pub(crate) fn open(port: u16, channel: &str, sharded: bool) -> Option<Ear> {
        let mut connection = open(port)?;
        let command = if sharded { "SSUBSCRIBE" } else { "SUBSCRIBE" };
        connection.set_read_timeout(Some(CONNECTING)).ok()?;
        connection.send_packed_command(&packed(&[command, channel])).ok()?;
        let Ok(Value::Array(_)) = connection.recv_response() else { return None };
        Some(Ear { connection, port, channel: channel.to_owned() })
    }

    /// Whether it listens there to that.
    pub(crate) fn hears(&self, port: u16, channel: &str) -> bool {
        self.port == port && self.channel == channel
    }

    pub(crate) fn channel(&self) -> &str {
        &self.channel
    }

    /// The next message, or how it ends.
    pub(crate) fn next(&mut self, within: Duration) -> Heard {
        if self.connection.set_read_timeout(Some(within.max(Duration::from_millis(1)))).is_err() {
            return Heard::Broken;
        }
        match self.connection.recv_response() {
            Ok(Value::Array(parts)) => match parts.as_slice() {
                [Value::BulkString(kind), _, Value::BulkString(text)] if kind.ends_with(b"message") => {
                    Heard::Message(String::from_utf8_lossy(text).into_owned())
                }
                _ => Heard::Broken,
            },
            Err(error) if error.is_timeout() => Heard::Nothing,
            _ => Heard::Broken,
        }
    }
}
