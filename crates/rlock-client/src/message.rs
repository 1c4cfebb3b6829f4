//! The messages that the server sends to waiters, and the waiters of this client.
//!
//! A message names lock and owner, both percent-encoded, and arrives at most once; a reader skips words and
//! fields that it does not know.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

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

/// An owner of a lock, and in which way it holds or waits: what a message names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Party {
    pub(crate) key: Vec<u8>,
    pub(crate) owner: Vec<u8>,
    pub(crate) mode: Mode,
}

/// In which way a lock is held.
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
    /// The word that commands take. Permits are known by their key; ACQUIRE says how many there are.
    pub(crate) fn word(self) -> Option<&'static str> {
        match self {
            Mode::Plain | Mode::Permit => None,
            Mode::Read => Some("READ"),
            Mode::Write => Some("WRITE"),
        }
    }

    /// What a message or a holder of `RLOCK.INFO` says.
    pub(crate) fn told(word: Option<&[u8]>) -> Mode {
        match word {
            Some(b"read") => Mode::Read,
            Some(b"write") => Mode::Write,
            Some(b"permit") => Mode::Permit,
            _ => Mode::Plain,
        }
    }
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
    // Before the mode a grant has holds, lease and token, and a drop its reason.
    let before_mode = match notice {
        Notice::Granted => 3,
        Notice::Timeout => 0,
        Notice::Dropped => 1,
    };
    let mode = Mode::told(fields.nth(before_mode));
    Some((notice, Party { key, owner, mode }))
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

/// The messages to one owner that it has not read yet.
///
/// Most owners get their lock at once: an empty mailbox costs next to nothing, unlike a channel.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    notices: Mutex<VecDeque<Notice>>,
    came: Notify,
}

impl Mailbox {
    /// The next notice; waits for it.
    pub(crate) async fn next(&self) -> Notice {
        loop {
            // What comes between these two leaves a permit behind.
            if let Some(notice) = self.notices().pop_front() {
                return notice;
            }
            self.came.notified().await;
        }
    }

    fn put(&self, notice: Notice) {
        self.notices().push_back(notice);
        self.came.notify_one();
    }

    fn notices(&self) -> MutexGuard<'_, VecDeque<Notice>> {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The mailboxes of this client's waiters, and of holders that have waited.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    // Ordered, since two names of this length are compared in a tenth of the time that hashing one takes.
    boxes: Mutex<BTreeMap<Arc<Party>, Arc<Mailbox>>>,
}

impl Inbox {
    /// Opens a mailbox; before the first ENQUEUE.
    pub(crate) fn open(&self, party: Arc<Party>) -> Arc<Mailbox> {
        let mailbox = Arc::<Mailbox>::default();
        self.lock().insert(party, mailbox.clone());
        mailbox
    }

    /// Closes a mailbox that is no longer read.
    pub(crate) fn close(&self, party: &Party) {
        self.lock().remove(party);
    }

    /// Puts a message from the server into the owner's mailbox.
    ///
    /// A grant to an owner without one ends unconfirmed. It is not released: a copy of this client, restored
    /// from a snapshot of the machine, receives its grants by the same channel.
    pub(crate) fn deliver(&self, message: &[u8]) {
        match parse(message) {
            Some((notice, party)) => {
                // An owner that holds the lock by now does not read its mailbox any more.
                if let Some(mailbox) = self.lock().get(&party) {
                    mailbox.put(notice);
                }
            }
            None => {
                tracing::debug!(message = %message.escape_ascii(), "a message of an unknown kind was skipped");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<Party>, Arc<Mailbox>>> {
        self.boxes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_and_unknown_ones_skipped() {
        let as_mode = |key: &[u8], owner: &[u8], mode| Party { key: key.into(), owner: owner.into(), mode };
        let party = |key: &[u8], owner: &[u8]| as_mode(key, owner, Mode::Plain);
        type Case<'a> = (&'a [u8], Option<(Notice, Party)>);
        let cases: &[Case<'_>] = &[
            (b"granted 0 me:1 invoice:7 1 5000 0", Some((Notice::Granted, party(b"invoice:7", b"me:1")))),
            (
                b"granted 3 a%20b%25 %00%FF{x} 1 1 0 more",
                Some((Notice::Granted, party(b"\0\xff{x}", b"a b%"))),
            ),
            (b"timeout 0 me:1 k", Some((Notice::Timeout, party(b"k", b"me:1")))),
            (b"dropped 0 me:1 k demoted", Some((Notice::Dropped, party(b"k", b"me:1")))),
            (b"granted 0 me:1 k 1 5 0 read", Some((Notice::Granted, as_mode(b"k", b"me:1", Mode::Read)))),
            (b"granted 0 me:1 k 1 5 0 permit", Some((Notice::Granted, as_mode(b"k", b"me:1", Mode::Permit)))),
            (b"timeout 0 me:1 k write", Some((Notice::Timeout, as_mode(b"k", b"me:1", Mode::Write)))),
            (b"dropped 0 me:1 k moved read", Some((Notice::Dropped, as_mode(b"k", b"me:1", Mode::Read)))),
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
