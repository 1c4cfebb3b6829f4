//! The protocol: commands are encoded once, replies are read without copies.

use std::io::{Error, ErrorKind, Result};

/// A command in RESP, ready to be sent.
pub(crate) fn command<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let mut bytes = Vec::new();
    append(&mut bytes, words);
    bytes
}

/// Appends a command to the bytes of the next write.
pub(crate) fn append<W: AsRef<[u8]>>(bytes: &mut Vec<u8>, words: &[W]) {
    bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words.iter().map(AsRef::as_ref) {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
}

/// A RESP2 reply, borrowed from the bytes that arrived.
#[derive(Debug, PartialEq)]
pub(crate) enum Reply<'a> {
    /// Null, of either kind.
    Null,
    /// An integer.
    Int(i64),
    /// A status, or a string.
    Text(&'a [u8]),
    /// An error.
    Error(&'a [u8]),
    /// An array.
    Array(Vec<Reply<'a>>),
}

/// Takes one reply from the start of `bytes`: the reply and its length, or `None` if incomplete.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Reply<'_>, usize)>> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let line = bytes.get(1..end.saturating_sub(1)).ok_or_else(malformed)?;
    let next = end + 1;
    let reply = match bytes.first() {
        Some(b'+') => Reply::Text(line),
        Some(b'-') => Reply::Error(line),
        Some(b':') => Reply::Int(number(line)?),
        Some(b'$') => return bulk(bytes, next, number(line)?),
        Some(b'*') => return array(bytes, next, number(line)?),
        _ => return Err(malformed()),
    };
    Ok(Some((reply, next)))
}

fn bulk(bytes: &[u8], start: usize, length: i64) -> Result<Option<(Reply<'_>, usize)>> {
    let Ok(length) = usize::try_from(length) else { return Ok(Some((Reply::Null, start))) };
    let end = start + length;
    if bytes.len() < end + 2 {
        return Ok(None);
    }
    Ok(Some((Reply::Text(&bytes[start..end]), end + 2)))
}

fn array(bytes: &[u8], start: usize, count: i64) -> Result<Option<(Reply<'_>, usize)>> {
    if count < 0 {
        return Ok(Some((Reply::Null, start)));
    }
    let (mut items, mut next) = (Vec::new(), start);
    for _ in 0..count {
        let Some((item, length)) = parse(&bytes[next..])? else { return Ok(None) };
        items.push(item);
        next += length;
    }
    Ok(Some((Reply::Array(items), next)))
}

fn number(text: &[u8]) -> Result<i64> {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or_else(malformed)
}

fn malformed() -> Error {
    Error::new(ErrorKind::InvalidData, "the server's answer is not the Redis protocol")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_an_array_of_strings() {
        assert_eq!(command(&["GET", "a b"]), b"*2\r\n$3\r\nGET\r\n$3\r\na b\r\n");
    }

    #[test]
    fn a_reply_is_taken_when_complete() {
        let bytes = b"*4\r\n:1\r\n$2\r\nab\r\n$-1\r\n-ERR x\r\n+rest";
        let (reply, length) = parse(bytes).unwrap().unwrap();
        assert_eq!(length, bytes.len() - 5);
        let expected = vec![Reply::Int(1), Reply::Text(b"ab"), Reply::Null, Reply::Error(b"ERR x")];
        assert_eq!(reply, Reply::Array(expected));
        for end in 0..length {
            assert!(parse(&bytes[..end]).unwrap().is_none());
        }
        assert!(parse(b"nonsense\r\n").is_err());
    }
}
