//! The messages that the server sends to who waits, and who of this client waits.
//!
//! A message names lock and owner, both percent-encoded, and comes at most once; a reader skips words and
//! fields that it does not know.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The outcome of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The lock is the owner's, if it confirms.
    Granted,
    /// The wait has ended.
    Timeout,
    /// The server waits no more for this owner.
    Dropped,
}

/// An owner of a lock: what a message names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Party {
    pub(crate) key: Vec<u8>,
    pub(crate) owner: Vec<u8>,
}

/// Reads a message; `None` for one that is not understood.
pub(crate) fn parse(message: &[u8]) -> Option<(Notice, Party)> {
    let mut fields = message.split(|byte| *byte == b' ');
    let notice = match fields.next()? {
        b"granted" => Notice::Granted,
        b"timeout" => Notice::Timeout,
        b"dropped" => Notice::Dropped,
        _ => return None,
    };
    let _database = fields.next()?;
    let owner = percent_decode(fields.next()?)?;
    let key = percent_decode(fields.next()?)?;
    Some((notice, Party { key, owner }))
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

/// The mailboxes of all owners of this client that wait, or have waited and still hold.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    boxes: Mutex<HashMap<Party, UnboundedSender<Notice>>>,
}

impl Inbox {
    /// Opens a mailbox; before the first ENQUEUE.
    pub(crate) fn open(&self, party: Party) -> UnboundedReceiver<Notice> {
        let (sender, receiver) = unbounded_channel();
        self.lock().insert(party, sender);
        receiver
    }

    /// Closes a mailbox: from now on a grant to this owner is to be given back.
    pub(crate) fn close(&self, party: &Party) {
        self.lock().remove(party);
    }

    /// Puts a notice into the owner's mailbox; `false` where it has none.
    pub(crate) fn deliver(&self, party: &Party, notice: Notice) -> bool {
        let boxes = self.lock();
        let Some(sender) = boxes.get(party) else { return false };
        // An owner that holds the lock by now does not read its mailbox any more.
        let _ = sender.send(notice);
        true
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Party, UnboundedSender<Notice>>> {
        self.boxes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_and_unknown_ones_skipped() {
        let party = |key: &[u8], owner: &[u8]| Party { key: key.into(), owner: owner.into() };
        type Case<'a> = (&'a [u8], Option<(Notice, Party)>);
        let cases: &[Case<'_>] = &[
            (b"granted 0 me:1 invoice:7 1 5000 0", Some((Notice::Granted, party(b"invoice:7", b"me:1")))),
            (
                b"granted 3 a%20b%25 %00%FF{x} 1 1 0 more",
                Some((Notice::Granted, party(b"\0\xff{x}", b"a b%"))),
            ),
            (b"timeout 0 me:1 k", Some((Notice::Timeout, party(b"k", b"me:1")))),
            (b"dropped 0 me:1 k demoted", Some((Notice::Dropped, party(b"k", b"me:1")))),
            (b"later 0 me:1 k", None),
            (b"granted 0 me:1", None),
            (b"granted 0 m%2 k", None),
            (b"granted 0 m%zz k", None),
            (b"", None),
        ];
        for (message, expected) in cases {
            assert_eq!(parse(message), *expected, "{}", message.escape_ascii());
        }
    }
}
