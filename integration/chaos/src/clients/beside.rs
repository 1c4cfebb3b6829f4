//! A native reader with a long lease, beside which a Redisson reader with a brief lease renews: Redisson's renewal sets
//! the end of the whole lock, and the module must set it back.

use std::time::Duration;

use redis::Value;

use super::desk::{Desk, SOON};
use super::native::Want;
use super::redisson::{Act, Ask, Lock};
use crate::history::{Harm, Line, Mode, Us, ms};

/// The lease of the Redisson reader, in ms, and for how long the client checks that the lock outlasts it.
const BRIEF: u64 = 300;
const SEEN: u64 = 700;

/// How soon a server that has taken over finds the leases that other servers granted.
const FOUND: Us = ms(1_000);

impl Desk {
    /// Reads natively and by Redisson's protocol at the same time, and checks that the longer lease lasts. With `past`,
    /// another server may first take over, or this one restart: that server must know of the lease as well.
    pub(crate) fn read_beside(&mut self, want: &Want, past: bool) {
        let name = self.name(want.key);
        if self.ask(want.key, &["EXISTS", &name], SOON) != Ok(Value::Int(0)) {
            // A client died here before, and its hold outlasts its lease, since a clock was set back.
            return;
        }
        let Some(reading) = self.takes(want) else { return };
        if past {
            self.read_until_it_moves(want.key, reading.answered);
            let _ = self.surely(want.key, &["HEXISTS", &name, &reading.owner]);
            // A server that has taken over in the meantime has had the time to find the lease.
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
            let text = format!("the hold of {} was cut to Redisson's lease of {BRIEF} ms", reading.owner);
            // A server that has just taken over finds the lease within a few of its beats, and may not be allowed to
            // write.
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

    /// Reads on, for at most 6 s, until another server has taken over, this one has been restarted, or the lock has
    /// moved.
    fn read_until_it_moves(&mut self, key: usize, since: Us) {
        let deadline = self.now() + self.dice.within(ms(1_000), ms(6_000));
        while self.now() < deadline && !self.recorder().has_moved(key, since) {
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Only the reader with the brief lease is left: a denied writer must not be asked to wait longer.
    fn ask_how_long(&mut self, ask: Ask, since: Us) {
        let ask = Ask { lock: Lock::Write, ..ask };
        let writer = self.begin(ask.key, Mode::Alone, Line::Foreign, None).owner;
        match self.run(ask, Act::Take, &writer) {
            Ok(Value::Int(left)) if left <= BRIEF as i64 => {}
            Ok(Value::Int(left)) => {
                let text = format!("{writer} must wait {left} ms for a reader with a lease of {BRIEF} ms");
                self.recorder().violation_unless("told", ask.key, text, since, Harm::disturbs);
            }
            _ => self.run_surely(ask, Act::GiveBack, &writer),
        }
    }

    /// Whether the lock's end is set back beyond Redisson's lease; `None` without an answer.
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
