//! Clocks that a test sets: preloaded (`LD_PRELOAD`) into a server under test.
//!
//! The file named by `RLOCK_CLOCK_FILE` holds one of these as decimal text, and is read with each clock:
//!
//! - how many seconds the wall clock is ahead of the real one (behind, if negative); other clocks run as they do;
//! - three numbers: the wall clock in ms, the monotonic clock in ms, and their sum, by which a read beside a write is
//!   seen. Both clocks stand still until the file changes.

#![deny(unsafe_code)]
#![expect(unsafe_code, reason = "a preloaded library takes the place of functions of C")]

use std::ffi::{c_int, c_long, c_void};
use std::sync::OnceLock;

use libc::{
    CLOCK_MONOTONIC, CLOCK_MONOTONIC_COARSE, CLOCK_REALTIME, CLOCK_REALTIME_COARSE, clockid_t, time_t,
    timespec, timeval,
};

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

/// What the file says of the clocks.
enum Clocks {
    /// The wall clock is this number of seconds ahead.
    Ahead(time_t),
    /// They stand at these ms.
    Stand { wall: i64, monotonic: i64 },
}

/// Allocates nothing: it is called before anything works.
fn clocks() -> Clocks {
    loop {
        let mut text = [0_u8; 96];
        // SAFETY: buffer and length belong together; a bad descriptor only gives an error.
        let len = unsafe { libc::pread(file(), text.as_mut_ptr().cast::<c_void>(), text.len(), 0) };
        let text = usize::try_from(len).ok().and_then(|len| text.get(..len)).unwrap_or_default();
        let text = std::str::from_utf8(text).unwrap_or_default();
        let mut numbers = text.split_ascii_whitespace().map(|word| word.parse::<i64>().ok());
        match [(); 3].map(|()| numbers.next().flatten()) {
            [Some(wall), Some(monotonic), Some(sum)] if wall.wrapping_add(monotonic) == sum => {
                return Clocks::Stand { wall, monotonic };
            }
            [Some(_), Some(_), _] => {}
            [ahead, ..] => return Clocks::Ahead(ahead.unwrap_or(0)),
        }
    }
}

/// The clock as the test has set it, or else as the kernel has it.
///
/// # Safety
/// As for the function of this name in libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: clockid_t, into: *mut timespec) -> c_int {
    let is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    let is_set = is_wall || clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE;
    let clocks = if is_set && !into.is_null() { clocks() } else { Clocks::Ahead(0) };
    if let Clocks::Stand { wall, monotonic } = clocks {
        let ms = if is_wall { wall } else { monotonic };
        let (tv_sec, tv_nsec) = (ms.div_euclid(1_000), ms.rem_euclid(1_000) * 1_000_000);
        // SAFETY: by the promise of this function.
        unsafe { *into = timespec { tv_sec, tv_nsec } };
        return 0;
    }
    // SAFETY: by the promise of this function.
    let status = unsafe { libc::syscall(libc::SYS_clock_gettime, c_long::from(clock), into) };
    if let (0, true, Clocks::Ahead(ahead)) = (status, is_wall, clocks) {
        // SAFETY: the kernel has just written there.
        unsafe { (*into).tv_sec = (*into).tv_sec.saturating_add(ahead) };
    }
    if status == 0 { 0 } else { -1 }
}

/// The wall clock.
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

/// The wall clock in seconds.
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
