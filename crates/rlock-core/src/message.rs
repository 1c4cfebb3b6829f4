//! The messages that enqueued waiters get on their channel: ASCII, fields parted by one space.
//!
//! - `granted <db> <owner> <key> <holds> <lease-ms> <token>`
//! - `timeout <db> <owner> <key>`
//! - `dropped <db> <owner> <key> <reason>`
//!
//! Messages to waiting readers and writers have one more field at the end, `read` or `write`.
//!
//! Owner and key are percent-encoded, so that no byte of theirs parts fields. Readers skip messages with
//! an unknown first word, and fields after those they know.

use crate::locks::{DropReason, LockName, Waiter};
use crate::types::{Holds, LeaseMs, Mode};

/// The lock is granted: the waiter holds it for this lease, and longer only if it confirms. `token` is 0 without FENCED.
pub fn granted(lock: LockName<'_>, waiter: &Waiter, holds: Holds, lease: LeaseMs, token: i64) -> Vec<u8> {
    let mut message = head("granted", lock, &waiter.owner);
    message.extend_from_slice(format!(" {} {} {token}", holds.get(), lease.get()).as_bytes());
    with_mode(message, waiter.mode())
}

/// The wait has ended.
pub fn timeout(lock: LockName<'_>, waiter: &Waiter) -> Vec<u8> {
    with_mode(head("timeout", lock, &waiter.owner), waiter.mode())
}

/// The waiter was dropped from the queue without a grant or a time-out.
pub fn dropped(lock: LockName<'_>, waiter: &Waiter, reason: DropReason) -> Vec<u8> {
    let mut message = head("dropped", lock, &waiter.owner);
    message.push(b' ');
    message.extend_from_slice(reason.word().as_bytes());
    with_mode(message, waiter.mode())
}

fn with_mode(mut message: Vec<u8>, mode: Mode) -> Vec<u8> {
    if let Some(word) = mode.word() {
        message.push(b' ');
        message.extend_from_slice(word.as_bytes());
    }
    message
}

fn head(word: &str, lock: LockName<'_>, owner: &[u8]) -> Vec<u8> {
    let mut message = format!("{word} {} ", lock.db).into_bytes();
    percent_encode(owner, &mut message);
    message.push(b' ');
    percent_encode(lock.key, &mut message);
    message
}

/// Appends the bytes, all but `A-Z a-z 0-9 - _ . ~ : { }` as `%` and two upper-case hexadecimal digits.
fn percent_encode(bytes: &[u8], into: &mut Vec<u8>) {
    for byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => into.push(*byte),
            b'-' | b'_' | b'.' | b'~' | b':' | b'{' | b'}' => into.push(*byte),
            other => into.extend([b'%', digit(other >> 4), digit(other & 0xf)]),
        }
    }
}

/// An upper-case hexadecimal digit. Five hundred messages of one event-loop cycle may have a thousand of them each: to format
/// them took longer than all the rest.
fn digit(nibble: u8) -> u8 {
    b"0123456789ABCDEF".get(usize::from(nibble)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locks::{DropReason, Ticket, Via};
    use crate::types::{MonoMs, Wanted};

    fn lock(key: &[u8]) -> LockName<'_> {
        LockName { db: 3, key }
    }

    fn waiter(owner: &[u8], wanted: Wanted) -> Waiter {
        let (since, ticket) = (MonoMs(0), Ticket(1));
        let lease = LeaseMs::SHORTEST;
        Waiter {
            owner: owner.into(),
            wanted,
            lease,
            fenced: false,
            fair: false,
            since,
            until: None,
            ticket,
            via: Via::Block,
            client_id: 1,
            session: None,
            user: None,
        }
    }

    #[test]
    fn messages_are_fields_parted_by_one_space() {
        let lease = LeaseMs::new(5_000).expect("a lease");
        let mutex = |owner| waiter(owner, Wanted::Mutex);
        let text = granted(lock(b"invoice:7"), &mutex(b"me:1"), Holds::ONE, lease, 1_790_000_000_000);
        assert_eq!(text, b"granted 3 me:1 invoice:7 1 5000 1790000000000");
        assert_eq!(timeout(lock(b"{a}b"), &mutex(b"x-_.~")), b"timeout 3 x-_.~ {a}b");
        assert_eq!(dropped(lock(b"k"), &mutex(b"o"), DropReason::Demoted), b"dropped 3 o k demoted");
    }

    #[test]
    fn messages_name_the_mode_in_which_an_owner_waited() {
        let (reader, writer) = (waiter(b"o", Wanted::Read), waiter(b"o", Wanted::Write));
        let text = granted(lock(b"k"), &reader, Holds::ONE, LeaseMs::SHORTEST, 0);
        assert_eq!(text, b"granted 3 o k 1 1 0 read");
        assert_eq!(timeout(lock(b"k"), &writer), b"timeout 3 o k write");
        assert_eq!(dropped(lock(b"k"), &writer, DropReason::Moved), b"dropped 3 o k moved write");
    }

    #[test]
    fn no_byte_of_a_name_parts_fields() {
        let all: Vec<u8> = (0..=u8::MAX).collect();
        let message = timeout(lock(&all), &waiter(b"a b%\n", Wanted::Mutex));
        assert!(message.starts_with(b"timeout 3 a%20b%25%0A %00%01%02"));
        assert!(message.ends_with(b"%FE%FF"));
        assert_eq!(message.iter().filter(|byte| **byte == b' ').count(), 3);
        assert!(message.is_ascii());
    }
}
