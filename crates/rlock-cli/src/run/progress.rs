//! The progress of a wait for a lock: on a terminal in a line that changes, elsewhere in a line of the log once a minute.

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

/// How often the server is asked where each answer is a line of a log.
pub(super) const EVERY_LINE: Duration = Duration::from_secs(60);

/// How long the first words wait for the server's answer.
const ANSWER: Duration = Duration::from_millis(500);

/// The words about one wait.
pub(super) struct Progress<'a> {
    keeper: &'a Keeper,
    notes: Notes,
    lock: String,
    start: Moment,
    /// How often a log gets a line.
    every_line: Duration,
    asked: Option<Moment>,
    seen: Option<Seen>,
    last: String,
    /// Whether the line that is due was written.
    said: bool,
}

impl<'a> Progress<'a> {
    /// `every_line`: how often a log gets a line.
    pub(super) fn new(keeper: &'a Keeper, notes: Notes, key: &[u8], every_line: Duration) -> Progress<'a> {
        let (start, lock) = (Moment::now(), names::shortened(&names::shown(key), OWNER));
        let (asked, seen, last, said) = (None, None, String::new(), false);
        Progress { keeper, notes, lock, start, every_line, asked, seen, last, said }
    }

    /// Receives the server's view of the wait; `None` if it is unknown.
    pub(super) fn saw(&mut self, seen: Option<Seen>) {
        self.seen = seen;
        self.show();
    }

    /// Asks and shows what is due.
    pub(super) fn tick(&mut self) {
        if !self.start.after(QUIET).left().is_zero() {
            return;
        }
        let (now, is_live) = (Moment::now(), self.notes.show_progress());
        let every = if is_live { EVERY } else { self.every_line };
        let asked = match self.asked {
            Some(asked) if now < asked.after(every) => asked,
            _ => {
                if !is_live {
                    (self.seen, self.said) = (None, false);
                }
                self.keeper.look();
                now
            }
        };
        self.asked = Some(asked);
        if self.seen.is_some() || now >= asked.after(ANSWER) {
            self.show();
        }
    }

    fn show(&mut self) {
        if self.notes.show_progress() {
            let text = format!("rlock: {}", self.text());
            if text != self.last {
                self.notes.progress(&text);
                self.last = text;
            }
        } else if !self.said {
            self.said = true;
            self.notes.say(&self.text());
        }
    }

    fn text(&self) -> String {
        let seconds = Moment::now().since(self.start).as_secs().saturating_mul(1_000);
        let seconds = shown(ms(Duration::from_millis(seconds)).cast_signed()).replace(".0s", "s");
        let seen = self.seen.as_ref().map(Seen::text).unwrap_or_default();
        format!("waiting for the lock {}{seen} ({seconds})", self.lock)
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
