//! PostgreSQL's advisory locks of a session, by prepared statements on one connection: no driver, so that the client costs as
//! little as those of Redis.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::AtomicBool;

use super::way::Way;

const LOCK: &str = "SELECT pg_advisory_lock(hashtextextended($1, 0))";
const UNLOCK: &str = "SELECT pg_advisory_unlock(hashtextextended($1, 0))";
const WAITING: &str =
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND $1 <> ''";

/// One connection, and so one session.
pub(super) struct Postgres {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Postgres {
    pub(super) fn connect(port: u16) -> Postgres {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
        let stream = stream.unwrap_or_else(|error| panic!("port {port}: {error}"));
        stream.set_nodelay(true).expect("TCP_NODELAY");
        let mut session = Postgres { stream, received: Vec::new() };
        session.exchange(&startup()).unwrap_or_else(|error| panic!("PostgreSQL: {error}"));
        for (name, statement) in [("lock", LOCK), ("unlock", UNLOCK), ("waiting", WAITING)] {
            session
                .exchange(&prepare(name, statement))
                .unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        session
    }

    /// The text of the one field of a prepared statement's one row.
    fn run(&mut self, name: &str, parameter: &str) -> String {
        let row = self.exchange(&execute(name, parameter));
        row.unwrap_or_else(|error| panic!("{name}: {error}")).unwrap_or_default()
    }

    fn exchange(&mut self, request: &[u8]) -> Result<Option<String>> {
        self.stream.write_all(request)?;
        self.received.clear();
        loop {
            let mut chunk = [0; 4096];
            let count = self.stream.read(&mut chunk)?;
            if count == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.received.extend_from_slice(&chunk[..count]);
            if let Some(row) = answer(&self.received)? {
                return Ok(row);
            }
        }
    }
}

impl Way for Postgres {
    fn acquire(&mut self, key: &str, _leaving: &AtomicBool) -> bool {
        self.run("lock", key);
        true
    }

    fn release(&mut self, key: &str) {
        assert_eq!(self.run("unlock", key), "t", "the lock was held");
    }

    fn waiting(&mut self, _key: &str) -> usize {
        self.run("waiting", "any").parse().expect("a count")
    }
}

/// A message: its type, the length of what follows, and that.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).expect("a short message");
    [&[kind][..], &length.to_be_bytes(), body].concat()
}

/// The first message has no type.
fn startup() -> Vec<u8> {
    let version = 0x0003_0000_u32.to_be_bytes();
    message(0, &[&version[..], b"user\0postgres\0database\0postgres\0\0"].concat())[1..].to_vec()
}

fn prepare(name: &str, statement: &str) -> Vec<u8> {
    let body = format!("{name}\0{statement}\0\0\0");
    [message(b'P', body.as_bytes()), message(b'S', b"")].concat()
}

fn execute(name: &str, parameter: &str) -> Vec<u8> {
    let length = u32::try_from(parameter.len()).expect("a short parameter").to_be_bytes();
    // Neither formats of parameters nor of results: all is text.
    let bind = [b"\0", name.as_bytes(), b"\0\0\0\0\x01", &length[..], parameter.as_bytes(), b"\0\0"].concat();
    [message(b'B', &bind), message(b'E', b"\0\0\0\0\0"), message(b'S', b"")].concat()
}

/// The first field of the row in a complete answer; `None` if it is incomplete.
fn answer(mut bytes: &[u8]) -> Result<Option<Option<String>>> {
    let mut row = None;
    while let [kind, a, b, c, d, rest @ ..] = bytes {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        let Some(body) = length.checked_sub(4).and_then(|length| rest.get(..length)) else { break };
        match kind {
            b'Z' => return Ok(Some(row)),
            b'E' => return Err(Error::other(String::from_utf8_lossy(body).replace('\0', " "))),
            // The number of fields, then each with its length.
            b'D' => row = Some(String::from_utf8_lossy(body.get(6..).unwrap_or_default()).into_owned()),
            _ => {}
        }
        bytes = &rest[body.len()..];
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_its_length() {
        assert_eq!(message(b'S', b""), b"S\0\0\0\x04");
        assert_eq!(startup()[..8], [0, 0, 0, 41, 0, 3, 0, 0]);
        assert_eq!(prepare("n", "S")[..12], *b"P\0\0\0\x0an\0S\0\0\0S");
        assert_eq!(execute("n", "ab")[..20], *b"B\0\0\0\x13\0n\0\0\0\0\x01\0\0\0\x02ab\0\0");
    }

    #[test]
    fn an_answer_is_taken_when_complete() {
        let bytes = b"2\0\0\0\x04D\0\0\0\x0b\0\x01\0\0\0\x01tC\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I";
        assert_eq!(answer(bytes).unwrap(), Some(Some("t".into())));
        for end in 0..bytes.len() {
            assert!(answer(&bytes[..end]).unwrap().is_none(), "{end}");
        }
        assert!(answer(b"E\0\0\0\x0aSFATAL").unwrap_err().to_string().contains("FATAL"));
        assert_eq!(answer(b"1\0\0\0\x04Z\0\0\0\x05I").unwrap(), Some(None));
    }
}
