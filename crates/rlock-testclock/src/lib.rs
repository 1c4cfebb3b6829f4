//! A wall clock that steps when a test says so: preloaded (`LD_PRELOAD`) into a server under test.
//!
//! The file named by `RLOCK_CLOCK_FILE` holds, as decimal text, how many seconds the wall clock is ahead
//! of the real one (behind, if negative). It is read at every look at the clock. Clocks that do not step
//! in reality do not step here.

#![deny(unsafe_code)]
#![expect(unsafe_code, reason = "a preloaded library takes the place of functions of C")]

use std::ffi::{c_int, c_long, c_void};
use std::sync::OnceLock;

use libc::{CLOCK_REALTIME, CLOCK_REALTIME_COARSE, clockid_t, time_t, timespec, timeval};

/// The open file, or -1.
fn file() -> c_int {
    static FILE: OnceLock<c_int> = OnceLock::new();
    *FILE.get_or_init(|| {
        // SAFETY: a constant name; the value is a C string of the environment's.
        unsafe {
            let path = libc::getenv(c"RLOCK_CLOCK_FILE".as_ptr());
            if path.is_null() { -1 } else { libc::open(path, libc::O_RDONLY | libc::O_CLOEXEC) }
        }
    })
}

/// How many seconds the clock is ahead. Allocates nothing: it is called before anything works.
fn ahead() -> time_t {
    let mut text = [0_u8; 32];
    // SAFETY: buffer and length belong together; a bad descriptor only gives an error.
    let len = unsafe { libc::pread(file(), text.as_mut_ptr().cast::<c_void>(), text.len(), 0) };
    let text = usize::try_from(len).ok().and_then(|len| text.get(..len)).unwrap_or_default();
    std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// The clock as the kernel has it, which `into` points to; then the step.
///
/// # Safety
/// As for the function of this name in libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: clockid_t, into: *mut timespec) -> c_int {
    // SAFETY: by the promise of this function.
    let status = unsafe { libc::syscall(libc::SYS_clock_gettime, c_long::from(clock), into) };
    let steps = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    if status == 0 && steps && !into.is_null() {
        // SAFETY: the kernel has just written there.
        unsafe { (*into).tv_sec = (*into).tv_sec.saturating_add(ahead()) };
    }
    if status == 0 { 0 } else { -1 }
}

/// The wall clock, with the step.
///
/// # Safety
/// As for the function of this name in libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(into: *mut timeval, _: *mut c_void) -> c_int {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place of our own, then that of the caller.
    unsafe {
        if clock_gettime(CLOCK_REALTIME, &raw mut now) != 0 || into.is_null() {
            return -1;
        }
        *into = timeval { tv_sec: now.tv_sec, tv_usec: now.tv_nsec / 1_000 };
    }
    0
}

/// The wall clock in seconds, with the step.
///
/// # Safety
/// As for the function of this name in libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn time(into: *mut time_t) -> time_t {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place of our own, then that of the caller, which may be null.
    unsafe {
        clock_gettime(CLOCK_REALTIME, &raw mut now);
        if !into.is_null() {
            *into = now.tv_sec;
        }
    }
    now.tv_sec
}
