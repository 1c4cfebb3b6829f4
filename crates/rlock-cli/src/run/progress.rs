//! The line on a terminal during a wait for a lock.

use std::time::Duration;

use super::keeper::Keeper;
use super::seen::{OWNER, Seen};
use crate::clock::Moment;
use crate::duration::{ms, shown};
use crate::names;
use crate::output::Notes;

/// A shorter wait is not shown.
const QUIET: Duration = Duration::from_secs(1);

/// How often the server is asked for the holders and waiters of the lock.
const EVERY: Duration = Duration::from_secs(1);

/// How long the first words wait for the server's answer.
const ANSWER: Duration = Duration::from_millis(500);

/// The words about one wait.
pub(super) struct Progress<'a> {
    keeper: &'a Keeper,
    notes: Notes,
    lock: String,
    start: Moment,
    asked: Option<Moment>,
    seen: Option<Seen>,
    last: String,
}

impl<'a> Progress<'a> {
    pub(super) fn new(keeper: &'a Keeper, notes: Notes, key: &[u8]) -> Progress<'a> {
        let (start, lock) = (Moment::now(), names::shortened(&names::shown(key), OWNER));
        Progress { keeper, notes, lock, start, asked: None, seen: None, last: String::new() }
    }

    /// Takes what the server says; `None` where it says nothing.
    pub(super) fn saw(&mut self, seen: Option<Seen>) {
        self.seen = seen;
        self.show();
    }

    /// Asks and shows what is due.
    pub(super) fn tick(&mut self) {
        if !self.notes.show_progress() || !self.start.after(QUIET).left().is_zero() {
            return;
        }
        let due = |asked: Moment| asked.after(EVERY).left().is_zero();
        if self.asked.is_none_or(due) {
            let first = self.asked.is_none();
            self.asked = Some(Moment::now());
            self.keeper.look();
            if first {
                return;
            }
        }
        let waited = self.start.after(QUIET).after(ANSWER).left().is_zero();
        if self.seen.is_some() || waited {
            self.show();
        }
    }

    fn show(&mut self) {
        let seconds = Moment::now().since(self.start).as_secs().saturating_mul(1_000);
        let seconds = shown(ms(Duration::from_millis(seconds)).cast_signed()).replace(".0s", "s");
        let seen = self.seen.as_ref().map(Seen::text).unwrap_or_default();
        let text = format!("rlock: waiting for the lock {}{seen} ({seconds})", self.lock);
        if text != self.last {
            self.notes.progress(&text);
            self.last = text;
        }
    }
}

impl Drop for Progress<'_> {
    /// Ends the line before anything else is written to the terminal.
    fn drop(&mut self) {
        if !self.last.is_empty() {
            crate::output::finish_notes();
        }
    }
}
