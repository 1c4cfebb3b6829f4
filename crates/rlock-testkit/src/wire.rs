//! The protocol, spoken by hand: for what a client library hides.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::frame::{Frame, parse};

/// A connection that keeps what it has received until it is asked for.
#[derive(Debug)]
pub struct Wire {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Wire {
    /// Connects to a port of this machine.
    pub fn connect(port: u16, within: Duration) -> io::Result<Wire> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect_timeout(&address, within)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(within))?;
        Ok(Wire { stream, received: Vec::new() })
    }

    pub(crate) fn local_port(&self) -> u16 {
        self.stream.local_addr().expect("the address of a connected socket").port()
    }

    /// Sends one command.
    pub fn send<A: AsRef<[u8]>>(&mut self, words: &[A]) -> io::Result<()> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words.iter().map(AsRef::as_ref) {
            bytes.extend(format!("${}\r\n", word.len()).bytes());
            bytes.extend(word);
            bytes.extend(b"\r\n");
        }
        self.stream.write_all(&bytes)
    }

    /// Sends a command and returns its reply; panics on an error reply or on none.
    #[track_caller]
    pub(crate) fn ask<A: AsRef<[u8]>>(&mut self, words: &[A], within: Duration) -> Frame {
        let name = String::from_utf8_lossy(words[0].as_ref()).into_owned();
        match self.send(words).and_then(|()| self.frame(within)) {
            Ok(Some(Frame::Error(text))) => panic!("{name}: {}", String::from_utf8_lossy(&text)),
            Ok(Some(frame)) => frame,
            Ok(None) => panic!("{name}: no reply within {within:?}"),
            Err(error) => panic!("{name}: {error}"),
        }
    }

    /// The next value; `None` when none has arrived completely `within`.
    pub fn frame(&mut self, within: Duration) -> io::Result<Option<Frame>> {
        Ok(self.sized_frame(within)?.map(|(frame, _)| frame))
    }

    /// The next value and its length in bytes.
    pub(crate) fn sized_frame(&mut self, within: Duration) -> io::Result<Option<(Frame, usize)>> {
        let deadline = Instant::now() + within;
        loop {
            if let Some((frame, length)) = parse(&self.received)? {
                self.received.drain(..length);
                return Ok(Some((frame, length)));
            }
            if !self.fill(deadline)? {
                return Ok(None);
            }
        }
    }

    /// Takes all bytes up to and including `end`; `None` when it does not arrive `within`.
    pub(crate) fn take_until(&mut self, end: &[u8], within: Duration) -> io::Result<Option<Vec<u8>>> {
        let deadline = Instant::now() + within;
        let mut searched = 0;
        loop {
            let found = self.received[searched..].windows(end.len()).position(|part| part == end);
            if let Some(position) = found {
                let rest = self.received.split_off(searched + position + end.len());
                return Ok(Some(std::mem::replace(&mut self.received, rest)));
            }
            searched = self.received.len().saturating_sub(end.len());
            if !self.fill(deadline)? {
                return Ok(None);
            }
        }
    }

    /// Drops the next `count` bytes; `false` when they do not arrive `within`.
    pub(crate) fn skip(&mut self, count: usize, within: Duration) -> io::Result<bool> {
        let deadline = Instant::now() + within;
        while self.received.len() < count {
            if !self.fill(deadline)? {
                return Ok(false);
            }
        }
        self.received.drain(..count);
        Ok(true)
    }

    /// Waits for more bytes; `false` when none came before the deadline, an error at the end.
    fn fill(&mut self, deadline: Instant) -> io::Result<bool> {
        // A timeout of zero would mean none at all.
        let left = deadline.saturating_duration_since(Instant::now());
        self.stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let mut chunk = [0; 16 * 1024];
        match self.stream.read(&mut chunk) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.received.extend(&chunk[..count]);
                Ok(true)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(Instant::now() < deadline),
            Err(error) => Err(error),
        }
    }
}
