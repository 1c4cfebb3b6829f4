//! The messages that the server sends to waiters.
//!
//! A message names lock and owner, both percent-encoded, and arrives at most once. A reader skips words and fields that it does not
//! know.

use rlock_machine::{MS, Message, Nanos};

/// The longest lease in ms.
const LONGEST: Nanos = 1 << 43;

/// An owner of a lock, and the mode in which it holds or waits: what a message names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Claim {
    pub(crate) key: Vec<u8>,
    pub(crate) owner: Vec<u8>,
    pub(crate) mode: Mode,
}

/// How a lock is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// Alone.
    #[default]
    Plain,
    /// Together with other readers.
    Read,
    /// Alone, in a read/write lock.
    Write,
    /// With one of several permits.
    Permit,
}

impl Mode {
    /// The word for this mode in commands. Permits have none: the server knows them by the key, and ACQUIRE has their number.
    pub(crate) fn word(self) -> Option<&'static str> {
        match self {
            Mode::Plain | Mode::Permit => None,
            Mode::Read => Some("READ"),
            Mode::Write => Some("WRITE"),
        }
    }

    /// The mode in a message.
    fn in_message(word: Option<&[u8]>) -> Mode {
        match word {
            Some(b"read") => Mode::Read,
            Some(b"write") => Mode::Write,
            Some(b"permit") => Mode::Permit,
            _ => Mode::Plain,
        }
    }
}

/// Reads a message; `None` for one that is not understood. `current` is for [`Message::Granted`].
pub(crate) fn parse(message: &[u8], current: bool) -> Option<(Message, Claim)> {
    let mut fields = message.split(|byte| *byte == b' ');
    let word = fields.next()?;
    let _database = fields.next()?;
    let owner = percent_decode(fields.next()?)?;
    let key = percent_decode(fields.next()?)?;
    let message = match word {
        b"granted" => {
            let _holds = fields.next();
            // Other clients can publish as well: no number in a message may overflow.
            let lease =
                fields.next().and_then(number).unwrap_or_default().clamp(0, LONGEST).saturating_mul(MS);
            Message::Granted { token: fields.next().and_then(number).unwrap_or_default(), lease, current }
        }
        b"timeout" => Message::Timeout,
        b"dropped" => {
            let _reason = fields.next();
            Message::Dropped
        }
        _ => return None,
    };
    Some((message, Claim { key, owner, mode: Mode::in_message(fields.next()) }))
}

fn number(field: &[u8]) -> Option<Nanos> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

fn percent_decode(field: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.iter();
    while let Some(byte) = rest.next() {
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let high = char::from(*rest.next()?).to_digit(16)?;
        let low = char::from(*rest.next()?).to_digit(16)?;
        bytes.push(u8::try_from(high << 4 | low).ok()?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_and_unknown_ones_skipped() {
        let in_mode = |key: &[u8], owner: &[u8], mode| Claim { key: key.into(), owner: owner.into(), mode };
        let claim = |key: &[u8], owner: &[u8]| in_mode(key, owner, Mode::Plain);
        let granted = |lease: Nanos, token| Message::Granted { token, lease: lease * MS, current: true };
        type Case<'a> = (&'a [u8], Option<(Message, Claim)>);
        let cases: &[Case<'_>] = &[
            (b"granted 0 me:1 invoice:7 1 5000 0", Some((granted(5_000, 0), claim(b"invoice:7", b"me:1")))),
            (b"granted 3 a%20b%25 %00%FF{x} 1 1 7 more", Some((granted(1, 7), claim(b"\0\xff{x}", b"a b%")))),
            (b"granted 0 me:1 k", Some((granted(0, 0), claim(b"k", b"me:1")))),
            (b"timeout 0 me:1 k", Some((Message::Timeout, claim(b"k", b"me:1")))),
            (b"dropped 0 me:1 k demoted", Some((Message::Dropped, claim(b"k", b"me:1")))),
            (b"granted 0 me:1 k 1 5 0 read", Some((granted(5, 0), in_mode(b"k", b"me:1", Mode::Read)))),
            (b"granted 0 me:1 k 1 5 0 permit", Some((granted(5, 0), in_mode(b"k", b"me:1", Mode::Permit)))),
            (b"timeout 0 me:1 k write", Some((Message::Timeout, in_mode(b"k", b"me:1", Mode::Write)))),
            (b"dropped 0 me:1 k moved read", Some((Message::Dropped, in_mode(b"k", b"me:1", Mode::Read)))),
            (b"later 0 me:1 k", None),
            (b"granted 0 me:1", None),
            (b"granted 0 m%2 k", None),
            (b"granted 0 m%zz k", None),
            (b"", None),
        ];
        for (message, expected) in cases {
            assert_eq!(parse(message, true), *expected, "{}", message.escape_ascii());
        }
    }
}
