//! The server's log.

use std::ffi::{CStr, CString};
use std::ptr;

use rlock_core::MonoMs;
use rlock_core::rare_warning::RareWarning;

use super::api::{api, optional_api};

/// Writes a line to the server's log, for an operator to act on. Use it to answer a command of an operator: a load, an
/// unload, CONFIG SET. Use [`warn_rarely`] for a failure that clients, a disk or a network can repeat.
pub(crate) fn warn(line: &CStr) {
    let (level, format) = (c"warning".as_ptr(), c"rlock: %s".as_ptr());
    // SAFETY: a null context is allowed; the format takes one C string.
    unsafe { api!(RedisModule_Log)(ptr::null_mut(), level, format, line.as_ptr()) };
}

/// Writes a line unless this warning was logged lately.
pub(crate) fn warn_rarely(warning: &RareWarning, text: &str) {
    // SAFETY: takes nothing, reads the clock.
    let clock = MonoMs(unsafe { api!(RedisModule_MonotonicMicroseconds)() } / 1_000);
    if let Some(line) = warning.line(text, clock) {
        // A NUL cannot be logged; no text here has one.
        warn(&CString::new(line).unwrap_or_default());
    }
}
