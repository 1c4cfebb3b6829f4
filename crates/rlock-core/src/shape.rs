//! Which hashes are locks.
//!
//! A mutex is a hash of exactly one field, the owner's, whose value is a canonical integer from 1 to
//! 2^53. A hash with a field `mode` of `read` or `write` is a read/write lock, and free when nothing but
//! `mode` is left. Any other hash belongs to somebody else and is never changed.

use crate::error::Error;
use crate::types::{Expiry, Holds, canonical_integer};

/// The field that tells a read/write lock.
pub const MODE_FIELD: &[u8] = b"mode";

/// What follows the owner in the field of a writer.
pub const WRITE_SUFFIX: &[u8] = b":write";

/// What a key holds, as far as a decision for one owner needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockState {
    /// There is no key.
    Free,
    /// A hash is there, but nobody holds it: only `mode` is left, or its one field has expired.
    Abandoned,
    /// The owner that asks holds it.
    Mine {
        /// How many times.
        holds: Holds,
        /// Until when.
        expiry: Expiry,
    },
    /// Somebody else holds it.
    Theirs,
    /// A read/write lock that somebody holds, or held.
    ReadWrite(ReadWrite),
}

/// What the hash of a read/write lock says, as far as a decision for one owner needs to know.
///
/// A reader that died keeps its field: whether a read hold lives is told by its lease key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadWrite {
    /// Whether there is a writer; else there are readers.
    pub writing: bool,
    /// How many read holds the owner has, or had.
    pub reads: Option<Holds>,
    /// How many write holds the owner has.
    pub writes: Option<Holds>,
    /// How many fields of others there are, those of dead readers included.
    pub others: usize,
    /// Until when the key is there.
    pub expiry: Expiry,
}

impl LockState {
    /// Whether the owner's holds are the same here and there, whatever became of other readers.
    pub(crate) fn holds_as(self, other: Self) -> bool {
        match (self, other) {
            (Self::ReadWrite(one), Self::ReadWrite(other)) => {
                (one.writing, one.reads, one.writes) == (other.writing, other.reads, other.writes)
            }
            _ => self == other,
        }
    }
}

/// What the only field of a hash says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SingleField {
    /// A hold of a mutex.
    Hold(Holds),
    /// The rest of a read/write lock: nobody holds it.
    ModeOnly,
}

/// How many holds a field's value stands for; an error if it stands for none.
pub fn holds(value: &[u8]) -> Result<Holds, Error> {
    canonical_integer(value).and_then(Holds::new).ok_or(Error::NotALock)
}

/// Reads the only field of a hash.
pub fn single_field(field: &[u8], value: &[u8]) -> Result<SingleField, Error> {
    if field != MODE_FIELD {
        return holds(value).map(SingleField::Hold);
    }
    // An owner is never called `mode`, so a number there is somebody's own data.
    if is_mode(value) { Ok(SingleField::ModeOnly) } else { Err(Error::NotALock) }
}

/// Whether a hash of several fields is a lock with a writer; `mode` is the value of that field.
pub fn has_writer(mode: Option<&[u8]>) -> Result<bool, Error> {
    mode.filter(|mode| is_mode(mode)).map(|mode| mode == b"write").ok_or(Error::NotALock)
}

/// Whose hold a field of a read/write lock is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RwField<'a> {
    /// `mode` itself.
    Mode,
    /// So many read holds of this owner.
    Reads(&'a [u8], Holds),
    /// So many write holds of this owner.
    Writes(&'a [u8], Holds),
}

/// Reads a field of a read/write lock; an error if it cannot be one.
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
    fn several_fields_are_a_read_write_lock_or_foreign() {
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
