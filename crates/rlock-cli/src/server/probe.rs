//! Which protocol a server speaks, by the first bytes that it sends.

use std::io::{Error, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use redis::ConnectionAddr;

use super::Target;

/// How long a server may take to show what it is.
const PATIENCE: Duration = Duration::from_millis(500);

/// A line that Redis answers with an error, and a web server with its own protocol.
const PLAIN: &[u8] = b"PING / HTTP/1.1\r\n\r\n";

/// A TLS record with a ClientHello that is too short: every TLS server answers it with an alert.
const HELLO: &[u8] = &[22, 3, 1, 0, 5, 1, 0, 0, 1, 0];

/// What a server showed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// A reply as Redis and its forks send it, without its type.
    Server(String),
    /// TLS.
    Encrypted,
    /// HTTP.
    Web,
    /// Another protocol.
    Other,
    /// Nothing that says what it is.
    Nothing,
}

/// Connects without encryption, and listens.
pub(super) fn hear(target: &Target) -> Heard {
    let heard = first_bytes(target, PLAIN);
    match heard.as_deref().map(read) {
        // It closed the connection, as a TLS server does that is not spoken to in TLS.
        Some(Heard::Nothing) => first_bytes(target, HELLO).as_deref().map_or(Heard::Nothing, read),
        heard => heard.unwrap_or(Heard::Nothing),
    }
}

fn read(bytes: &[u8]) -> Heard {
    match bytes {
        [] => Heard::Nothing,
        // An alert or a handshake, and the version.
        [21 | 22, 3, ..] => Heard::Encrypted,
        [b'+' | b'-', reply @ ..] if is_reply(reply) => {
            let line = reply.split(|byte| *byte == b'\r').next().unwrap_or_default();
            Heard::Server(String::from_utf8_lossy(line).into_owned())
        }
        _ if bytes.starts_with(b"HTTP/") => Heard::Web,
        _ => Heard::Other,
    }
}

/// Whether it begins with a word in capitals: PONG, or the code of an error.
fn is_reply(reply: &[u8]) -> bool {
    let word = reply.split(|byte| [b' ', b'\r'].contains(byte)).next().unwrap_or_default();
    word.len() > 2 && word.iter().all(u8::is_ascii_uppercase)
}

/// Says something to a server; what it answers first, which is nothing where it closes the connection. `None` where it is
/// silent or cannot be reached.
fn first_bytes(target: &Target, words: &[u8]) -> Option<Vec<u8>> {
    let (ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. }) =
        target.connection_address()
    else {
        return None;
    };
    let by = Instant::now().checked_add(PATIENCE)?;
    let left = || by.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    let addresses = (host.as_str(), *port).to_socket_addrs().ok()?;
    let mut stream =
        addresses.into_iter().find_map(|address| TcpStream::connect_timeout(&address, left()).ok())?;
    let mut heard = Vec::new();
    let mut buffer = [0; 512];
    // A server that refuses the connection has sent the reason and closed it: then this write may fail, and the
    // reason is still to be read.
    let _ = stream.write_all(words);
    while !heard.contains(&b'\n') && heard.len() < buffer.len() && Instant::now() < by {
        stream.set_read_timeout(Some(left())).ok()?;
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => heard.extend_from_slice(buffer.get(..length)?),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_timeout(&error) => return (!heard.is_empty()).then_some(heard),
            Err(_) => break,
        }
    }
    Some(heard)
}

fn is_timeout(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_tell_protocols_apart() {
        let cases: [(&[u8], Heard); 9] = [
            (b"+PONG\r\n", Heard::Server("PONG".to_string())),
            (
                b"-NOAUTH Authentication required.\r\n",
                Heard::Server("NOAUTH Authentication required.".to_string()),
            ),
            (b"HTTP/1.1 400 Bad Request\r\n", Heard::Web),
            (&[21, 3, 3, 0, 2, 2, 70], Heard::Encrypted),
            (b"SSH-2.0-OpenSSH\r\n", Heard::Other),
            (b"+OK POP3 ready\r\n", Heard::Other),
            (b"-", Heard::Other),
            (&[0], Heard::Other),
            (b"", Heard::Nothing),
        ];
        for (bytes, heard) in cases {
            assert_eq!(read(bytes), heard, "{bytes:?}");
        }
    }
}
