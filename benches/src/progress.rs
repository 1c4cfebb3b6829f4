//! What is going on, on standard error.

use std::io::{IsTerminal, Write, stderr};
use std::time::Instant;

/// Says what is measured now: over and over on one line of a terminal, else a line now and then.
pub(crate) struct Progress {
    started: Instant,
    last: std::cell::Cell<Option<Instant>>,
}

impl Progress {
    /// Counts the time from now.
    pub(crate) fn start() -> Progress {
        Progress { started: Instant::now(), last: std::cell::Cell::new(None) }
    }

    /// Shows what is being done.
    pub(crate) fn show(&self, what: &str) {
        let elapsed = self.started.elapsed().as_secs();
        let mut out = stderr();
        // A progress line that cannot be written is no reason to stop.
        if out.is_terminal() {
            let _ = write!(out, "\r\x1b[K{elapsed:4} s  {what}");
            let _ = out.flush();
        } else if self.last.get().is_none_or(|last| last.elapsed().as_secs() >= 10) {
            let _ = writeln!(out, "{elapsed:4} s  {what}");
            self.last.set(Some(Instant::now()));
        }
    }

    /// Ends the line.
    pub(crate) fn end(&self) {
        self.show("done");
        eprintln!();
    }
}
