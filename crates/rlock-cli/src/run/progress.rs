//! The line on a terminal during a wait for a lock.

use std::time::Duration;

use rlock_client::Info;

use super::keeper::Keeper;
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

/// How much of an owner is shown.
const OWNER: usize = 40;

/// What the server says about a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    /// The first holder, and how many others there are.
    holder: Option<(String, u64)>,
    /// How many waiters are before this client; `None` if it is not in the part of the queue that is shown.
    before: Option<usize>,
}

impl Seen {
    /// Reads what concerns the client whose owners begin with `client`.
    pub(super) fn new(info: &Info, client: &str) -> Seen {
        let holder = info.holders.first().map(|holder| {
            let owner = names::shortened(&names::shown(&holder.owner), OWNER);
            (owner, info.holder_count.saturating_sub(1))
        });
        let before = info.queue.iter().position(|waiter| waiter.owner.starts_with(client.as_bytes()));
        Seen { holder, before }
    }

    fn text(&self) -> String {
        let holder = match &self.holder {
            Some((owner, 0)) => format!(", held by {owner}"),
            Some((owner, 1)) => format!(", held by {owner} and 1 other"),
            Some((owner, others)) => format!(", held by {owner} and {others} others"),
            None => String::new(),
        };
        let before = match self.before {
            Some(0) => "; next in the queue".to_string(),
            Some(1) => "; 1 waiter before this one".to_string(),
            Some(count) => format!("; {count} waiters before this one"),
            None => String::new(),
        };
        holder + &before
    }
}

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
