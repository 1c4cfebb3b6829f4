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
