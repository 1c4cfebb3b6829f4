//! The words of the field as types, so that a lease is never taken for a point in time.

use std::num::{NonZeroI64, NonZeroU32};

use crate::error::Error;
pub use crate::limits::{MAX_HOLDS, MAX_LEASE_MS, MAX_NAME_LEN, MAX_PERMITS};

/// The longest owner in bytes.
pub const MAX_OWNER_LEN: usize = 512;

/// Refuses a name under which no lock can be acquired: an empty one, which mostly comes from an unset variable, or a long one,
/// which each step of the work on a lock would hash, copy or send. Other clients may hold locks under any name.
pub(crate) fn check_name(name: &[u8]) -> Result<(), Error> {
    if (1..=MAX_NAME_LEN).contains(&name.len()) { Ok(()) } else { Err(Error::BadName) }
}

/// An owner: any bytes that can be the field of a lock's hash.
///
/// 1 to 512 bytes; not `mode` and not ending in `:write`, which are Redisson's own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner<'a>(&'a [u8]);

impl<'a> Owner<'a> {
    /// Checks the bytes of an owner; the error describes a valid owner.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let fits = !bytes.is_empty()
            && bytes.len() <= MAX_OWNER_LEN
            && bytes != crate::names::MODE_FIELD
            && !bytes.ends_with(b":write");
        if fits { Ok(Self(bytes)) } else { Err(Error::BadOwner) }
    }

    /// The bytes, as in the hash.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }
}

/// The mode of a hold. A mutex has one holder; readers share a read/write lock, a writer holds it exclusively; a limited
/// number of owners hold permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// A plain lock.
    #[default]
    Mutex,
    /// READ.
    Read,
    /// WRITE.
    Write,
    /// PERMITS.
    Permit,
}

impl Mode {
    /// The word in replies and messages, and in the hash of a read/write lock; a plain lock has none.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::Mutex => None,
            Self::Read => Some("read"),
            Self::Write => Some("write"),
            Self::Permit => Some("permit"),
        }
    }
}

/// What a caller or a waiter wants of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A plain lock.
    Mutex,
    /// READ.
    Read,
    /// WRITE.
    Write,
    /// PERMITS, with this limit.
    Permit(PermitLimit),
}

impl Wanted {
    /// The mode of the hold that it wants.
    #[inline(always)]
    pub fn mode(self) -> Mode {
        match self {
            Self::Mutex => Mode::Mutex,
            Self::Read => Mode::Read,
            Self::Write => Mode::Write,
            Self::Permit(_) => Mode::Permit,
        }
    }

    /// PERMITS: the limit.
    pub fn limit(self) -> Option<PermitLimit> {
        if let Self::Permit(limit) = self { Some(limit) } else { None }
    }
}

/// PERMITS: how many owners may hold the lock at once, the caller included: 1 to 2^31 - 1.
///
/// Packed: the block of a waiter in memory has no room for the padding of an aligned number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(Rust, packed)]
pub struct PermitLimit(NonZeroU32);

impl PermitLimit {
    /// At most `count` holders; `None` outside 1 to 2^31 - 1.
    pub fn new(count: i64) -> Option<Self> {
        let count = u32::try_from(count).ok().filter(|count| *count <= MAX_PERMITS)?;
        NonZeroU32::new(count).map(Self)
    }

    /// The count.
    pub fn get(self) -> u32 {
        self.0.get()
    }

    /// Whether one more may hold the lock beside this number of others.
    pub(crate) fn admits(self, holders: u32) -> bool {
        holders < self.get()
    }
}

/// How long a hold lasts unless renewed, in milliseconds: 1 to 2^43.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseMs(NonZeroI64);

impl LeaseMs {
    /// One millisecond.
    pub const SHORTEST: Self = Self(NonZeroI64::new(1).unwrap());

    /// A lease of `ms` milliseconds; `None` outside 1 to 2^43.
    pub fn new(ms: i64) -> Option<Self> {
        NonZeroI64::new(ms).filter(|_| (1..=MAX_LEASE_MS).contains(&ms)).map(Self)
    }

    /// Milliseconds.
    pub fn get(self) -> i64 {
        self.0.get()
    }
}

/// The number of an owner's holds: 1 to 2^53.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holds(NonZeroI64);

impl Holds {
    /// One hold.
    pub const ONE: Self = Self(NonZeroI64::new(1).unwrap());

    /// `count` holds; `None` outside 1 to 2^53.
    pub fn new(count: i64) -> Option<Self> {
        NonZeroI64::new(count).filter(|_| (1..=MAX_HOLDS).contains(&count)).map(Self)
    }

    /// The count.
    pub fn get(self) -> i64 {
        self.0.get()
    }

    /// One more hold; `None` at the maximum.
    pub fn one_more(self) -> Option<Self> {
        Self::new(self.get().saturating_add(1))
    }

    /// One hold less; `None` if this was the last.
    pub fn one_less(self) -> Option<Self> {
        Self::new(self.get().saturating_sub(1))
    }
}

/// A point in time by the server's clock: milliseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMs(pub i64);

impl UnixMs {
    /// The end of a lease that starts now.
    pub fn after(self, lease: LeaseMs) -> Self {
        Self(self.0.saturating_add(lease.get()))
    }
}

/// A point on a clock that never steps, for measuring waits: milliseconds since some start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonoMs(pub u64);

impl MonoMs {
    /// This number of milliseconds later.
    pub fn after(self, ms: LeaseMs) -> Self {
        Self(self.0.saturating_add(ms.get().unsigned_abs()))
    }
}

/// The length of a wait in milliseconds, up to 2^43; 0 waits for ever, as in the server's own blocking commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitMs(u64);

impl WaitMs {
    /// A wait of `ms` milliseconds; `None` outside 0 to 2^43.
    pub fn new(ms: i64) -> Option<Self> {
        (0..=MAX_LEASE_MS).contains(&ms).then_some(Self(ms.unsigned_abs()))
    }

    /// Milliseconds; 0 waits for ever.
    pub fn ms(self) -> u64 {
        self.0
    }

    /// The end of a wait that starts now; `None` if it never ends.
    pub fn until(self, now: MonoMs) -> Option<MonoMs> {
        (self.0 > 0).then_some(MonoMs(now.0.saturating_add(self.0)))
    }
}

/// When the key expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Expiry {
    /// The key has no expiry. No rlock command removes the expiry, but PERSIST does.
    Never,
    /// The lease end.
    At(UnixMs),
}

impl Expiry {
    /// The later of two ends.
    #[must_use]
    pub fn later(self, other: Self) -> Self {
        match (self, other) {
            (Self::At(one), Self::At(other)) => Self::At(one.max(other)),
            (Self::Never, _) | (_, Self::Never) => Self::Never,
        }
    }

    /// The earlier of two ends.
    #[must_use]
    pub fn sooner(self, other: Self) -> Self {
        match (self, other) {
            (Self::At(one), Self::At(other)) => Self::At(one.min(other)),
            (Self::Never, end) | (end, Self::Never) => end,
        }
    }

    /// The rest of the lease in ms, as in replies: -1 without an expiry, and otherwise never below 0, since the server
    /// has not expired the key yet.
    pub fn left(self, now: UnixMs) -> i64 {
        match self {
            Self::Never => -1,
            Self::At(at) => at.0.saturating_sub(now.0).max(0),
        }
    }
}

/// Reads a decimal integer in its one canonical form: no sign but `-`, no leading zero, no blanks.
///
/// Accepts what the server accepts as an integer; `None` for anything else, including an overflow.
pub fn canonical_integer(bytes: &[u8]) -> Option<i64> {
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    match digits {
        [b'0'] if bytes.len() == 1 => Some(0),
        // The standard library's parser takes text only, and to check that costs more than to parse.
        [b'1'..=b'9', ..] => {
            let negative = digits.len() != bytes.len();
            digits.iter().try_fold(0_i64, |value, byte| {
                let digit = i64::from(byte.checked_sub(b'0').filter(|digit| *digit <= 9)?);
                let tens = value.checked_mul(10)?;
                if negative { tens.checked_sub(digit) } else { tens.checked_add(digit) }
            })
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "types_tests.rs"]
mod tests;
