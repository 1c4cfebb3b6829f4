//! A blocking connection that costs the client as little as possible.

use std::io::{Read, Result, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use crate::resp::{Reply, command, parse};

/// No benchmark waits this long for a reply on a blocking connection.
const DEADLINE: Duration = Duration::from_secs(20);

/// A connection to a server on this machine.
pub(crate) struct Wire {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Wire {
    /// Connects to the server on `port`.
    pub(crate) fn connect(port: u16) -> Result<Wire> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        Ok(Wire { stream, received: Vec::new() })
    }

    /// Connects; a reply may take any time.
    pub(crate) fn connect_patiently(port: u16) -> Result<Wire> {
        let wire = Wire::connect(port)?;
        wire.stream.set_read_timeout(None)?;
        Ok(wire)
    }

    /// Sends what was encoded before and expects exactly these bytes as the answer.
    ///
    /// Comparing is cheaper than parsing, and no benchmark can measure refusals by mistake.
    pub(crate) fn exchange(&mut self, request: &[u8], answer: &[u8]) {
        self.stream.write_all(request).expect("sending to the server");
        self.received.resize(answer.len(), 0);
        self.stream.read_exact(&mut self.received).expect("the server's answer");
        if self.received != answer {
            let show = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
            panic!("expected {:?} …, the server answered {:?} …", show(answer), show(&self.received));
        }
        self.received.clear();
    }

    /// Sends one command and hands its reply to `read`; panics on an error reply.
    pub(crate) fn ask<T>(&mut self, words: &[&str], read: impl FnOnce(&Reply<'_>) -> T) -> T {
        self.stream.write_all(&command(words)).expect("sending to the server");
        self.received.clear();
        loop {
            let mut chunk = [0; 16 * 1024];
            let count = self.stream.read(&mut chunk).unwrap_or_else(|error| panic!("{words:?}: {error}"));
            assert!(count > 0, "{words:?}: the server closed the connection");
            self.received.extend_from_slice(&chunk[..count]);
            if let Some((reply, length)) = parse(&self.received).expect("the Redis protocol") {
                assert_eq!(length, self.received.len(), "{words:?}: more than one reply");
                if let Reply::Error(text) = reply {
                    panic!("{words:?}: {}", String::from_utf8_lossy(text));
                }
                return read(&reply);
            }
        }
    }

    /// The text of a command's reply.
    pub(crate) fn text(&mut self, words: &[&str]) -> String {
        self.ask(words, |reply| match reply {
            Reply::Text(text) => String::from_utf8_lossy(text).into_owned(),
            other => panic!("{words:?}: a string was expected, not {other:?}"),
        })
    }

    /// A number from a section of INFO.
    pub(crate) fn info(&mut self, section: &str, field: &str) -> i64 {
        let text = self.text(&["INFO", section]);
        let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value
            .and_then(|value| value.trim().parse().ok())
            .unwrap_or_else(|| panic!("INFO {section} has no number {field}"))
    }
}
