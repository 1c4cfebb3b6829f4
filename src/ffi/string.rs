//! The server's strings: borrowed from an argument vector, or owned by the module.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicPtr, Ordering};

use redis_module::raw;

use super::api::{api, optional_api};

/// A string of the server's that lives at least as long as `'a`.
#[derive(Clone, Copy)]
pub(crate) struct StringRef<'a> {
    raw: NonNull<raw::RedisModuleString>,
    lives: PhantomData<&'a [u8]>,
}

impl<'a> StringRef<'a> {
    /// Wraps a pointer; `None` if it is null.
    ///
    /// # Safety
    /// The string must live, and must not be changed, for all of `'a`.
    pub(super) unsafe fn from_raw(raw: *mut raw::RedisModuleString) -> Option<Self> {
        Some(Self { raw: NonNull::new(raw)?, lives: PhantomData })
    }

    pub(super) fn as_ptr(self) -> *mut raw::RedisModuleString {
        self.raw.as_ptr()
    }

    /// The bytes, whatever they are.
    pub(crate) fn bytes(self) -> &'a [u8] {
        let mut len = 0;
        // SAFETY: the string lives for `'a` by the promise of `from_raw`, and the server gives its bytes.
        let start = unsafe { api!(RedisModule_StringPtrLen)(self.as_ptr(), &raw mut len) };
        if start.is_null() {
            return &[];
        }
        // SAFETY: the server gave start and length of the bytes, which stay as they are for `'a`.
        unsafe { slice::from_raw_parts(start.cast(), len) }
    }
}

/// A string that is freed when it is dropped.
pub(crate) struct OwnedString(StringRef<'static>);

impl OwnedString {
    /// Takes over a string that the server made for the module; `None` if the pointer is null.
    ///
    /// # Safety
    /// No other code may free the string.
    pub(super) unsafe fn from_raw(raw: *mut raw::RedisModuleString) -> Option<Self> {
        // SAFETY: the string lives until this owner is dropped, and lends it no longer than that.
        unsafe { StringRef::from_raw(raw) }.map(Self)
    }

    /// A string of these bytes.
    pub(crate) fn new(bytes: &[u8]) -> Self {
        // SAFETY: pointer and length are those of a slice; a null context is allowed.
        let made =
            unsafe { api!(RedisModule_CreateString)(ptr::null_mut(), bytes.as_ptr().cast(), bytes.len()) };
        Self::made(made)
    }

    /// The decimal form of an integer.
    pub(crate) fn from_integer(value: i64) -> Self {
        // SAFETY: a null context is allowed.
        let made = unsafe { api!(RedisModule_CreateStringFromLongLong)(ptr::null_mut(), value) };
        Self::made(made)
    }

    #[expect(clippy::panic, reason = "unreachable: the server aborts when it is out of memory")]
    fn made(raw: *mut raw::RedisModuleString) -> Self {
        // SAFETY: the server has just made it for us.
        match unsafe { Self::from_raw(raw) } {
            Some(string) => string,
            None => panic!("the server made no string"),
        }
    }

    /// The string, for as long as this owner lives.
    pub(crate) fn borrow(&self) -> StringRef<'_> {
        self.0
    }
}

/// A string that is made when it is first asked for, and kept.
pub(crate) struct Constant {
    bytes: &'static [u8],
    made: AtomicPtr<raw::RedisModuleString>,
}

/// One hold, as the server writes it.
pub(crate) static ONE: Constant = Constant::new(b"1");
/// Redisson's message that a lock is free.
pub(crate) static ZERO: Constant = Constant::new(b"0");
/// The field that marks a read/write lock.
pub(crate) static MODE: Constant = Constant::new(rlock_core::names::MODE_FIELD);
/// The value of that field with readers.
pub(crate) static READ: Constant = Constant::new(b"read");
/// The value of that field with a writer.
pub(crate) static WRITE: Constant = Constant::new(b"write");
/// One byte more than the server keeps in a listpack (`hash-max-listpack-value` 64).
pub(crate) static TOO_LONG_TO_PACK: Constant = Constant::new(&[b' '; 65]);

impl Constant {
    const fn new(bytes: &'static [u8]) -> Self {
        Self { bytes, made: AtomicPtr::new(ptr::null_mut()) }
    }

    /// The string; it is not to be kept for longer than a callback.
    pub(crate) fn get(&'static self) -> StringRef<'static> {
        // SAFETY: a made string is never freed.
        if let Some(made) = unsafe { StringRef::from_raw(self.made.load(Ordering::Relaxed)) } {
            return made;
        }
        let made = ManuallyDrop::new(OwnedString::new(self.bytes));
        self.made.store(made.0.as_ptr(), Ordering::Relaxed);
        made.0
    }
}

impl Deref for OwnedString {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl Drop for OwnedString {
    fn drop(&mut self) {
        // SAFETY: `self` owns the string, and nothing borrows it any more.
        unsafe { api!(RedisModule_FreeString)(ptr::null_mut(), self.0.as_ptr()) };
    }
}
