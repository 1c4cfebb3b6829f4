//! The messages that enqueued waiters get on their channel: ASCII, fields parted by one space.
//!
//! - `granted <db> <owner> <key> <holds> <lease-ms> <token>`
//! - `timeout <db> <owner> <key>`
//! - `dropped <db> <owner> <key> <reason>`
//!
//! Owner and key are percent-encoded, so that no byte of theirs parts fields. Readers skip messages with
//! an unknown first word, and fields after those they know.

use crate::queue::LockId;
use crate::types::LeaseMs;

/// The lock is the waiter's, for so long unless it confirms; `token` is 0 where none was asked for.
pub fn granted(lock: &LockId, owner: &[u8], lease: LeaseMs, token: i64) -> Vec<u8> {
    let mut message = head("granted", lock, owner);
    message.extend_from_slice(format!(" 1 {} {token}", lease.get()).as_bytes());
    message
}

/// The wait has ended.
pub fn timeout(lock: &LockId, owner: &[u8]) -> Vec<u8> {
    head("timeout", lock, owner)
}

/// The waiter was taken out of the queue by something other than its own doing.
pub fn dropped(lock: &LockId, owner: &[u8], reason: DropReason) -> Vec<u8> {
    let mut message = head("dropped", lock, owner);
    message.push(b' ');
    message.extend_from_slice(reason.word().as_bytes());
    message
}

/// Why a waiter was dropped or unblocked without a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The same owner waits by a later call.
    Replaced,
    /// The server has become a replica.
    Demoted,
    /// The lock's slot is served by another server.
    Moved,
    /// The module had an internal error, and its queues are in doubt.
    InDoubt,
    /// There is no fencing token for its grant.
    NoToken,
}

impl DropReason {
    /// One word, for messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Replaced => "replaced",
            Self::Demoted => "demoted",
            Self::Moved => "moved",
            Self::InDoubt => "in-doubt",
            Self::NoToken => "no-token",
        }
    }

    /// A sentence, for blocked clients.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Replaced => "the same owner waits by a later call",
            Self::Demoted => "this server is no longer the primary; find the new one and try again",
            Self::Moved => {
                "the key's slot is served by another server, or moving; try again, following redirections"
            }
            Self::InDoubt => "the module had an internal error; try again",
            Self::NoToken => "there is no fencing token for the grant",
        }
    }
}

fn head(word: &str, lock: &LockId, owner: &[u8]) -> Vec<u8> {
    let mut message = format!("{word} {} ", lock.db).into_bytes();
    percent_encode(owner, &mut message);
    message.push(b' ');
    percent_encode(&lock.key, &mut message);
    message
}

/// Appends the bytes, all but `A-Z a-z 0-9 - _ . ~ : { }` as `%` and two upper-case hexadecimal digits.
fn percent_encode(bytes: &[u8], into: &mut Vec<u8>) {
    for byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => into.push(*byte),
            b'-' | b'_' | b'.' | b'~' | b':' | b'{' | b'}' => into.push(*byte),
            other => into.extend_from_slice(format!("%{other:02X}").as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(key: &[u8]) -> LockId {
        LockId { db: 3, key: key.into() }
    }

    #[test]
    fn messages_are_fields_parted_by_one_space() {
        let lease = LeaseMs::new(5_000).expect("a lease");
        let granted = granted(&lock(b"invoice:7"), b"me:1", lease, 1_790_000_000_000);
        assert_eq!(granted, b"granted 3 me:1 invoice:7 1 5000 1790000000000");
        assert_eq!(timeout(&lock(b"{a}b"), b"x-_.~"), b"timeout 3 x-_.~ {a}b");
        let dropped = dropped(&lock(b"k"), b"o", DropReason::Demoted);
        assert_eq!(dropped, b"dropped 3 o k demoted");
    }

    #[test]
    fn no_byte_of_a_name_parts_fields() {
        let all: Vec<u8> = (0..=u8::MAX).collect();
        let message = timeout(&lock(&all), b"a b%\n");
        assert!(message.starts_with(b"timeout 3 a%20b%25%0A %00%01%02"));
        assert!(message.ends_with(b"%FE%FF"));
        assert_eq!(message.iter().filter(|byte| **byte == b' ').count(), 3);
        assert!(message.is_ascii());
    }
}
