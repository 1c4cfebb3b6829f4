//! Reads what a server replicates, command by command.

use std::time::{Duration, Instant};

use crate::Command;
use crate::server::TestServer;
use crate::wait::eventually;
use crate::wire::Wire;

/// The time limit for the server to send its snapshot.
const SNAPSHOT_DEADLINE: Duration = Duration::from_secs(20);

/// The most that replication may lag behind a write.
const LAG_DEADLINE: Duration = Duration::from_secs(10);

/// A connection that poses as a replica and yields each replicated command.
///
/// Every command a server replicates after [`ReplicaStream::open`] has returned is seen, `MULTI`
/// and `EXEC` included; its `PING` and `REPLCONF` never, `SELECT` only on request. The stream
/// acknowledges what it has read, so `WAIT` counts it while a test reads.
#[derive(Debug)]
pub struct ReplicaStream {
    wire: Wire,
    /// The replication offset of what has been read, in bytes.
    offset: u64,
    acknowledged: Instant,
    with_select: bool,
    markers: u32,
}

impl ReplicaStream {
    /// Connects as a replica and skips the snapshot.
    #[must_use]
    #[track_caller]
    pub fn open(server: &TestServer) -> ReplicaStream {
        let mut wire = server.wire();
        // This port is never connected to; it tells this replica from others.
        let port = wire.local_port().to_string();
        wire.ask(&["REPLCONF", "listening-port", &port], LAG_DEADLINE);
        wire.ask(&["REPLCONF", "capa", "eof", "capa", "psync2"], LAG_DEADLINE);
        wire.send(&["PSYNC", "?", "-1"]).unwrap_or_else(|error| panic!("PSYNC: {error}"));
        let reply = line(&mut wire);
        let offset = reply.strip_prefix("+FULLRESYNC ").and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
        let offset = offset.unwrap_or_else(|| panic!("PSYNC was refused: {reply}"));
        skip_snapshot(&mut wire);
        // An acknowledgement before that would be lost.
        eventually("the server to see the replica online", SNAPSHOT_DEADLINE, || {
            is_online(server, &port).then_some(())
        });
        let acknowledged = Instant::now();
        let mut stream = ReplicaStream { wire, offset, acknowledged, with_select: false, markers: 0 };
        // A server that sent its snapshot without a file sends nothing more until this.
        stream.acknowledge();
        stream
    }

    /// Yields `SELECT` as well.
    #[must_use]
    pub fn with_select(mut self) -> Self {
        self.with_select = true;
        self
    }

    /// The next command; `None` if none arrives `within` or the link has ended.
    pub fn next(&mut self, within: Duration) -> Option<Command> {
        let deadline = Instant::now() + within;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let (frame, length) = self.wire.sized_frame(left).ok()??;
            let command = frame.into_words().expect("a replication stream holds commands only");
            let name = command[0].to_ascii_uppercase();
            let asks = name == b"REPLCONF" && command[1].eq_ignore_ascii_case(b"GETACK");
            if asks || self.acknowledged.elapsed() > Duration::from_secs(1) {
                self.acknowledge();
            }
            self.offset += length as u64;
            let hidden = match name.as_slice() {
                b"PING" | b"REPLCONF" => true,
                b"SELECT" => !self.with_select,
                _ => false,
            };
            if !hidden {
                return Some(command);
            }
        }
    }

    /// All commands before `SET <key> …`, which the test writes to mark the end.
    ///
    /// Panics with what has been seen if the marker does not arrive within 10 seconds.
    #[track_caller]
    pub fn until_marker(&mut self, key: impl AsRef<[u8]>) -> Vec<Command> {
        let key = key.as_ref();
        let is_marker = |command: &Command| {
            command[0].eq_ignore_ascii_case(b"SET") && command.get(1).is_some_and(|word| word == key)
        };
        self.until(&format!("SET {}", key.escape_ascii()), is_marker)
    }

    /// All commands up to this call that have not been read yet.
    ///
    /// The end is marked with a message to a channel of its own, so the data set stays as it is;
    /// a cluster does not replicate messages, there [`ReplicaStream::until_marker`] serves.
    #[track_caller]
    pub fn so_far(&mut self, server: &TestServer) -> Vec<Command> {
        self.markers += 1;
        let words = ["PUBLISH".to_string(), "rlock-testkit:marker".into(), self.markers.to_string()];
        server.wire().ask(&words, LAG_DEADLINE);
        let is_marker = |command: &Command| command.iter().zip(&words).all(|(a, b)| a == b.as_bytes());
        self.until("the marker of the kit", is_marker)
    }

    #[track_caller]
    fn until(&mut self, what: &str, is_marker: impl Fn(&Command) -> bool) -> Vec<Command> {
        let deadline = Instant::now() + LAG_DEADLINE;
        let mut commands = Vec::new();
        loop {
            match self.next(deadline.saturating_duration_since(Instant::now())) {
                Some(command) if is_marker(&command) => return commands,
                Some(command) => commands.push(command),
                None => panic!("the stream ended before {what}; seen: {}", listed(&commands)),
            }
        }
    }

    fn acknowledge(&mut self) {
        // A link that has ended shows when the next command is read.
        let _ = self.wire.send(&["REPLCONF", "ACK", &self.offset.to_string()]);
        self.acknowledged = Instant::now();
    }
}

/// Whether the server counts the replica that announced `port` as online.
fn is_online(server: &TestServer, port: &str) -> bool {
    let announced = format!("port={port},");
    let fields = server.info("replication");
    fields.values().any(|value| value.contains(&announced) && value.contains("state=online"))
}

/// The next line that is not empty: empty ones keep the link alive until the snapshot is ready.
fn line(wire: &mut Wire) -> String {
    loop {
        match wire.take_until(b"\n", SNAPSHOT_DEADLINE) {
            Ok(Some(line)) if line.trim_ascii().is_empty() => {}
            Ok(Some(line)) => return String::from_utf8_lossy(&line).trim().to_string(),
            Ok(None) => panic!("the server sent no snapshot within {SNAPSHOT_DEADLINE:?}"),
            Err(error) => panic!("the server sent no snapshot: {error}"),
        }
    }
}

/// Reads over the snapshot: of announced length, or ended by an announced mark.
fn skip_snapshot(wire: &mut Wire) {
    let header = line(wire);
    let arrived = if let Some(mark) = header.strip_prefix("$EOF:") {
        wire.take_until(mark.as_bytes(), SNAPSHOT_DEADLINE).map(|bytes| bytes.is_some())
    } else if let Some(length) = header.strip_prefix('$').and_then(|length| length.parse().ok()) {
        wire.skip(length, SNAPSHOT_DEADLINE)
    } else {
        panic!("the server sent no snapshot but {header}")
    };
    match arrived {
        Ok(true) => {}
        Ok(false) => panic!("the snapshot did not arrive within {SNAPSHOT_DEADLINE:?}"),
        Err(error) => panic!("the snapshot broke off: {error}"),
    }
}

fn listed(commands: &[Command]) -> String {
    let line = |command: &Command| {
        let words: Vec<String> = command.iter().map(|word| word.escape_ascii().to_string()).collect();
        format!("\n  {}", words.join(" "))
    };
    commands.iter().map(line).collect()
}

/// Commands as one line, a transaction in parentheses.
pub fn shown(commands: &[Command]) -> String {
    let word = |word: &Vec<u8>| word.escape_ascii().to_string();
    let line = |command: &Command| command.iter().map(word).collect::<Vec<_>>().join(" ");
    let lines = commands.iter().map(line).collect::<Vec<_>>().join("; ");
    lines.replace("MULTI; ", "(").replace("; EXEC", ")")
}
