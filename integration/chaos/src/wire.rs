//! Connections that break, and are expected to.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use redis::{
    Client, Cmd, Connection, ConnectionAddr, ConnectionLike, IntoConnectionInfo, RedisConnectionInfo, Value,
};
use rlock_testkit::Wire;

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
    // Without CLIENT SETINFO a connection sends only the harness's own commands.
    let settings = RedisConnectionInfo::default().set_skip_set_lib_name();
    let client = Client::open(address.set_redis_settings(settings)).ok()?;
    let connection = client.get_connection_with_timeout(CONNECTING).ok()?;
    connection.set_write_timeout(Some(CONNECTING)).ok()?;
    Some(connection)
}

/// Opens a connection as this user, which is made first: a server that was restarted, or has become the primary, does not
/// know it, nor does one that has deleted it.
fn open_as(port: u16, user: &str) -> Option<Connection> {
    let mut connection = open(port)?;
    connection.set_read_timeout(Some(CONNECTING)).ok()?;
    let set = packed(&["ACL", "SETUSER", user, "on", "nopass", "~*", "&*", "+@all"]);
    connection.send_packed_command(&[set, packed(&["AUTH", user, "any"])].concat()).ok()?;
    let mut is_ok = || matches!(connection.recv_response(), Ok(Value::Okay));
    // Where the user is deleted in between, AUTH is refused.
    (is_ok() && is_ok()).then_some(connection)
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
    /// The user of all of them; nothing for the default user.
    user: Option<String>,
    /// How many were opened so far.
    pub(crate) opened: usize,
}

impl Wires {
    /// Connections of this user.
    pub(crate) fn of(user: String) -> Wires {
        Wires { user: Some(user), ..Wires::default() }
    }

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
            Entry::Vacant(place) => {
                let connection = match &self.user {
                    Some(user) => open_as(port, user)?,
                    None => open(port)?,
                };
                self.opened += 1;
                place.insert(connection)
            }
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

/// A connection that receives messages. It speaks the protocol by hand: the library takes what comes after a timeout for
/// the answer that had been waited for, and skips it.
pub(crate) struct Ear {
    wire: Wire,
    port: u16,
    channel: String,
}

impl Ear {
    /// Subscribes to a channel; nothing where the server does not confirm that.
    pub(crate) fn open(port: u16, channel: &str, sharded: bool) -> Option<Ear> {
        let mut wire = Wire::connect(port, CONNECTING).ok()?;
        let command = if sharded { "ssubscribe" } else { "subscribe" };
        wire.send(&[command, channel]).ok()?;
        let words = wire.frame(CONNECTING).ok()??.into_words()?;
        (words[0] == command.as_bytes()).then(|| Ear { wire, port, channel: channel.to_owned() })
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
        match self.wire.frame(within) {
            Ok(Some(frame)) => match frame.into_words().as_deref() {
                Some([kind, _, text]) if kind.ends_with(b"message") => {
                    Heard::Message(String::from_utf8_lossy(text).into_owned())
                }
                _ => Heard::Broken,
            },
            Ok(None) => Heard::Nothing,
            Err(_) => Heard::Broken,
        }
    }
}
