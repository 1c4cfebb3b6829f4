//! Replies to the client of a command, or to one that was blocked by it.
//!
//! The server's functions for this always say that they succeeded, even after the client has disconnected: no result needs a
//! check.

use std::ffi::CString;
use std::sync::atomic::{AtomicU64, Ordering};

use rlock_core::Error;

use super::api::{api, optional_api};
use super::ctx::Ctx;

/// How many commands were answered with an error.
static ERRORS: AtomicU64 = AtomicU64::new(0);

/// How many commands were answered with an error since the load.
pub(crate) fn errors() -> u64 {
    ERRORS.load(Ordering::Relaxed)
}

/// Counts one more error.
pub(super) fn count_error() {
    ERRORS.fetch_add(1, Ordering::Relaxed);
}

impl Ctx<'_> {
    /// An integer.
    pub(crate) fn reply_integer(self, value: i64) {
        // SAFETY: the context is that of a command; so in every function of this block.
        unsafe { api!(RedisModule_ReplyWithLongLong)(self.as_ptr(), value) };
    }

    /// The simple string `OK`.
    pub(crate) fn reply_ok(self) {
        // SAFETY: see above; the text is static.
        unsafe { api!(RedisModule_ReplyWithSimpleString)(self.as_ptr(), c"OK".as_ptr()) };
    }

    /// Null, where a number or a text would stand.
    pub(crate) fn reply_null(self) {
        // SAFETY: see above.
        unsafe { api!(RedisModule_ReplyWithNull)(self.as_ptr()) };
    }

    /// Null, where an array would stand.
    pub(crate) fn reply_null_array(self) {
        // SAFETY: see above.
        unsafe { api!(RedisModule_ReplyWithNullArray)(self.as_ptr()) };
    }

    /// The head of an array of `len` elements, which follow.
    pub(crate) fn reply_array(self, len: usize) {
        let len = std::ffi::c_long::try_from(len).unwrap_or(std::ffi::c_long::MAX);
        // SAFETY: see above.
        unsafe { api!(RedisModule_ReplyWithArray)(self.as_ptr(), len) };
    }

    /// The head of a map of `pairs` pairs, which follow; a flat array in RESP2.
    pub(crate) fn reply_map(self, pairs: i32) {
        // SAFETY: see above.
        unsafe { api!(RedisModule_ReplyWithMap)(self.as_ptr(), pairs.into()) };
    }

    /// A bulk string.
    pub(crate) fn reply_bytes(self, bytes: &[u8]) {
        // SAFETY: see above; pointer and length are those of a slice, and the server copies it.
        unsafe { api!(RedisModule_ReplyWithStringBuffer)(self.as_ptr(), bytes.as_ptr().cast(), bytes.len()) };
    }

    /// An error.
    pub(crate) fn reply_error(self, error: &Error) {
        if *error == Error::Arity {
            // SAFETY: see above.
            unsafe { api!(RedisModule_WrongArity)(self.as_ptr()) };
            return;
        }
        let line = CString::new(error.to_string()).unwrap_or_else(|_| c"ERR".to_owned());
        // SAFETY: see above; the server copies the line.
        unsafe { api!(RedisModule_ReplyWithError)(self.as_ptr(), line.as_ptr()) };
    }
}
