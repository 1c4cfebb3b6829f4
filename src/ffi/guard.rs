//! The one guard: no panic crosses into the server, where it would abort the server.

use std::any::Any;
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rlock_core::rare_warning::RareWarning;

use super::fault;
use super::log::warn_rarely;

/// The kinds of callback that the server calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Callback {
    /// RedisModule_OnLoad.
    Load,
    /// RedisModule_OnUnload.
    Unload,
    /// A command, up to its answer.
    Command,
    /// Sending a command's answer.
    Reply,
    /// Reading an option.
    Config,
    /// Setting an option.
    SetOption,
    /// The section in INFO.
    Info,
    /// A server event.
    ServerEvent,
    /// The answer to a client that was blocked.
    Unblocked,
    /// A blocked client has disconnected.
    Disconnect,
    /// Data of a blocked client is freed.
    Free,
    /// A timer.
    Timer,
    /// A key has changed.
    KeyEvent,
    /// A field of a hash, or a key, that is scanned. It stays the last kind.
    Scan,
}

thread_local! {
    /// Message and place of the last panic, kept by the hook for the guard that catches it. Not dropped by
    /// the thread: a destructor would keep the library in memory after a refused load, so that the load of another one from the
    /// same path would bring this one back.
    static LAST_PANIC: ManuallyDrop<RefCell<String>> = const { ManuallyDrop::new(RefCell::new(String::new())) };
}

/// How many panics were caught since the load.
static PANICS: AtomicU64 = AtomicU64::new(0);

/// The warnings of panics, by the kind of callback.
static WARNINGS: [RareWarning; Callback::Scan as usize + 1] =
    [const { RareWarning::new() }; Callback::Scan as usize + 1];

/// Set after a caught panic, which leaves the memory of the module in doubt.
static IN_DOUBT: AtomicBool = AtomicBool::new(false);

/// How many panics were caught since the load.
pub(crate) fn panics() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

/// Whether there was a panic since this was asked last.
pub(crate) fn take_doubt() -> bool {
    // Read first: a swap is a locked instruction, and each command asks.
    IN_DOUBT.load(Ordering::Relaxed) && IN_DOUBT.swap(false, Ordering::Relaxed)
}

/// Lets panics leave their message and place to the guard instead of writing to standard error.
pub(super) fn install_panic_hook() {
    PANICS.store(0, Ordering::Relaxed);
    panic::set_hook(Box::new(|info| {
        let text = info.to_string();
        // A panic while the text is borrowed loses its text, nothing else.
        let _ = LAST_PANIC.try_with(|last| last.try_borrow_mut().map(|mut last| *last = text));
    }));
}

/// Runs a callback's body; a panic in it is logged and counted, and `on_panic` is the result.
pub(super) fn guarded<T>(callback: Callback, on_panic: T, body: impl FnOnce() -> T) -> T {
    let caught = panic::catch_unwind(AssertUnwindSafe(|| {
        fault::strike(callback);
        body()
    }));
    match caught {
        Ok(result) => result,
        Err(payload) => {
            report(callback, payload);
            on_panic
        }
    }
}

/// Must not panic itself: it runs outside the guard.
fn report(callback: Callback, payload: Box<dyn Any + Send>) {
    PANICS.fetch_add(1, Ordering::Relaxed);
    IN_DOUBT.store(true, Ordering::Relaxed);
    let text = LAST_PANIC.try_with(|last| last.try_borrow().map(|text| text.clone()).unwrap_or_default());
    let place = text.unwrap_or_default().replace(['\0', '\n'], " ");
    // One for each kind of callback: a panic with each command must not hide another one.
    if let Some(warning) = WARNINGS.get(callback as usize) {
        warn_rarely(
            warning,
            &format!("panic in a {callback:?} callback, which is a bug in rlock, please report it: {place}"),
        );
    }
    // Dropping a payload can panic in turn if it was made to; leaking it cannot.
    std::mem::forget(payload);
}
