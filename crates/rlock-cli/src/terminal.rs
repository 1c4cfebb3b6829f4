//! Using the terminal from the background, and noticing its end.

use std::fs::File;
use std::io::{self, IsTerminal, stdin};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// The input of a terminal, for the program that reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// Nothing in the given time.
    Nothing,
    Some,
    /// The terminal is gone: its window was closed, or the connection to it was lost.
    Gone,
}

/// The terminal that keys come from: the standard input, or the one that controls this process.
pub(crate) enum Keys {
    Standard,
    Controlling(File),
}

impl Keys {
    pub(crate) fn open() -> io::Result<Keys> {
        if stdin().is_terminal() { Ok(Keys::Standard) } else { File::open("/dev/tty").map(Keys::Controlling) }
    }

    /// Waits for a key, for this time at most.
    pub(crate) fn wait(&self, time: Duration) -> io::Result<Input> {
        match self {
            Keys::Standard => input_of(stdin().as_fd(), time),
            Keys::Controlling(terminal) => input_of(terminal.as_fd(), time),
        }
    }

    /// Whether no key can come any more.
    pub(crate) fn are_gone(&self) -> bool {
        self.wait(Duration::ZERO).is_ok_and(|input| input == Input::Gone)
    }
}

/// Whether a terminal is gone. A program that only writes to it, or reads it at its end, would never learn that.
pub(crate) fn is_gone(terminal: impl AsFd) -> bool {
    input_of(terminal.as_fd(), Duration::ZERO).is_ok_and(|input| input == Input::Gone)
}

fn input_of(terminal: BorrowedFd<'_>, time: Duration) -> io::Result<Input> {
    let mut wanted = [PollFd::from_borrowed_fd(terminal, PollFlags::IN)];
    let time = Timespec::try_from(time).ok();
    match poll(&mut wanted, time.as_ref()) {
        // A signal: the caller checks whether it must end.
        Err(Errno::INTR) => return Ok(Input::Nothing),
        outcome => outcome?,
    };
    let [seen] = wanted;
    let seen = seen.revents();
    if seen.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        return Ok(Input::Gone);
    }
    Ok(if seen.contains(PollFlags::IN) { Input::Some } else { Input::Nothing })
}

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
