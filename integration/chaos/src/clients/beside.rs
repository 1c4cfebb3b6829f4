//! One who reads for long, and beside itself reads for a moment by Redisson's protocol: Redisson's renewal sets the end
//! of the whole lock, and the module has to set it back.

use std::time::Duration;

use redis::Value;

use super::desk::{Desk, SOON};
use super::native::Want;
use super::redisson::{Act, Ask, Lock};
use crate::history::{Harm, Line, Mode, Us, ms};

/// The lease of the one of Redisson's, in ms, and for how long it is looked whether the lock outlasts it.
const BRIEF: u64 = 300;
const SEEN: u64 = 700;

/// Within what time a server that has taken over finds the leases that others gave.
const FOUND: Us = ms(1_000);

impl Desk {
    /// Reads twice at the same time, and sees whether the longer lease lasts. Who reads `past` a server has read for so long
    /// before that another may have taken over, or this one been restarted: that one has to know of the lease as well.
    pub(crate) fn read_beside(&mut self, want: &Want, past: bool) {
        let name = self.name(want.key);
        if self.ask(want.key, &["EXISTS", &name], SOON) != Ok(Value::Int(0)) {
            // One of those that died here before lasts longer than it was to, since a clock was set back.
            return;
        }
        let Some(reading) = self.takes(want) else { return };
        if past {
            self.read_until_it_moves(want.key, reading.answered);
            let _ = self.surely(want.key, &["HEXISTS", &name, &reading.owner]);
            // Who has taken over meanwhile has had the time to find it.
            self.sleep_us(FOUND, FOUND + ms(200));
        } else {
            self.sleep_us(0, 5_000);
        }
        let seen = self.now();
        if self.ask(want.key, &["HEXISTS", &name, &reading.owner], SOON) != Ok(Value::Int(1)) {
            return self.withdraw_hold(want, reading);
        }
        let ask = Ask { key: want.key, lock: Lock::Read, lease: BRIEF, wait: 0 };
        let (sent, renews) = self.reads_and_dies(ask);
        let lasts = if renews { self.lasts(want) } else { None };
        if lasts == Some(false) {
            let text = format!("{} was to end with Redisson's lease of {BRIEF} ms", reading.owner);
            // A server that has just taken over finds the lease within some of its beats, and it may not be allowed to write.
            self.recorder().violation_unless(
                "loss",
                want.key,
                text,
                seen.saturating_sub(FOUND),
                Harm::disturbs,
            );
        }
        if lasts != Some(true) {
            return self.withdraw_hold(want, reading);
        }
        if self.dice.one_in(2) {
            std::thread::sleep(Duration::from_millis(BRIEF));
            return self.give_back(want, reading);
        }
        self.give_back(want, reading);
        self.ask_how_long(ask, sent);
    }

    /// A Redisson client reads, renews and dies; returns when it renewed, and whether it read.
    fn reads_and_dies(&mut self, ask: Ask) -> (Us, bool) {
        let mut other = self.begin(ask.key, Mode::Shared, Line::Foreign, None);
        let taken = self.run(ask, Act::Take, &other.owner);
        let sent = self.now();
        let renewed = self.run(ask, Act::Renew, &other.owner);
        (other.answered, other.dead) = (self.now(), true);
        other.gone = other.answered + ms(BRIEF);
        self.recorder().attempt(other);
        (sent, taken == Ok(Value::Nil) && renewed == Ok(Value::Int(1)))
    }

    /// Reads on until another server has taken over, this one has been restarted, or the lock has moved; not for ever.
    fn read_until_it_moves(&mut self, key: usize, since: Us) {
        let deadline = self.now() + self.dice.within(ms(1_000), ms(6_000));
        while self.now() < deadline && !self.recorder().has_moved(key, since) {
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Of the readers only the one with the brief lease is left: nobody is told to wait for longer.
    fn ask_how_long(&mut self, ask: Ask, since: Us) {
        let ask = Ask { lock: Lock::Write, ..ask };
        let writer = self.begin(ask.key, Mode::Alone, Line::Foreign, None).owner;
        match self.run(ask, Act::Take, &writer) {
            Ok(Value::Int(left)) if left <= BRIEF as i64 => {}
            Ok(Value::Int(left)) => {
                let text =
                    format!("{writer} was told to wait {left} ms for a reader with a lease of {BRIEF} ms");
                self.recorder().violation_unless("told", ask.key, text, since, Harm::disturbs);
            }
            _ => self.run_surely(ask, Act::GiveBack, &writer),
        }
    }

    /// Whether the lock's end is set back beyond Redisson's lease; nothing where nobody answers.
    fn lasts(&mut self, want: &Want) -> Option<bool> {
        let (name, deadline) = (self.name(want.key), self.now() + ms(SEEN));
        while self.now() < deadline {
            match self.ask(want.key, &["PTTL", &name], SOON) {
                Ok(Value::Int(left)) if left > BRIEF as i64 => return Some(true),
                Ok(_) => std::thread::sleep(Duration::from_millis(5)),
                Err(_) => return None,
            }
        }
        Some(false)
    }
}
