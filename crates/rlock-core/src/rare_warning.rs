//! Warnings that each command could cause.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::types::MonoMs;

/// A warning about what may happen with each command: a line in the log each time would fill the disk.
#[derive(Debug, Default)]
pub struct RareWarning {
    /// The time of the last line, in ms and from 1; 0 before the first.
    last: AtomicU64,
    /// How often it happened since, without a line.
    left_out: AtomicU64,
}

/// From one line to the next, in ms.
const INTERVAL_MS: u64 = 10_000;

impl RareWarning {
    /// A warning that was not logged yet.
    pub const fn new() -> Self {
        Self { last: AtomicU64::new(0), left_out: AtomicU64::new(0) }
    }

    /// The line to log now: none within ten seconds of the last one. The next line says how many were left out.
    pub fn line(&self, text: &str, clock: MonoMs) -> Option<String> {
        let last = self.last.load(Ordering::Relaxed);
        if last != 0 && clock.0.saturating_sub(last.saturating_sub(1)) < INTERVAL_MS {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.last.store(clock.0.saturating_add(1), Ordering::Relaxed);
        match self.left_out.swap(0, Ordering::Relaxed) {
            0 => Some(text.to_string()),
            left_out => Some(format!("{text} ({left_out} more since the last line like this)")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_warning_is_logged_every_ten_seconds() {
        let warning = RareWarning::new();
        let line = |clock| warning.line("full", MonoMs(clock));
        assert_eq!(line(0).as_deref(), Some("full"), "the first one, at the clock's start too");
        assert_eq!((line(1), line(9_999)), (None, None));
        assert_eq!(line(10_000).as_deref(), Some("full (2 more since the last line like this)"));
        assert_eq!(line(10_001), None);
        assert_eq!(line(30_000).as_deref(), Some("full (1 more since the last line like this)"));
        assert_eq!(line(40_000).as_deref(), Some("full"));
    }
}
