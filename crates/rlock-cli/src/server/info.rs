//! A lock as we show it.

use std::time::Duration;

use rlock_client::Info;
use serde::{Serialize, Serializer};

use crate::duration;
use crate::names;

/// A lock, as the server sees it. In JSON the field names are these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct LockInfo {
    /// The lock's name.
    #[serde(serialize_with = "name")]
    pub(crate) key: Vec<u8>,
    /// `none` where nobody holds it.
    pub(crate) kind: String,
    /// Whether anybody holds it.
    pub(crate) held: bool,
    /// What is left of the lease, in ms; -1: no expiry, -2: not held.
    pub(crate) lease_ms: i64,
    /// The last fencing token, or 0.
    pub(crate) token: u64,
    /// How many hold it.
    pub(crate) holder_count: u64,
    /// How many wait in the server.
    pub(crate) waiter_count: u64,
    /// Whether it may as well be somebody's counter: see [`LockInfo::new`].
    pub(crate) probably_no_lock: bool,
    /// Who holds it; may be fewer than `holder_count`.
    pub(crate) holders: Vec<Holder>,
    /// Who waits, in order; may be fewer than `waiter_count`.
    pub(crate) queue: Vec<Waiter>,
}

/// One who holds a lock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Holder {
    /// Who.
    #[serde(serialize_with = "name")]
    pub(crate) owner: Vec<u8>,
    /// How, in a read/write lock.
    pub(crate) mode: Option<String>,
    /// How many times.
    pub(crate) holds: u64,
    /// What is left of its lease, in ms.
    pub(crate) lease_ms: i64,
    /// The client that it is tied to, if it has a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<u64>,
}

/// One who waits for a lock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Waiter {
    /// Who.
    #[serde(serialize_with = "name")]
    pub(crate) owner: Vec<u8>,
    /// For what, in a read/write lock.
    pub(crate) mode: Option<String>,
    /// How: `block`, `enqueue`.
    pub(crate) via: String,
    /// Since when, in ms.
    pub(crate) age_ms: i64,
    /// For how long still, in ms; -1: for ever.
    pub(crate) wait_left_ms: i64,
    /// The client that asked.
    pub(crate) client_id: u64,
}

fn name<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&names::json(bytes))
}

impl LockInfo {
    /// What the client crate tells of the lock `key`.
    ///
    /// A hash with a number is probably no lock where nothing says that it is one: it has no expiry, which every
    /// client gives a lock, no owner as clients make them, no fencing token, and nobody waits for it.
    pub(crate) fn new(key: &[u8], info: Info) -> LockInfo {
        let endless = info.remaining == Some(Duration::MAX);
        let known = info.holders.iter().any(|holder| is_of_a_client(&holder.owner));
        LockInfo {
            probably_no_lock: endless && !known && info.token == 0 && info.waiter_count == 0,
            key: key.to_vec(),
            kind: info.kind,
            held: info.holder_count > 0,
            lease_ms: info.remaining.map_or(-2, ms_or_ever),
            token: info.token,
            holder_count: info.holder_count,
            waiter_count: info.waiter_count,
            holders: info.holders.into_iter().map(Holder::from).collect(),
            queue: info.queue.into_iter().map(Waiter::from).collect(),
        }
    }
}

impl From<rlock_client::Holder> for Holder {
    fn from(holder: rlock_client::Holder) -> Holder {
        Holder {
            owner: holder.owner,
            mode: holder.mode,
            holds: holder.holds,
            lease_ms: ms_or_ever(holder.remaining),
            session: holder.session,
        }
    }
}

impl From<rlock_client::Waiter> for Waiter {
    fn from(waiter: rlock_client::Waiter) -> Waiter {
        Waiter {
            owner: waiter.owner,
            mode: waiter.mode,
            via: waiter.via,
            age_ms: duration::ms(waiter.age).cast_signed(),
            wait_left_ms: waiter.wait_left.map_or(-1, ms_or_ever),
            client_id: waiter.client_id,
        }
    }
}

/// Whether an owner is like those of Redisson, or of the Rust client.
fn is_of_a_client(owner: &[u8]) -> bool {
    begins_with_a_uuid(owner) || names_a_process(owner)
}

/// `<name>@<host>:<pid>:<random>:<number>`
fn names_a_process(owner: &[u8]) -> bool {
    let parts: Vec<&[u8]> = owner.split(|byte| *byte == b':').collect();
    let [place, process, random, number] = parts[..] else { return false };
    let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    place.contains(&b'@')
        && is_number(process)
        && is_number(number)
        && random.len() == 32
        && random.iter().all(u8::is_ascii_hexdigit)
}

/// A colon and a number follow.
fn begins_with_a_uuid(owner: &[u8]) -> bool {
    const DASHES: [usize; 4] = [8, 13, 18, 23];
    let Some((uuid, rest)) = owner.split_at_checked(36) else { return false };
    let fits = |(place, byte): (usize, &u8)| match DASHES.contains(&place) {
        true => *byte == b'-',
        false => byte.is_ascii_hexdigit(),
    };
    uuid.iter().enumerate().all(fits) && (rest.is_empty() || rest.starts_with(b":"))
}

/// Milliseconds; -1 for ever, as the server says it.
fn ms_or_ever(time: Duration) -> i64 {
    if time == Duration::MAX { -1 } else { duration::ms(time).cast_signed() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_of_clients_are_known_by_their_form() {
        let cases = [
            ("0f8fad5b-d9cb-469f-a165-70867728950e:1", true),
            ("0F8FAD5B-D9CB-469F-A165-70867728950E:1234", true),
            ("0f8fad5b-d9cb-469f-a165-70867728950e", true),
            ("0f8fad5b-d9cb-469f-a165-70867728950ex", false),
            ("0f8fad5b-d9cb-469f-a165-7086772895", false),
            ("0f8fad5bxd9cb-469f-a165-70867728950e:1", false),
            ("gf8fad5b-d9cb-469f-a165-70867728950e:1", false),
            ("job@host:1234:0f8fad5bd9cb469fa16570867728950e:1", true),
            ("job@host:1234:0f8fad5bd9cb469fa16570867728950e:x", false),
            ("job@host:x:0f8fad5bd9cb469fa16570867728950e:1", false),
            ("job@host:1234:0f8fad5b:1", false),
            ("job:1234:0f8fad5bd9cb469fa16570867728950e:1", false),
            ("alice:1", false),
            ("", false),
        ];
        for (owner, expected) in cases {
            assert_eq!(is_of_a_client(owner.as_bytes()), expected, "{owner}");
        }
    }
}
