//! Connections that break, and are expected to.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

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
    stream: TcpStream,
    received: Vec<u8>,
    port: u16,
    channel: String,
}

impl Ear {
    /// Subscribes to a channel; nothing where the server does not confirm that.
    pub(crate) fn open(port: u16, channel: &str, sharded: bool) -> Option<Ear> {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let stream = TcpStream::connect_timeout(&address, CONNECTING).ok()?;
        stream.set_nodelay(true).ok()?;
        let mut ear = Ear { stream, received: Vec::new(), port, channel: channel.to_owned() };
        let command = if sharded { "SSUBSCRIBE" } else { "SUBSCRIBE" };
        ear.stream.write_all(&packed(&[command, channel])).ok()?;
        let words = ear.words(CONNECTING).ok()??;
        words
            .first()
            .is_some_and(|kind| kind.ends_with("subscribe") && !kind.contains("unsub"))
            .then_some(ear)
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
        match self.words(within) {
            Ok(Some(mut words)) if words.len() == 3 && words[0].ends_with("message") => {
                Heard::Message(words.swap_remove(2))
            }
            Ok(None) => Heard::Nothing,
            _ => Heard::Broken,
        }
    }

    /// The words of what comes next; `None` when it has not come in time.
    fn words(&mut self, within: Duration) -> std::io::Result<Option<Vec<String>>> {
        let deadline = Instant::now() + within;
        loop {
            if let Some((words, length)) = parse(&self.received) {
                self.received.drain(..length);
                return Ok(Some(words));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            self.stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
            let mut chunk = [0; 4_096];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => self.received.extend_from_slice(&chunk[..length]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if left.is_zero() {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// The list of words that begins `bytes`, and its length; nothing while it is not complete. Anything else than a list
/// is a list of one word.
fn parse(bytes: &[u8]) -> Option<(Vec<String>, usize)> {
    let line = |at: usize| {
        let length = bytes.get(at..)?.windows(2).position(|pair| pair == b"\r\n")?;
        Some((String::from_utf8_lossy(&bytes[at..at + length]).into_owned(), at + length + 2))
    };
    let (head, mut at) = line(0)?;
    let Some(count) = head.strip_prefix('*') else { return Some((vec![head], at)) };
    let mut words = Vec::new();
    for _ in 0..count.parse::<usize>().unwrap_or(0) {
        let (head, next) = line(at)?;
        match head.strip_prefix('$').and_then(|length| length.parse::<usize>().ok()) {
            Some(length) => {
                words.push(String::from_utf8_lossy(bytes.get(next..next + length)?).into_owned());
                at = next + length + 2;
                bytes.get(..at)?;
            }
            None => {
                words.push(head);
                at = next;
            }
        }
    }
    Some((words, at))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn messages_are_taken_when_complete() {
        let bytes = b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n*3\r\n";
        let (words, length) = parse(bytes).unwrap();
        assert_eq!((words.join(" "), length), ("message c hi".to_owned(), bytes.len() - 4));
        for end in 0..length {
            assert_eq!(parse(&bytes[..end]), None);
        }
        assert_eq!(parse(b"*3\r\n$9\r\nsubscribe\r\n$-1\r\n:1\r\n").unwrap().0, ["subscribe", "$-1", ":1"]);
        assert_eq!(parse(b"-MOVED 1 a:2\r\n").unwrap().0, ["-MOVED 1 a:2"]);
    }
}
