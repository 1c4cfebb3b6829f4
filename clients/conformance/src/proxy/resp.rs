//! The protocol of servers, both versions, as far as a proxy looks into it.

/// A value; what is not looked into is text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Frame {
    Text(Vec<u8>),
    Error(String),
    Int(i64),
    Null,
    Items(Vec<Frame>),
    Push(Vec<Frame>),
}

impl Frame {
    pub(crate) fn text(&self) -> Option<String> {
        match self {
            Frame::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            Frame::Int(number) => Some(number.to_string()),
            _ => None,
        }
    }

    /// The words of a message or of the confirmation of a subscription, if it is one.
    pub(crate) fn message(&self, subscriber: bool) -> Option<Vec<String>> {
        let items = match self {
            Frame::Push(items) => items,
            Frame::Items(items) if subscriber => items,
            _ => return None,
        };
        let words: Vec<String> = items.iter().map(|item| item.text().unwrap_or_default()).collect();
        let first = words.first()?.as_str();
        let kinds = ["message", "pmessage", "smessage"];
        let known = kinds.contains(&first) || first.ends_with("subscribe");
        (known || matches!(self, Frame::Push(_))).then_some(words)
    }
}

/// The first value in `bytes` and its length; `None` while it is incomplete.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Frame, usize)>, String> {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let Some((kind, text)) = bytes.get(..end).and_then(<[u8]>::split_first) else {
        return Err("an empty line".to_string());
    };
    let next = end + 2;
    let frame = match *kind {
        b'+' | b',' | b'(' => Frame::Text(text.to_vec()),
        b'-' => Frame::Error(String::from_utf8_lossy(text).into_owned()),
        b':' => Frame::Int(number(text)?),
        b'#' => Frame::Int(i64::from(text == b"t")),
        b'_' => Frame::Null,
        b'$' | b'=' | b'!' => return blob(bytes, next, number(text)?),
        b'*' | b'~' => return items(bytes, next, number(text)?, Frame::Items),
        b'>' => return items(bytes, next, number(text)?, Frame::Push),
        b'%' => return items(bytes, next, number(text)?.saturating_mul(2), Frame::Items),
        _ => {
            return Err(format!(
                "not the protocol: {:?}",
                String::from_utf8_lossy(bytes.get(..end).unwrap_or_default())
            ));
        }
    };
    Ok(Some((frame, next)))
}

fn blob(bytes: &[u8], start: usize, length: i64) -> Result<Option<(Frame, usize)>, String> {
    let Ok(length) = usize::try_from(length) else { return Ok(Some((Frame::Null, start))) };
    let end = start.saturating_add(length);
    if bytes.len() < end.saturating_add(2) {
        return Ok(None);
    }
    Ok(bytes.get(start..end).map(|text| (Frame::Text(text.to_vec()), end + 2)))
}

fn items(
    bytes: &[u8],
    start: usize,
    count: i64,
    kind: fn(Vec<Frame>) -> Frame,
) -> Result<Option<(Frame, usize)>, String> {
    if count < 0 {
        return Ok(Some((Frame::Null, start)));
    }
    let (mut items, mut next) = (Vec::new(), start);
    for _ in 0..count {
        let Some((item, length)) = parse(bytes.get(next..).unwrap_or_default())? else { return Ok(None) };
        items.push(item);
        next += length;
    }
    Ok(Some((kind(items), next)))
}

fn number(text: &[u8]) -> Result<i64, String> {
    let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
    text.parse().map_err(|_| format!("not a number: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_both_versions_are_taken_when_complete() {
        let bytes = b"*3\r\n:1\r\n$-1\r\n%1\r\n+a\r\n_\r\n>2\r\n+message\r\n#t\r\n";
        let (frame, length) = parse(bytes).unwrap().unwrap();
        let map = Frame::Items(vec![Frame::Text(b"a".to_vec()), Frame::Null]);
        assert_eq!(frame, Frame::Items(vec![Frame::Int(1), Frame::Null, map]));
        for end in 0..length {
            assert_eq!(parse(&bytes[..end]).unwrap(), None);
        }
        let (push, _) = parse(&bytes[length..]).unwrap().unwrap();
        assert_eq!(push.message(false).unwrap(), ["message", "1"]);
        assert!(parse(b"nonsense\r\n").is_err());
    }
}
