//! Redisson's names for the keys and channels of a lock, and their cluster slot.
//!
//! Some locks share these names, as in Redisson: `x` and `{x}` share all of them, and the owner `b:c` of `{h}` shares
//! lease keys with the owner `c` of `{h}:b`. The layout must be that of Redisson, and Redisson's owners have colons, so
//! the module cannot refuse these names: docs/COMMANDS.md lists the names that must not be used together.

use smallvec::SmallVec;

/// The field that marks a read/write lock.
pub const MODE_FIELD: &[u8] = b"mode";

/// The suffix of a writer's field, after its owner.
pub const WRITE_SUFFIX: &[u8] = b":write";

/// A short-lived name.
pub type Name = SmallVec<[u8; SHORT]>;

/// A longer name is on the heap.
const SHORT: usize = 128;

/// Redisson's `prefix`: `p:name` where the name has a `{`, else `p:{name}`, so that both hash alike.
fn prefixed(prefix: &[u8], name: &[u8]) -> Name {
    let parts: [&[u8]; 4] =
        if name.contains(&b'{') { [prefix, b":", name, b""] } else { [prefix, b":{", name, b"}"] };
    joined(parts)
}

/// The parts of a name, one after the other. A name that is short, as most are, is made on the stack: a release makes two
/// of them, and to let each grow part by part costs three times as much.
fn joined<const N: usize>(parts: [&[u8]; N]) -> Name {
    let mut bytes = [0; SHORT];
    let mut rest = bytes.as_mut_slice();
    for part in parts {
        let Some((place, after)) = rest.split_at_mut_checked(part.len()) else {
            return parts.concat().into();
        };
        place.copy_from_slice(part);
        rest = after;
    }
    let left = rest.len();
    Name::from_buf_and_len(bytes, SHORT.saturating_sub(left))
}

/// The names of a lock that differ by their prefix. Each name replaces the one before it in the same memory: a release needs two.
pub struct Prefixed(Name);

/// The room for the longest prefix.
const PREFIX: usize = UNLOCK_CHANNEL.len();

/// The room, and what stands between a prefix and a name that is put into braces.
const OPENED: [u8; SHORT] = {
    let mut bytes = [0; SHORT];
    (bytes[PREFIX], bytes[PREFIX + 1]) = (b':', b'{');
    bytes
};

const UNLOCK_CHANNEL: &[u8; 22] = b"redisson_lock__channel";

const FAIR_LIST: &[u8; 19] = b"redisson_lock_queue";

impl Prefixed {
    /// The names of this lock.
    #[inline]
    pub fn of(name: &[u8]) -> Self {
        let tagged = name.contains(&b'{');
        let mut names = Name::from_buf_and_len(OPENED, PREFIX.saturating_add(if tagged { 1 } else { 2 }));
        names.extend_from_slice(name);
        if !tagged {
            names.push(b'}');
        }
        Self(names)
    }

    /// See [`unlock_channel`].
    pub fn unlock_channel(&mut self) -> &[u8] {
        self.with(UNLOCK_CHANNEL)
    }

    /// See [`fair_list_key`].
    pub fn fair_list_key(&mut self) -> &[u8] {
        self.with(FAIR_LIST)
    }

    fn with<const N: usize>(&mut self, prefix: &[u8; N]) -> &[u8] {
        let start = PREFIX.saturating_sub(N);
        if let Some(place) = self.0.get_mut(start..).and_then(<[u8]>::first_chunk_mut) {
            *place = *prefix;
        }
        self.0.get(start..).unwrap_or_default()
    }
}

/// The channel on which a lock's release is published.
pub fn unlock_channel(name: &[u8]) -> Name {
    prefixed(UNLOCK_CHANNEL, name)
}

/// The channel on which the release of a read/write lock is published.
pub fn read_write_channel(name: &[u8]) -> Name {
    prefixed(b"redisson_rwlock", name)
}

/// The field of a writer.
pub fn write_field(owner: &[u8]) -> Name {
    joined([owner, WRITE_SUFFIX])
}

/// The key whose expiry is the lease of an owner's read hold with this number, from 1.
///
/// Redisson's `suffix`: `name:s` if the name has a `{`, otherwise `{name}:s`.
pub fn read_lease_key(name: &[u8], owner: &[u8], hold: i64) -> Name {
    let tagged = name.contains(&b'{');
    let (open, close): (&[u8], &[u8]) = if tagged { (b"", b":") } else { (b"{", b"}:") };
    joined([open, name, close, owner, READ_LEASE, hold.to_string().as_bytes()])
}

/// What comes after the reader in the name of a lease key, before the hold's number.
const READ_LEASE: &[u8] = b":rwlock_timeout:";

/// The most readers that are tried for one lease key: the colons in its name decide how many are possible.
const READERS_OF_A_KEY: usize = 16;

/// Whether a key may be the lease of a reader.
pub fn is_read_lease_key(key: &[u8]) -> bool {
    reader_of(key).is_some()
}

/// The name of the lock and its reader together, in the name of a lease key, and the number of the hold.
fn reader_of(key: &[u8]) -> Option<(&[u8], i64)> {
    let digits = key.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (rest, hold) = key.split_at_checked(key.len().checked_sub(digits)?)?;
    Some((rest.strip_suffix(READ_LEASE)?, std::str::from_utf8(hold).ok()?.parse().ok()?))
}

/// The locks whose lease a key may be, each with its reader and the number of its hold: several, since both names may have
/// colons. Another client chooses the key and its length, so the time is linear in the length.
pub fn readers_of_lease_key(key: &[u8]) -> impl Iterator<Item = (&[u8], &[u8], i64)> {
    let (rest, hold) = reader_of(key).unwrap_or_default();
    let mut braces = rest.iter().enumerate().filter(|(_, byte)| **byte == b'{').map(|(at, _)| at);
    let (first, second) = (braces.next(), braces.next());
    let is_before = |brace: Option<usize>, end: usize| brace.is_some_and(|at| at < end);
    let colons = rest.iter().enumerate().filter(|(_, byte)| **byte == b':').map(|(at, _)| at);
    let named = colons.flat_map(move |at| {
        let parts = rest.get(..at).zip(rest.get(at.saturating_add(1)..));
        let names = |(name, reader)| {
            // As in `tagged_or_plain`, which would search each of these names for its braces.
            let tagged = Some(name).filter(|_| is_before(first, at));
            let plain = Some(name).filter(|_| !is_before(second, at)).and_then(in_braces);
            [tagged, plain].map(|name| Some((name?, reader, hold)))
        };
        parts.map_or([None; 2], names)
    });
    named.flatten().take(READERS_OF_A_KEY)
}

/// What stands between the braces around a name.
fn in_braces(name: &[u8]) -> Option<&[u8]> {
    name.strip_prefix(b"{").and_then(|name| name.strip_suffix(b"}"))
}

/// The key of a lock's last fencing token.
pub fn token_key(name: &[u8]) -> Name {
    prefixed(b"redisson_lock_token", name)
}

/// The key of the fair list, head first.
pub fn fair_list_key(name: &[u8]) -> Name {
    prefixed(FAIR_LIST, name)
}

/// The key of the fair list's deadlines: a sorted set of times in ms after which an entry counts as dead.
pub fn fair_deadlines_key(name: &[u8]) -> Name {
    prefixed(b"redisson_lock_timeout", name)
}

/// The locks whose fair list, or its deadlines, a key may be: two if the name is in braces.
pub fn locks_of_fair_key(key: &[u8]) -> [Option<&[u8]>; 2] {
    let prefixes: [&[u8]; 2] = [b"redisson_lock_queue:", b"redisson_lock_timeout:"];
    let rest = prefixes.iter().find_map(|p| key.strip_prefix(*p));
    rest.map_or([None; 2], tagged_or_plain)
}

/// The lock whose fair list, or its deadlines, a key is: the name without braces if there are two.
pub fn lock_of_fair_key(key: &[u8]) -> Option<&[u8]> {
    let [tagged, plain] = locks_of_fair_key(key);
    plain.or(tagged)
}

/// The names of the locks that stand as this in the keys of what belongs to them.
fn tagged_or_plain(name: &[u8]) -> [Option<&[u8]>; 2] {
    let tagged = Some(name).filter(|name| name.contains(&b'{'));
    [tagged, in_braces(name).filter(|name| !name.contains(&b'{'))]
}

/// The channel of one fair waiter, in addition to the lock's own channel.
pub fn fair_channel(unlock_channel: &[u8], waiter: &[u8]) -> Name {
    joined([unlock_channel, b":", waiter])
}

/// The part of a key that decides its cluster slot: between the first `{` and the next `}` where that
/// is not empty, else all of it.
fn hash_tag(key: &[u8]) -> &[u8] {
    let tag = || {
        let open = key.iter().position(|byte| *byte == b'{')?;
        let rest = key.get(open.checked_add(1)?..)?;
        let close = rest.iter().position(|byte| *byte == b'}')?;
        rest.get(..close).filter(|tag| !tag.is_empty())
    };
    tag().unwrap_or(key)
}

/// Whether all keys and channels of the lock are in the lock's own slot, by the same hash tag.
///
/// This is false for an empty name and for names such as `a}b` and `a{}b`.
pub fn one_slot(name: &[u8]) -> bool {
    hash_tag(&unlock_channel(name)) == hash_tag(name)
}

/// The cluster slot of a key: 14 bits of CRC-16/XMODEM of its hash tag.
pub fn slot_of(key: &[u8]) -> u16 {
    let step = |crc: u16, _| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
    let add = |crc: u16, byte: &u8| (0..8).fold(crc ^ u16::from(*byte) << 8, step);
    hash_tag(key).iter().fold(0, add) & 0x3fff
}

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
