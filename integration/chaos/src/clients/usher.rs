//! One who reads, and lets somebody wait to write for a while: who came to read behind that one comes in when it goes.

use std::time::Duration;

use super::desk::{Desk, SOON};
use super::look::{entries, word};
use super::native::{Told, Want, told};
use crate::history::{Line, Mode, Outcome, ms};
use crate::wire::Trouble;

/// For how long it waits for somebody to come behind the writer.
const COMES: u64 = 1_500;

/// For how long it reads on, and is silent: any call would serve the queue.
const SILENCE: Duration = Duration::from_millis(900);

impl Desk {
    /// Reads, lets a writer wait and go, and reads on.
    pub(crate) fn usher(&mut self, want: &Want) {
        let Some(reading) = self.takes(want) else { return };
        // Now and then its wait ends by itself.
        let wait = if self.dice.one_in(3) { 900 } else { want.wait };
        self.keep_out(&Want { side: "WRITE", wait, ..want.clone() });
        std::thread::sleep(SILENCE);
        self.give_back(want, reading);
    }

    /// Waits to write until somebody has come to read behind it, and goes.
    fn keep_out(&mut self, want: &Want) {
        let (name, wait) = (self.name(want.key), want.wait.to_string());
        let channel = format!("chaos:{}.{}:{{{name}}}", self.number, self.deaf);
        if self.listen(want.key, &channel).is_none() {
            return;
        }
        let mut writing = self.begin(want.key, Mode::Alone, Line::Native, Some(want.wait));
        let answer = self.acquire(want, &writing.owner, &["ENQUEUE", &wait, &channel], SOON);
        writing.answered = self.now();
        match answer.as_ref().map(told) {
            Ok(Some(Told { holds: 0, .. })) => {}
            // Where the lock is to be had by waiting nobody is denied it at once.
            Ok(None) => return self.without(writing, Outcome::TimedOut),
            Err(Trouble::Refused(..)) => return self.without(writing, Outcome::Refused),
            // Nobody reads any more, and so it writes.
            _ => return self.withdraw(want, writing),
        }
        let deadline = self.now() + ms(COMES.min(want.wait));
        let mut behind = false;
        while !behind && self.now() < deadline && !self.stopped() {
            std::thread::sleep(Duration::from_millis(10));
            let Ok(info) = self.ask(want.key, &["RLOCK.INFO", &name], SOON) else { break };
            behind = entries(&info, "queue").iter().any(|waiter| word(waiter, "mode") == "read");
        }
        if want.wait < COMES {
            return self.await_message(want, writing, false);
        }
        let cancelled = self.ask(want.key, &["RLOCK.CANCEL", &name, &writing.owner], SOON);
        if cancelled != Ok(redis::Value::Int(1)) {
            return self.withdraw(want, writing);
        }
        writing.answered = self.now();
        self.without(writing, Outcome::Denied);
    }
}
