//! The protocol, spoken by hand: for what a client library hides.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// A RESP2 value.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names are those of the protocol")]
pub enum Frame {
    Simple(Vec<u8>),
    Error(Vec<u8>),
    Int(i64),
    Bulk(Option<Vec<u8>>),
    Array(Vec<Frame>),
}

impl Frame {
    /// The words of an array of strings; numbers become their digits.
    pub fn into_words(self) -> Option<Vec<Vec<u8>>> {
        let Frame::Array(items) = self else { return None };
        let word = |item| match item {
            Frame::Bulk(Some(bytes)) | Frame::Simple(bytes) => Some(bytes),
            Frame::Bulk(None) => Some(Vec::new()),
            Frame::Int(number) => Some(number.to_string().into_bytes()),
            Frame::Error(_) | Frame::Array(_) => None,
        };
        items.into_iter().map(word).collect()
    }
}

/// Takes one value from the start of `bytes`: the value and its length, or `None` if incomplete.
pub(crate) fn parse(bytes: &[u8]) -> io::Result<Option<(Frame, usize)>> {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let (kind, text, next) = (bytes[0], bytes.get(1..end).unwrap_or_default(), end + 2);
    let frame = match kind {
        b'+' => Frame::Simple(text.to_vec()),
        b'-' => Frame::Error(text.to_vec()),
        b':' => Frame::Int(number(text)?),
        b'$' => return parse_bulk(bytes, next, number(text)?),
        b'*' => return parse_array(bytes, next, number(text)?),
        _ => return Err(malformed(bytes)),
    };
    Ok(Some((frame, next)))
}

fn parse_bulk(bytes: &[u8], start: usize, length: i64) -> io::Result<Option<(Frame, usize)>> {
    let Ok(length) = usize::try_from(length) else { return Ok(Some((Frame::Bulk(None), start))) };
    let end = start + length;
    if bytes.len() < end + 2 {
        return Ok(None);
    }
    Ok(Some((Frame::Bulk(Some(bytes[start..end].to_vec())), end + 2)))
}

fn parse_array(bytes: &[u8], start: usize, count: i64) -> io::Result<Option<(Frame, usize)>> {
    let mut items = Vec::new();
    let mut next = start;
    for _ in 0..count {
        let Some((item, length)) = parse(&bytes[next..])? else { return Ok(None) };
        items.push(item);
        next += length;
    }
    Ok(Some((Frame::Array(items), next)))
}

fn number(text: &[u8]) -> io::Result<i64> {
    let text_number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    text_number.ok_or_else(|| malformed(text))
}

fn malformed(bytes: &[u8]) -> io::Error {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
    io::Error::new(ErrorKind::InvalidData, format!("not the Redis protocol: {start:?}"))
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_taken_when_complete() {
        let bytes = b"*3\r\n$3\r\na\r\n\r\n:-7\r\n$-1\r\n+rest";
        let (frame, length) = parse(bytes).unwrap().unwrap();
        assert_eq!(length, bytes.len() - 5);
        let words = frame.into_words().unwrap();
        assert_eq!(words, [b"a\r\n".to_vec(), b"-7".to_vec(), Vec::new()]);
        for end in 0..length {
            assert_eq!(parse(&bytes[..end]).unwrap(), None);
        }
        assert!(parse(b"nonsense\r\n").is_err());
    }
}
