//! A reader that lets a writer wait for a while: the readers behind the writer are granted when it leaves.

use std::time::Duration;

use super::desk::{Desk, SOON};
use super::look::{entries, word};
use super::native::Want;
use crate::history::{Outcome, ms};

/// For how long the writer waits for a reader behind it.
const COMES: u64 = 1_500;

/// For how long the reader is silent after the writer has left: any call would serve the queue.
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

    /// Waits to write until a reader waits behind it, and leaves.
    fn keep_out(&mut self, want: &Want) {
        let Some(mut writing) = self.joins(want) else { return };
        let name = self.name(want.key);
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
