//! An open key, closed when it is dropped.

use std::ffi::{c_int, c_void};
use std::ptr;

use redis_module::raw;
use rlock_core::{Expiry, UnixMs};

use super::api::{api, optional_api};
use super::ctx::Ctx;
use super::string::{ONE, OwnedString, StringRef};

/// The type of the value of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyType {
    /// The key does not exist.
    Empty,
    /// A hash.
    Hash,
    /// A list.
    List,
    /// A string.
    String,
    /// A sorted set.
    SortedSet,
    /// Anything else.
    Other,
}

/// An open key.
///
/// The module is set not to signal a key as modified when it is closed: `perform` does so.
pub(crate) struct Key<'a> {
    /// Null where the key was opened for reading and is not there.
    raw: *mut raw::RedisModuleKey,
    name: StringRef<'a>,
}

/// The end of every list of the server's variadic functions.
const END: *mut c_void = ptr::null_mut();

/// Stands for the value of a field to delete (`REDISMODULE_HASH_DELETE`, a cast of 1).
const DELETED: *mut c_void = ptr::without_provenance_mut(1);

impl<'a> Key<'a> {
    /// Opens a key to read and write. An expired one is deleted by the server now, with its event.
    pub(crate) fn open_write(ctx: Ctx<'a>, name: StringRef<'a>) -> Self {
        let key = Self::open(ctx, name, raw::REDISMODULE_READ | raw::REDISMODULE_WRITE);
        // Only a key to read may be null, and what writes below relies on that.
        assert!(!key.raw.is_null(), "the server did not open a key for writing");
        key
    }

    pub(super) fn as_ptr(&self) -> *mut raw::RedisModuleKey {
        self.raw
    }

    /// Opens a key to inspect it: its idle time, the server's statistics and events stay as they are,
    /// as far as the server can do that (Redis 7.0 cannot).
    pub(crate) fn open_inspect(ctx: Ctx<'a>, name: StringRef<'a>) -> Self {
        let quiet = raw::REDISMODULE_OPEN_KEY_NOTOUCH | raw::REDISMODULE_OPEN_KEY_NOEFFECTS;
        Self::open(ctx, name, raw::REDISMODULE_READ | quiet)
    }

    fn open(ctx: Ctx<'a>, name: StringRef<'a>, mode: u32) -> Self {
        // SAFETY: context and name live; the modes are bits well below the sign.
        let raw = unsafe { api!(RedisModule_OpenKey)(ctx.as_ptr(), name.as_ptr(), mode as c_int) };
        Self { raw, name }
    }

    /// The key's name.
    pub(crate) fn name(&self) -> StringRef<'a> {
        self.name
    }

    /// The type of its value.
    pub(crate) fn key_type(&self) -> KeyType {
        // SAFETY: the key is open, or null, which counts as empty.
        match unsafe { api!(RedisModule_KeyType)(self.raw) } as isize {
            raw::REDISMODULE_KEYTYPE_EMPTY => KeyType::Empty,
            raw::REDISMODULE_KEYTYPE_HASH => KeyType::Hash,
            raw::REDISMODULE_KEYTYPE_LIST => KeyType::List,
            raw::REDISMODULE_KEYTYPE_STRING => KeyType::String,
            raw::REDISMODULE_KEYTYPE_ZSET => KeyType::SortedSet,
            _ => KeyType::Other,
        }
    }

    /// How many fields a hash has, or members a sorted set.
    pub(crate) fn len(&self) -> usize {
        // SAFETY: the key is open, or null, which counts as empty.
        unsafe { api!(RedisModule_ValueLength)(self.raw) }
    }

    /// When the key expires.
    #[inline]
    pub(crate) fn expiry(&self) -> Expiry {
        if self.key_type() == KeyType::Empty {
            // Asking for the expiry of a key that is not there crashes Redis 8.6.
            return Expiry::Never;
        }
        // SAFETY: the key is open and not empty.
        match unsafe { api!(RedisModule_GetAbsExpire)(self.raw) } {
            at if at == i64::from(raw::REDISMODULE_NO_EXPIRE) => Expiry::Never,
            at => Expiry::At(UnixMs(at)),
        }
    }

    /// The value of a hash's field.
    pub(crate) fn field(&self, field: StringRef<'_>) -> Option<OwnedString> {
        if self.raw.is_null() {
            // Not every call takes null: this one would crash the server.
            return None;
        }
        let mut value: *mut raw::RedisModuleString = ptr::null_mut();
        let flags = raw::REDISMODULE_HASH_NONE as c_int;
        let get = api!(RedisModule_HashGet);
        // SAFETY: the key is open; with these flags the list is field, place of the value, null.
        let status = unsafe { get(self.raw, flags, field.as_ptr(), &raw mut value, END) };
        if status != raw::REDISMODULE_OK as c_int {
            return None;
        }
        // SAFETY: the server made the value for the caller to free, or left the pointer null.
        unsafe { OwnedString::from_raw(value) }
    }

    /// The first element of a list; `None` where there is no list.
    pub(crate) fn list_head(&self) -> Option<OwnedString> {
        if self.key_type() != KeyType::List {
            return None;
        }
        // SAFETY: the key is open, for a list; the server made the element for us to free.
        unsafe { OwnedString::from_raw(api!(RedisModule_ListGet)(self.raw, 0)) }
    }

    /// The bytes of a string; `None` for a key without one. The server may change the form in which it stores
    /// the string, so use this only for a string that is about to be written.
    pub(crate) fn string(&self) -> Option<&[u8]> {
        if self.key_type() != KeyType::String {
            return None;
        }
        let mut len = 0;
        // SAFETY: the key is open, for a string.
        let start =
            unsafe { api!(RedisModule_StringDMA)(self.raw, &raw mut len, raw::REDISMODULE_READ as c_int) };
        if start.is_null() {
            return None;
        }
        // SAFETY: the server gave start and length of the bytes, which stay as they are as long as the key is
        // open and not written; writing borrows the key for itself.
        Some(unsafe { std::slice::from_raw_parts(start.cast(), len) })
    }

    /// Makes the key a string, the decimal form of an integer, without an expiry.
    #[must_use]
    pub(crate) fn set_integer(&mut self, value: i64) -> bool {
        let value = OwnedString::from_integer(value);
        // SAFETY: the key is open; the server keeps the string for itself.
        let status = unsafe { api!(RedisModule_StringSet)(self.raw, value.borrow().as_ptr()) };
        status == raw::REDISMODULE_OK as c_int
    }

    /// Sets a field of the hash to an integer, and creates a missing hash.
    #[must_use]
    #[inline]
    pub(crate) fn set_field(&mut self, field: StringRef<'_>, value: i64) -> bool {
        let made = (value != 1).then(|| OwnedString::from_integer(value));
        let value = made.as_ref().map_or_else(|| ONE.get(), OwnedString::borrow);
        let flags = raw::REDISMODULE_HASH_COUNT_ALL as c_int;
        let set = api!(RedisModule_HashSet);
        // SAFETY: the key is open; the list is field, value, null. The server copies the value.
        let changed = unsafe { set(self.raw, flags, field.as_ptr(), value.as_ptr(), END) };
        changed == 1
    }

    /// Sets a field of the hash to a text, and creates a missing hash.
    #[must_use]
    pub(crate) fn set_text(&mut self, field: StringRef<'_>, text: StringRef<'_>) -> bool {
        let flags = raw::REDISMODULE_HASH_COUNT_ALL as c_int;
        let set = api!(RedisModule_HashSet);
        // SAFETY: the key is open; the list is field, value, null. The server copies the value.
        let changed = unsafe { set(self.raw, flags, field.as_ptr(), text.as_ptr(), END) };
        changed == 1
    }

    /// Removes a field of the hash; false if it was not there.
    pub(crate) fn remove_field(&mut self, field: StringRef<'_>) -> bool {
        let flags = raw::REDISMODULE_HASH_COUNT_ALL as c_int;
        let set = api!(RedisModule_HashSet);
        // SAFETY: the key is open; the list is field, the mark of a field to delete, null.
        let changed = unsafe { set(self.raw, flags, field.as_ptr(), DELETED, END) };
        changed == 1
    }

    /// Sets the expiry of a key that is there.
    #[must_use]
    pub(crate) fn set_expiry(&mut self, at: UnixMs) -> bool {
        // SAFETY: the key is open.
        let status = unsafe { api!(RedisModule_SetAbsExpire)(self.raw, at.0) };
        status == raw::REDISMODULE_OK as c_int
    }

    /// Deletes the key; it stays open and is empty.
    #[must_use]
    pub(crate) fn delete(&mut self) -> bool {
        // SAFETY: the key is open.
        let status = unsafe { api!(RedisModule_DeleteKey)(self.raw) };
        status == raw::REDISMODULE_OK as c_int
    }
}

impl Drop for Key<'_> {
    fn drop(&mut self) {
        // SAFETY: opened by us and closed only here; the server ignores null.
        unsafe { api!(RedisModule_CloseKey)(self.raw) };
    }
}
