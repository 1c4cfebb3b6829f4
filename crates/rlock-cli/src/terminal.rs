//! Using the terminal from the background.

use nix::sys::signal::{SigSet, Signal};

/// Lets the calling thread write to the terminal, and hand it over, while another process group is in the foreground.
///
/// The system lets a thread that blocks SIGTTOU do so, and stops all others. Commands inherit the mask of the thread that starts
/// them, so that thread calls this after the start.
pub(crate) fn allow_background_use() {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTTOU);
    // It fails only for an operation that the system does not know.
    let _ = signals.thread_block();
}
