//! The current step of the run, on standard error.

use std::io::{IsTerminal, Write, stderr};
use std::time::Instant;

/// Shows the current step: rewrites one line of a terminal, or prints a line from time to time.
pub(crate) struct Progress {
    started: Instant,
    last: std::cell::Cell<Option<Instant>>,
}

impl Progress {
    /// Counts the time from now.
    pub(crate) fn start() -> Progress {
        Progress { started: Instant::now(), last: std::cell::Cell::new(None) }
    }

    /// Shows the current step.
    pub(crate) fn show(&self, what: &str) {
        let elapsed = self.started.elapsed().as_secs();
        let mut out = stderr();
        // The run continues even if a progress line cannot be written.
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
