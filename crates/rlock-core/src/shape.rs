//! Which hashes are locks.
//!
//! A mutex is a hash of exactly one field, the owner's, whose value is a canonical integer from 1 to
//! 2^53. A hash with a field `mode` of `read` or `write` is a read/write lock; it is free if `mode` is its only field.
//! Any other hash is not a lock, and the module never changes it.
//!
//! A lock with permits is a sorted set from each owner to its lease end, see [`permits`].

use crate::error::Error;
use crate::names::{MODE_FIELD, WRITE_SUFFIX};
use crate::types::{Expiry, Holds, UnixMs, canonical_integer};

/// The kind of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The key does not exist.
    Free,
    /// The hash exists without a hold: only `mode` is left, or its one field has expired.
    Abandoned,
    /// A plain lock.
    Mutex,
    /// A read/write lock with readers, alive or dead.
    Reading,
    /// A read/write lock with a writer, which may also read.
    Writing,
    /// A lock with permits, at least one of which is alive.
    Permits,
}

/// The content of a lock's key, as far as it concerns one owner.
///
/// A dead reader keeps its field: only the lease keys show whether a read hold is alive. An ended permit keeps its member:
/// only its score shows that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// The kind of the lock.
    pub kind: Kind,
    /// The owner's holds of a plain lock, or its write holds.
    pub sole: Option<Holds>,
    /// The owner's shared holds, alive or dead: read holds, or a permit.
    pub shared: Option<Holds>,
    /// The number of fields or members of other owners, including dead ones.
    pub others: usize,
    /// The expiry of the key, unless it is a plain lock.
    pub key_end: Expiry,
}

impl Fields {
    /// The key does not exist.
    pub const FREE: Self =
        Self { kind: Kind::Free, sole: None, shared: None, others: 0, key_end: Expiry::Never };
    /// The hash exists without a hold. No rule asks when it expires.
    pub const ABANDONED: Self = Self { kind: Kind::Abandoned, ..Self::FREE };

    /// A plain lock with the owner's holds; without holds, another owner's. A look that needs its expiry asks for that apart.
    #[must_use]
    pub fn mutex(holds: Option<Holds>) -> Self {
        Self { kind: Kind::Mutex, sole: holds, others: usize::from(holds.is_none()), ..Self::FREE }
    }

    /// A lock with this number of permits, alive or dead, and whether the owner has one of them.
    #[must_use]
    pub fn permits(members: usize, own: bool, key_end: Expiry) -> Self {
        let shared = own.then_some(Holds::ONE);
        Self { kind: Kind::Permits, sole: None, shared, others: members.saturating_sub(own.into()), key_end }
    }

    /// Whether the lock is a read/write lock with holders, alive or dead.
    #[must_use]
    pub fn is_read_write(&self) -> bool {
        matches!(self.kind, Kind::Reading | Kind::Writing)
    }

    /// Whether the lock has no holders.
    #[must_use]
    pub fn is_free(&self) -> bool {
        matches!(self.kind, Kind::Free | Kind::Abandoned)
    }
}

/// The meaning of a hash's only field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SingleField {
    /// A hold of a mutex.
    Hold(Holds),
    /// The rest of a read/write lock, without a hold.
    ModeOnly,
}

/// The holds that a field's value counts; an error if the value is not a count of holds.
pub fn holds(value: &[u8]) -> Result<Holds, Error> {
    canonical_integer(value).and_then(Holds::new).ok_or(Error::NotALock)
}

/// Reads the only field of a hash.
pub fn single_field(field: &[u8], value: &[u8]) -> Result<SingleField, Error> {
    if field != MODE_FIELD {
        return holds(value).map(SingleField::Hold);
    }
    // An owner is never called `mode`, so a number there is another program's data.
    if is_mode(value) { Ok(SingleField::ModeOnly) } else { Err(Error::NotALock) }
}

/// Whether a hash of several fields is a lock with a writer; `mode` is the value of that field.
pub fn has_writer(mode: Option<&[u8]>) -> Result<bool, Error> {
    mode.filter(|mode| is_mode(mode)).map(|mode| mode == b"write").ok_or(Error::NotALock)
}

/// The meaning of a field of a read/write lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RwField<'a> {
    /// `mode` itself.
    Mode,
    /// This number of read holds of this owner.
    Reads(&'a [u8], Holds),
    /// This number of write holds of this owner.
    Writes(&'a [u8], Holds),
}

/// Reads a field of a read/write lock; fails if the field cannot belong to one.
pub fn rw_field<'a>(field: &'a [u8], value: &[u8]) -> Result<RwField<'a>, Error> {
    if field == MODE_FIELD {
        return Ok(RwField::Mode);
    }
    let holds = holds(value)?;
    Ok(match field.strip_suffix(WRITE_SUFFIX) {
        Some(owner) => RwField::Writes(owner, holds),
        None => RwField::Reads(field, holds),
    })
}

/// The smallest score of a permit: 2001-09-09 in ms. Ranks, counts and times in seconds are smaller.
const FIRST_END: f64 = 1e12;

/// The scores of a sorted set that show whether it is a lock with permits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scores {
    /// The lowest score.
    pub lowest: f64,
    /// The highest score.
    pub highest: f64,
    /// The score of the owner, if it is a member.
    pub own: Option<f64>,
}

/// Whether a sorted set is a lock with living permits; false if all have ended. Fails if the set is other data of an application:
/// the key of a lock expires with its last permit, and each score is a lease end in whole ms.
pub fn permits(scores: Scores, key_end: Expiry, now: UnixMs) -> Result<bool, Error> {
    let (Expiry::At(key_end), Some(_), Some(highest)) = (key_end, end(scores.lowest), end(scores.highest))
    else {
        return Err(Error::NotPermits);
    };
    let is_own_an_end = scores.own.is_none_or(|own| end(own).is_some());
    let is_lock = is_own_an_end && (highest == key_end || highest > now && highest < key_end);
    if is_lock { Ok(highest > now) } else { Err(Error::NotPermits) }
}

/// The lease end that a score stands for, if it stands for one.
#[must_use]
pub fn end(score: f64) -> Option<UnixMs> {
    #[expect(clippy::cast_precision_loss, reason = "2^53 has an exact float")]
    let latest = MAX_END as f64;
    let is_end = (FIRST_END..=latest).contains(&score) && score.fract() == 0.0;
    #[expect(clippy::cast_possible_truncation, reason = "a whole number of this range fits")]
    is_end.then_some(UnixMs(score as i64))
}

/// The latest lease end that a score says exactly: 2^53.
const MAX_END: i64 = 1 << 53;

fn is_mode(value: &[u8]) -> bool {
    value == b"read" || value == b"write"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutex_is_one_field_with_a_canonical_count() {
        type Case<'a> = (&'a [u8], &'a [u8], Result<SingleField, Error>);
        let cases: &[Case<'_>] = &[
            (b"a", b"1", Ok(SingleField::Hold(Holds::ONE))),
            (b"\0\xff", b"1", Ok(SingleField::Hold(Holds::ONE))),
            (b"a", b"9007199254740993", Err(Error::NotALock)),
            (b"a", b"0", Err(Error::NotALock)),
            (b"a", b"-1", Err(Error::NotALock)),
            (b"a", b"01", Err(Error::NotALock)),
            (b"a", b"+1", Err(Error::NotALock)),
            (b"a", b"1.5", Err(Error::NotALock)),
            (b"a", b"", Err(Error::NotALock)),
            (b"a", b"one", Err(Error::NotALock)),
            (b"mode", b"read", Ok(SingleField::ModeOnly)),
            (b"mode", b"write", Ok(SingleField::ModeOnly)),
            (b"mode", b"1", Err(Error::NotALock)),
            (b"mode", b"READ", Err(Error::NotALock)),
        ];
        for (field, value, expected) in cases {
            assert_eq!(single_field(field, value), *expected, "{}", value.escape_ascii());
        }
        assert_eq!(holds(b"9007199254740992").map(Holds::get), Ok(1 << 53));
    }

    #[test]
    fn a_sorted_set_of_ends_that_expires_with_the_last_is_a_lock() {
        let (now, late) = (UnixMs(1_790_000_000_000), 1_790_000_060_000.0);
        let at = |ms| Expiry::At(UnixMs(ms));
        let scores = |lowest, highest| Scores { lowest, highest, own: None };
        let other_data = Err(Error::NotPermits);
        let cases = [
            ("one permit", scores(late, late), at(1_790_000_060_000), Ok(true)),
            ("an ended one beside it", scores(1_789_999_999_000.0, late), at(1_790_000_060_000), Ok(true)),
            ("the last was removed", scores(late, late), at(1_790_000_070_000), Ok(true)),
            ("all have ended", scores(1e12, 1_790_000_000_000.0), at(1_790_000_000_000), Ok(false)),
            ("no expiry", scores(late, late), Expiry::Never, other_data.clone()),
            ("a score after the expiry", scores(late, late), at(1_790_000_059_999), other_data.clone()),
            ("times in the past", scores(1e12, 1.1e12), at(1_790_000_060_000), other_data.clone()),
            ("ranks", scores(1.0, 900.0), at(900), other_data.clone()),
            ("a rank beside times", scores(7.0, late), at(1_790_000_060_000), other_data.clone()),
            ("half a millisecond", scores(1e12 + 0.5, late), at(1_790_000_060_000), other_data.clone()),
            ("infinite", scores(late, f64::INFINITY), at(1_790_000_060_000), other_data.clone()),
            ("no number", scores(f64::NAN, late), at(1_790_000_060_000), other_data.clone()),
        ];
        for (case, scores, key_end, expected) in cases {
            assert_eq!(permits(scores, key_end, now), expected, "{case}");
        }
        let own = |own| Scores { own: Some(own), ..scores(1e12, late) };
        assert_eq!(permits(own(late), at(1_790_000_060_000), now), Ok(true));
        assert_eq!(permits(own(1e12 + 0.25), at(1_790_000_060_000), now), other_data);
    }

    #[test]
    fn several_fields_are_a_read_write_lock_or_not_a_lock() {
        assert_eq!(has_writer(None), Err(Error::NotALock));
        assert_eq!(has_writer(Some(b"dark")), Err(Error::NotALock));
        assert_eq!(has_writer(Some(b"read")), Ok(false));
        assert_eq!(has_writer(Some(b"write")), Ok(true));
    }

    #[test]
    fn fields_of_a_read_write_lock_are_holds_of_readers_and_writers() {
        assert_eq!(rw_field(b"mode", b"read"), Ok(RwField::Mode));
        assert_eq!(rw_field(b"a:1", b"1"), Ok(RwField::Reads(b"a:1", Holds::ONE)));
        assert_eq!(rw_field(b"a:1:write", b"1"), Ok(RwField::Writes(b"a:1", Holds::ONE)));
        assert_eq!(rw_field(b"title", b"War and Peace"), Err(Error::NotALock));
    }
}
