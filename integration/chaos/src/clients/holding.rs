//! What native holders do with a lock: work, renew, enter again, die, work past its lease, and release it.

use std::time::Duration;

use redis::Value;

use super::desk::{Desk, SOON};
use super::native::{Want, refs, told};
use crate::history::{Attempt, Line, Mode, Outcome, ms};
use crate::scene::Class;
use crate::wire::Trouble;

/// Leases of at most this many ms may be left to their end.
pub(crate) const SHORT: u64 = 900;

/// Two of the ways in which a hold ends, which are more frequent on quiet locks.
const DIES: u64 = 6;
const DELETES: u64 = 12;

impl Desk {
    /// Holds a lock and releases it, in one of many ways.
    #[expect(clippy::too_many_lines, reason = "a case for each way to use a lock")]
    pub(crate) fn hold(&mut self, want: &Want, mut attempt: Attempt) {
        attempt.outcome = Outcome::Held;
        if attempt.refuted.is_some() {
            return self.recorder().attempt(attempt);
        }
        if [super::READ_ON, super::READ_BEHIND].contains(&self.kind) {
            self.sleep_us(30_000, 70_000);
            return self.give_back(want, attempt);
        }
        if self.kind == super::PERMIT_STAY {
            self.sleep_us(1_500_000, 2_500_000);
            return self.give_back(want, attempt);
        }
        if self.kind == super::WRITE_THEN_READ {
            // Other clients arrive in the meantime, and must wait.
            self.sleep_us(150_000, 300_000);
            return match self.downgrade(want, &mut attempt) {
                true => self.give_back(want, attempt),
                false => self.withdraw_hold(want, attempt),
            };
        }
        if !self.shared.place.sharded() && self.dice.one_in(6) && !self.until_on_replica(want, &mut attempt) {
            return self.withdraw_hold(want, attempt);
        }
        // A lock that no other client uses shows best whether the end of a lease is noticed.
        let quiet = self.shared.scene.keys[want.key].class == Class::Quiet;
        let fate = match self.dice.below(12) {
            0..4 if quiet => DIES,
            // No message would wake Redisson waiters.
            4 | 5 if quiet && !self.shared.scene.keys[want.key].foreign => DELETES,
            _ => self.dice.below(20),
        };
        let going_on = match fate {
            0..3 => self.renew(want, &mut attempt),
            3..5 if want.permits.is_none() => self.enter_again(want, &mut attempt),
            3..=5 => self.repeat(want, &mut attempt),
            DIES | 7 if want.lease <= SHORT => return self.die(attempt),
            // The lock's key outlasts this reader.
            DIES | 7 if want.side == "READ" => {
                if self.renew_once(want, &mut attempt, 300) {
                    return self.die(attempt);
                }
                false
            }
            DIES | 7 => return self.die_tied(want, attempt),
            8 if want.lease <= SHORT => self.oversleep(want, &mut attempt),
            9 if want.side == "WRITE" => self.downgrade(want, &mut attempt),
            12..14 if want.side == "WRITE" && quiet && want.lease > SHORT => {
                self.downgrade(want, &mut attempt)
            }
            10 | 11 if quiet && want.lease > SHORT => self.hold_long(),
            DELETES if quiet && want.side != "READ" && !self.shared.scene.keys[want.key].foreign => {
                return self.give_back_by_deletion(want, attempt);
            }
            // Of readers only the lease keys may change.
            18 if want.side != "READ" => self.renew_under_watch(want, &mut attempt),
            14..18 if quiet && want.side == "READ" && want.lease > SHORT => self.hold_long(),
            10 => {
                self.sleep_us(10_000, 40_000);
                true
            }
            _ => {
                self.sleep_us(0, 3_000);
                true
            }
        };
        if going_on {
            self.give_back(want, attempt);
        } else {
            self.withdraw_hold(want, attempt);
        }
    }

    /// Long enough for waits to end, and for readers to join.
    fn hold_long(&mut self) -> bool {
        self.sleep_us(900_000, 1_400_000);
        true
    }

    /// After an answer that was lost, or said that it holds nothing.
    pub(crate) fn withdraw_hold(&mut self, want: &Want, mut attempt: Attempt) {
        let now = self.now();
        attempt.released = Some(attempt.released.unwrap_or(now));
        let releases = self.releases(want, &attempt.owner);
        for words in releases.iter().chain(&releases) {
            self.surely(want.key, &refs(words));
        }
        attempt.gone = self.now();
        self.recorder().attempt(attempt);
    }

    /// A second hold, with a shorter lease: this shortens nothing.
    fn enter_again(&mut self, want: &Want, attempt: &mut Attempt) -> bool {
        let left = self.left_of(attempt);
        let sent = self.now();
        let lease = (want.lease / 4).max(50);
        let words = want.acquire(self, &attempt.owner, lease, 2, &[]);
        let answer = self.ask(want.key, &refs(&words), SOON);
        let answered = self.now();
        let value = match answer {
            Ok(value) => value,
            // Memory is full, or the server drains.
            Err(Trouble::Refused(..)) => return true,
            Err(Trouble::Lost) => return false,
        };
        let Some(told) = told(&value) else {
            attempt.refuted = Some(answered);
            return false;
        };
        let spent = answered - sent;
        let floor = (left.saturating_sub(spent) / 1_000) as i64;
        if told.holds != 2
            || told.lease < floor.min(lease as i64)
            || (want.mode() == Mode::Alone && told.lease < floor)
        {
            let text = format!(
                "{} was answered {told:?} to HOLDS 2, {floor} ms of its lease were left",
                attempt.owner
            );
            let since = attempt.requested;
            self.recorder().violation_unless("reply", want.key, text, since, |harm| harm.holds);
        }
        self.note_token(want, attempt, told, lease, (sent, answered));
        self.sleep_us(0, 2_000);
        let (name, owner) = (self.name(want.key), attempt.owner.clone());
        let mut words = vec!["RLOCK.RELEASE".to_owned(), name, owner, "HOLDS".into(), "1".into()];
        words.extend(side(want, attempt));
        match self.ask(want.key, &refs(&words), SOON) {
            Ok(Value::Int(0)) => {}
            Ok(_) => attempt.refuted = Some(self.now()),
            Err(_) => return false,
        }
        self.sleep_us(0, 2_000);
        attempt.refuted.is_none()
    }

    /// Repeats the call, as after a lost answer: it still counts as one hold.
    fn repeat(&mut self, want: &Want, attempt: &mut Attempt) -> bool {
        let sent = self.now();
        if self.left_of(attempt) < ms(20) {
            return true;
        }
        let words = want.acquire(self, &attempt.owner, want.lease, 1, &[]);
        match self.ask(want.key, &refs(&words), SOON).as_ref().map(told) {
            Ok(Some(again)) => {
                if again.holds != 1 {
                    let text = format!("{} holds {} times, after HOLDS 1 twice", attempt.owner, again.holds);
                    self.recorder().violation("reply", want.key, text);
                }
                self.note_token(want, attempt, again, want.lease, (sent, self.now()));
                self.acquired(want, attempt, sent, want.lease);
                true
            }
            Ok(None) => false,
            Err(Trouble::Refused(..)) => true,
            Err(Trouble::Lost) => false,
        }
    }

    /// Dies without a release.
    fn die(&mut self, mut attempt: Attempt) {
        attempt.dead = true;
        self.died = true;
        self.hang_up();
        self.recorder().attempt(attempt);
    }

    /// Works past its lease and checks no clock, like a paused process.
    fn oversleep(&mut self, want: &Want, attempt: &mut Attempt) -> bool {
        attempt.dead = true;
        std::thread::sleep(Duration::from_millis(want.lease + 100));
        self.recorder().note("overslept");
        true
    }

    /// A writer downgrades to a reader: other readers may join it.
    fn downgrade(&mut self, want: &Want, attempt: &mut Attempt) -> bool {
        let (name, owner, lease) = (self.name(want.key), attempt.owner.clone(), want.lease.to_string());
        let sent = self.now();
        let read = ["RLOCK.ACQUIRE", &name, &owner, &lease, "READ", "HOLDS", "1"];
        match self.ask(want.key, &read, SOON).as_ref().map(told) {
            Ok(Some(_)) => {}
            Ok(None) => {
                attempt.refuted = Some(self.now());
                return false;
            }
            Err(Trouble::Refused(..)) => return true,
            Err(Trouble::Lost) => return false,
        }
        let reading = Attempt { mode: Mode::Shared, tokens: Vec::new(), ..attempt.clone() };
        attempt.released = Some(self.now());
        let given = self.ask(want.key, &["RLOCK.RELEASE", &name, &owner, "WRITE", "HOLDS", "0"], SOON);
        let replied = self.now();
        if given != Ok(Value::Int(1)) {
            return false;
        }
        // From here on it is a reader, which is another attempt by the same owner.
        let mut written = attempt.clone();
        written.gone = replied;
        self.recorder().attempt(written);
        // It held the lock already, and so overtakes no waiter.
        *attempt = Attempt { limit: None, kind: "downgraded", line: Line::Foreign, ..reading };
        (attempt.requested, attempt.answered) = (sent, replied);
        attempt.confirms.clear();
        self.confirmed(attempt, sent, want.lease);
        let quiet = self.shared.scene.keys[want.key].class == Class::Quiet;
        let (from, to) = if quiet { (800_000, 1_200_000) } else { (1_000, 20_000) };
        self.sleep_us(from, to);
        true
    }
}

/// READ or WRITE, where a call needs it.
pub(crate) fn side(want: &Want, attempt: &Attempt) -> Option<String> {
    match (want.side, attempt.mode) {
        ("", _) | (_, Mode::Permit(_)) => None,
        (_, Mode::Shared) => Some("READ".to_owned()),
        (_, Mode::Alone) => Some("WRITE".to_owned()),
    }
}
