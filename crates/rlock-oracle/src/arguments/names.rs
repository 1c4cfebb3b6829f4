//! Values made of a client's bytes: the names that belong to a lock, the messages, the shapes of a hash.

use rlock_core::locks::{DropReason, LockName, Ticket, Via, Waiter};
use rlock_core::message;
use rlock_core::request::{Acquire, Cancel};
use rlock_core::shape::{self, SingleField};
use rlock_core::types::canonical_integer;
use rlock_core::{Error, Holds, LeaseMs, MonoMs, Owner, PermitLimit, Wanted, names};

/// Checks the values made of these bytes as a key, an owner, a channel, a field or a value.
pub(super) fn check(bytes: &[u8]) {
    check_names(bytes);
    check_slots(bytes);
    check_messages(bytes);
    check_integer(bytes);
    check_shape(bytes);
    check_bounds(bytes);
    let owner = Owner::new(bytes).map(Owner::bytes);
    assert!(owner.is_err() || owner == Ok(bytes));
}

/// A lock's name has 1 to 1,024 bytes for calls that wait, or end a wait.
fn check_bounds(key: &[u8]) {
    let (owner, lease): (&[u8], &[u8]) = (b"me", b"1");
    let acquired = Acquire::parse(key, [owner, lease].into_iter()).map(|_| ());
    let cancelled = Cancel::parse(key, [owner].into_iter()).map(|_| ());
    let expected = if key.is_empty() || key.len() > 1_024 { Err(Error::BadName) } else { Ok(()) };
    assert_eq!((acquired, cancelled), (expected.clone(), expected), "{} bytes", key.len());
}

fn contains(bytes: &[u8], byte: u8) -> bool {
    bytes.contains(&byte)
}

/// `prefix:{key}`, or `prefix:key` where the key has a `{`.
fn check_names(key: &[u8]) {
    let expected = |prefix: &str| {
        let (open, close) = if contains(key, b'{') { ("", "") } else { ("{", "}") };
        [prefix.as_bytes(), b":", open.as_bytes(), key, close.as_bytes()].concat()
    };
    let channel = expected("redisson_lock__channel");
    assert_eq!(names::unlock_channel(key).to_vec(), channel);
    assert_eq!(names::token_key(key).to_vec(), expected("redisson_lock_token"));
    assert_eq!(names::fair_list_key(key).to_vec(), expected("redisson_lock_queue"));
    assert_eq!(names::fair_channel(&channel, key).to_vec(), [&channel[..], b":", key].concat());
}

/// The part of a key that the server hashes: the bytes between the first `{` and the first `}` after it, if
/// there are any, else the whole key.
fn hashed(key: &[u8]) -> &[u8] {
    let mut parts = key.splitn(2, |byte| *byte == b'{').skip(1);
    let Some(after) = parts.next().filter(|after| contains(after, b'}')) else { return key };
    match after.split(|byte| *byte == b'}').next() {
        Some(tag) if !tag.is_empty() => tag,
        _ => key,
    }
}

/// The cluster slot: the remainder of the hashed bytes, followed by two zero bytes, after division by
/// x^16 + x^12 + x^5 + 1; modulo the number of slots.
fn slot(key: &[u8]) -> u32 {
    let bits = hashed(key).iter().chain(&[0, 0]).flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1));
    let rest = bits.fold(0_u32, |rest, bit| {
        let next = rest << 1 | u32::from(bit);
        if next & 0x1_0000 == 0 { next } else { next ^ 0x1_1021 }
    });
    rest % 16_384
}

fn check_slots(key: &[u8]) {
    let channel = names::unlock_channel(key);
    let fits = hashed(&channel) == hashed(key);
    assert_eq!(names::one_slot(key), fits, "{}", key.escape_ascii());
    assert_eq!(u32::from(names::slot_of(key)), slot(key), "{}", key.escape_ascii());
    // In the contract's words: a key that is not empty and has no brace, or one that has a hash tag.
    let plain = !key.is_empty() && !contains(key, b'{') && !contains(key, b'}');
    let tagged = hashed(key) != key;
    assert_eq!(fits, plain || tagged, "{}", key.escape_ascii());
}

fn check_messages(bytes: &[u8]) {
    let (owner, key) = bytes.split_at(bytes.len() / 2);
    let db = i32::try_from(bytes.len() % 17).unwrap_or(0);
    let lock = LockName { db, key };
    let lease = LeaseMs::new(1 + i64::try_from(bytes.len()).unwrap_or(0)).expect("a lease");
    let token = i64::from(db) << 40;
    let permit = Wanted::Permit(PermitLimit::new(2).expect("a limit"));
    for wanted in [Wanted::Mutex, Wanted::Read, Wanted::Write, permit] {
        let mode = wanted.mode();
        let last = mode.word().map_or(String::new(), |word| format!(" {word}"));
        let waiter = Waiter {
            owner: owner.into(),
            wanted,
            lease,
            fenced: false,
            fair: false,
            since: MonoMs(0),
            until: None,
            ticket: Ticket(1),
            via: Via::Block,
            client_id: 1,
            session: None,
            user: None,
        };
        let after = format!("1 {} {token}{last}", lease.get());
        let granted = message::granted(lock, &waiter, Holds::ONE, lease, token);
        check_message(&granted, "granted", lock, owner, Some(&after));
        check_message(&message::timeout(lock, &waiter), "timeout", lock, owner, mode.word());
        let reasons = [
            (DropReason::Demoted, "demoted"),
            (DropReason::Moved, "moved"),
            (DropReason::InDoubt, "in-doubt"),
            (DropReason::NoToken, "no-token"),
            (DropReason::Drained, "drained"),
            (DropReason::Session, "session"),
        ];
        for (reason, word) in reasons {
            let after = format!("{word}{last}");
            check_message(&message::dropped(lock, &waiter, reason), "dropped", lock, owner, Some(&after));
        }
    }
}

/// Reads a message as a subscriber does.
fn check_message(message: &[u8], word: &str, lock: LockName<'_>, owner: &[u8], after: Option<&str>) {
    let text = std::str::from_utf8(message).expect("a message is ASCII");
    let fields: Vec<&str> = text.splitn(5, ' ').collect();
    assert_eq!(fields.len(), if after.is_some() { 5 } else { 4 }, "{text}");
    assert_eq!(fields[0], word);
    assert_eq!(fields[1], lock.db.to_string());
    assert_eq!(decoded(fields[2]), owner, "{text}");
    assert_eq!(decoded(fields[3]), *lock.key, "{text}");
    assert_eq!(fields.get(4).copied(), after);
}

/// Percent-decodes, and checks that bytes that need no encoding are not encoded.
fn decoded(field: &str) -> Vec<u8> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~:{}".contains(&byte);
    let mut bytes = Vec::new();
    let mut rest = field.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        let mut byte = *first;
        if byte == b'%' {
            let (digits, after) = rest.split_at(2);
            let digits = std::str::from_utf8(digits).expect("two digits");
            assert_eq!(digits, digits.to_uppercase());
            byte = u8::from_str_radix(digits, 16).expect("hexadecimal digits");
            assert!(!plain(byte), "{field}");
            rest = after;
        } else {
            assert!(plain(byte), "{field}");
        }
        bytes.push(byte);
    }
    bytes
}

/// An integer is canonical if writing it gives the same bytes.
fn naive_integer(bytes: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(bytes).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == bytes).then_some(number)
}

fn check_integer(bytes: &[u8]) {
    assert_eq!(canonical_integer(bytes), naive_integer(bytes), "{}", bytes.escape_ascii());
}

fn check_shape(bytes: &[u8]) {
    let count = naive_integer(bytes).filter(|count| (1..=1 << 53).contains(count));
    assert_eq!(shape::holds(bytes).ok().map(Holds::get), count);
    let of_owner = shape::single_field(b"an owner", bytes).ok();
    assert_eq!(of_owner, count.and_then(Holds::new).map(SingleField::Hold));
    let is_mode = bytes == b"read" || bytes == b"write";
    let of_mode = shape::single_field(b"mode", bytes).ok();
    assert_eq!(of_mode, is_mode.then_some(SingleField::ModeOnly));
    let writing = is_mode.then_some(bytes == b"write");
    assert_eq!(shape::has_writer(Some(bytes)).ok(), writing);
}
