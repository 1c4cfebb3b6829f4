//! The values of the protocol, in both versions.

use std::io::{self, ErrorKind};

/// A value. Types of RESP3 that no test tells apart are read as the nearest one of RESP2.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// A string, simple or bulk, or a number that is not an integer.
    Text(Vec<u8>),
    /// An error.
    Error(Vec<u8>),
    /// An integer, or a boolean.
    Int(i64),
    /// Null, of any kind.
    Null,
    /// An array, a set, or the keys and values of a map.
    Array(Vec<Frame>),
    /// A push message of RESP3.
    Push(Vec<Frame>),
}

impl Frame {
    /// The words of an array of strings; numbers become their digits.
    pub fn into_words(self) -> Option<Vec<Vec<u8>>> {
        let Frame::Array(items) = self else { return None };
        let word = |item| match item {
            Frame::Text(bytes) => Some(bytes),
            Frame::Null => Some(Vec::new()),
            Frame::Int(number) => Some(number.to_string().into_bytes()),
            Frame::Error(_) | Frame::Array(_) | Frame::Push(_) => None,
        };
        items.into_iter().map(word).collect()
    }

    /// A string, or the digits of an integer.
    pub fn text(&self) -> Option<String> {
        match self {
            Frame::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            Frame::Int(number) => Some(number.to_string()),
            _ => None,
        }
    }
}

/// Takes one value from the start of `bytes`: the value and its length, or `None` if it is incomplete.
pub fn parse(bytes: &[u8]) -> io::Result<Option<(Frame, usize)>> {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let (kind, text, next) = (bytes[0], bytes.get(1..end).unwrap_or_default(), end + 2);
    let frame = match kind {
        b'+' | b',' | b'(' => Frame::Text(text.to_vec()),
        b'-' => Frame::Error(text.to_vec()),
        b':' => Frame::Int(number(text)?),
        b'#' => Frame::Int(i64::from(text == b"t")),
        b'_' => Frame::Null,
        b'$' | b'=' | b'!' => return parse_bulk(bytes, next, number(text)?),
        b'*' | b'~' => return parse_items(bytes, next, number(text)?, Frame::Array),
        b'>' => return parse_items(bytes, next, number(text)?, Frame::Push),
        b'%' => return parse_items(bytes, next, 2 * number(text)?, Frame::Array),
        _ => return Err(malformed(bytes)),
    };
    Ok(Some((frame, next)))
}

fn parse_bulk(bytes: &[u8], start: usize, length: i64) -> io::Result<Option<(Frame, usize)>> {
    let Ok(length) = usize::try_from(length) else { return Ok(Some((Frame::Null, start))) };
    let end = start + length;
    if bytes.len() < end + 2 {
        return Ok(None);
    }
    Ok(Some((Frame::Text(bytes[start..end].to_vec()), end + 2)))
}

fn parse_items(
    bytes: &[u8],
    start: usize,
    count: i64,
    kind: fn(Vec<Frame>) -> Frame,
) -> io::Result<Option<(Frame, usize)>> {
    if count < 0 {
        return Ok(Some((Frame::Null, start)));
    }
    let (mut items, mut next) = (Vec::new(), start);
    for _ in 0..count {
        let Some((item, length)) = parse(&bytes[next..])? else { return Ok(None) };
        items.push(item);
        next += length;
    }
    Ok(Some((kind(items), next)))
}

fn number(text: &[u8]) -> io::Result<i64> {
    let text_number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    text_number.ok_or_else(|| malformed(text))
}

fn malformed(bytes: &[u8]) -> io::Error {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
    io::Error::new(ErrorKind::InvalidData, format!("not the Redis protocol: {start:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_both_versions_are_taken_when_complete() {
        let bytes =
            b"*6\r\n$3\r\na\r\n\r\n:-7\r\n$-1\r\n-ERR x\r\n%1\r\n+a\r\n_\r\n>2\r\n+message\r\n#t\r\n+rest";
        let (frame, length) = parse(bytes).unwrap().unwrap();
        assert_eq!(length, bytes.len() - 5);
        let text = |text: &[u8]| Frame::Text(text.to_vec());
        let items = vec![
            text(b"a\r\n"),
            Frame::Int(-7),
            Frame::Null,
            Frame::Error(b"ERR x".to_vec()),
            Frame::Array(vec![text(b"a"), Frame::Null]),
            Frame::Push(vec![text(b"message"), Frame::Int(1)]),
        ];
        assert_eq!(frame, Frame::Array(items.clone()));
        let words = Frame::Array(items[..3].to_vec()).into_words().unwrap();
        assert_eq!(words, [b"a\r\n".to_vec(), b"-7".to_vec(), Vec::new()]);
        for end in 0..length {
            assert_eq!(parse(&bytes[..end]).unwrap(), None);
        }
        assert!(parse(b"nonsense\r\n").is_err());
    }
}
