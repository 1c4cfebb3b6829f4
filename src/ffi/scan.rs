//! Going through the fields of a hash.

use std::ffi::c_void;
use std::ptr;

use redis_module::raw;

use super::api::{api, optional_api};
use super::guard::{Callback, guarded};
use super::key::Key;
use super::string::StringRef;

/// A place among the fields of a hash, which survives changes: each field that stays during the whole scan is visited.
pub(crate) struct Scan {
    cursor: *mut raw::RedisModuleScanCursor,
}

impl Scan {
    /// A place before the first field.
    pub(crate) fn new() -> Self {
        // SAFETY: takes nothing; never null, since the server aborts when it is out of memory.
        Self { cursor: unsafe { api!(RedisModule_ScanCursorCreate)() } }
    }

    /// Calls `each` with field and value of the next few fields, of all of them in a small hash. `Some(true)` if
    /// there may be more; `None` if one could not be read, so that it does not count as missing.
    #[must_use]
    pub(crate) fn step(&mut self, key: &Key<'_>, mut each: impl FnMut(&[u8], &[u8])) -> Option<bool> {
        let mut seen = Seen { each: &mut each, complete: true };
        let data = ptr::from_mut(&mut seen).cast();
        let scan_key = api!(RedisModule_ScanKey);
        // 0 is the end, and is said at once of a key that is not there.
        // SAFETY: key and cursor live; `data` outlives the call, and `on_field` expects a `Seen`.
        let more = unsafe { scan_key(key.as_ptr(), self.cursor, Some(on_field), data) } != 0;
        seen.complete.then_some(more)
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        // SAFETY: made above, and not used any more.
        unsafe { api!(RedisModule_ScanCursorDestroy)(self.cursor) };
    }
}

impl Key<'_> {
    /// Calls `each` with field and value of a hash of few fields. False if that was not possible for
    /// all of them.
    #[must_use]
    pub(crate) fn for_each_field(&self, mut each: impl FnMut(&[u8], &[u8])) -> bool {
        let mut scan = Scan::new();
        loop {
            match scan.step(self, &mut each) {
                Some(true) => {}
                Some(false) => return true,
                None => return false,
            }
        }
    }
}

/// A step under way.
struct Seen<'a> {
    each: &'a mut dyn FnMut(&[u8], &[u8]),
    complete: bool,
}

/// Called by the server for every field of a step.
unsafe extern "C" fn on_field(
    _: *mut raw::RedisModuleKey,
    field: *mut raw::RedisModuleString,
    value: *mut raw::RedisModuleString,
    seen: *mut c_void,
) {
    // SAFETY: `step` passes this pointer, and no other code uses it during the call.
    let seen = unsafe { &mut *seen.cast::<Seen<'_>>() };
    // SAFETY: both strings live for the time of this call.
    let pair = unsafe { (StringRef::from_raw(field), StringRef::from_raw(value)) };
    seen.complete &= guarded(Callback::Scan, false, || {
        let (Some(field), Some(value)) = pair else { return false };
        (seen.each)(field.bytes(), value.bytes());
        true
    });
}
