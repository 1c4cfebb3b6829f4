//! Which hashes are locks.
//!
//! A mutex is a hash of exactly one field, the owner's, whose value is a canonical integer from 1 to
//! 2^53. A hash with a field `mode` of `read` or `write` is a read/write lock, and free when nothing but
//! `mode` is left. Any other hash belongs to somebody else and is never changed.

use crate::error::Error;
use crate::types::{Expiry, Holds, canonical_integer};

/// The field that tells a read/write lock.
pub const MODE_FIELD: &[u8] = b"mode";

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

/// Why a hash of several fields cannot be served as a mutex; `mode` is the value of that field.
pub fn several_fields(mode: Option<&[u8]>) -> Error {
    if mode.is_some_and(is_mode) { Error::ReadWriteLock } else { Error::NotALock }
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
        assert_eq!(several_fields(None), Error::NotALock);
        assert_eq!(several_fields(Some(b"dark")), Error::NotALock);
        assert_eq!(several_fields(Some(b"read")), Error::ReadWriteLock);
        assert_eq!(several_fields(Some(b"write")), Error::ReadWriteLock);
    }
}
