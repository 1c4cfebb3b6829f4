//! Native clients that wait for a message: they ask again, cancel, go deaf, die before they confirm, and confirm.

use std::time::Duration;

use redis::Value;

use super::desk::{Desk, SOON};
use super::native::{Told, Want, told};
use crate::history::{Attempt, Outcome, Refusal, ms};
use crate::places::CONFIRM_MS;
use crate::wire::Heard;

impl Desk {
    /// Waits for a message.
    pub(crate) fn enqueue(&mut self, want: &Want) {
        let channel = self.own_channel(want.key);
        // It has to listen to the server that it asks.
        let _ = self.ask(want.key, &["RLOCK.RENEW", &self.name(want.key), "nobody", "1"], SOON);
        if self.listen(want.key, &channel).is_none() {
            return std::thread::sleep(Duration::from_millis(20));
        }
        let attempt = self.begin(want.key, want.mode(), want.line(), Some(want.wait));
        let wait = want.wait.to_string();
        let words = ["ENQUEUE", wait.as_str(), channel.as_str()];
        let answer = self.acquire(want, &attempt.owner, &words, SOON);
        // Where the lock is to be had by waiting nobody is denied it at once.
        match self.answered(want, attempt, answer, Outcome::TimedOut) {
            Some((attempt, Told { holds: 0, .. })) if !self.listens_beside() => {
                self.stop_listening();
                self.withdraw(want, attempt);
            }
            Some((mut attempt, Told { holds: 0, .. })) => {
                attempt.queued = Some(attempt.answered);
                self.queued(want, attempt, &words);
            }
            Some((attempt, told)) => self.got(want, attempt, told),
            None => {}
        }
    }

    /// A channel for this client alone, in the slot of a lock.
    pub(super) fn own_channel(&self, key: usize) -> String {
        format!("chaos:{}.{}:{{{}}}", self.number, self.deaf, self.name(key))
    }

    /// One that is in the queue: it may cancel, ask again, or go.
    fn queued(&mut self, want: &Want, mut attempt: Attempt, words: &[&str]) {
        let mut repeated = false;
        match self.dice.below(24) {
            0 => {
                let name = self.name(want.key);
                let cancelled = self.ask(want.key, &["RLOCK.CANCEL", &name, &attempt.owner], SOON);
                if cancelled == Ok(Value::Int(1)) {
                    attempt.answered = self.now();
                    return self.without(attempt, Outcome::Denied);
                }
            }
            1..4 => {
                // Others may have come meanwhile, behind it.
                self.sleep_us(0, 15_000);
                let again = self.acquire(want, &attempt.owner, words, SOON);
                if let Some(told) = again.as_ref().ok().and_then(told).filter(|told| told.holds > 0) {
                    attempt.answered = self.now();
                    // The grant's message may have come, and is of no use any more.
                    self.stop_listening();
                    return self.got(want, attempt, told);
                }
                repeated = true;
            }
            4 => {
                return self.go_deaf(want, attempt);
            }
            _ => {}
        }
        self.await_message(want, attempt, repeated);
    }

    /// Nobody hears its grant, so that it is none.
    fn go_deaf(&mut self, want: &Want, mut attempt: Attempt) {
        let (name, channel) = (self.name(want.key), self.ear().map(|ear| ear.channel().to_owned()));
        self.stop_listening();
        self.deaf += 1;
        attempt.dead = true;
        attempt.answered = self.now();
        // It may have been granted the lock before the server noticed that.
        let count = if self.shared.place.sharded() { "SHARDNUMSUB" } else { "NUMSUB" };
        let mut waits = false;
        for _ in 0..50 {
            let asked = ["PUBSUB", count, channel.as_deref().unwrap_or_default()];
            let listeners = self.ask(want.key, &asked, SOON);
            if matches!(&listeners, Ok(Value::Array(parts)) if parts.last() == Some(&Value::Int(0))) {
                let info = self.ask(want.key, &["RLOCK.INFO", &name], SOON);
                waits = info.is_ok_and(|info| super::look::has(&info, "queue", &attempt.owner));
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        attempt.gone = self.now() + if waits { 0 } else { ms(CONFIRM_MS) };
        self.without(attempt, Outcome::Unknown);
    }

    /// Waits to be told how its wait has ended, one that it may have asked for twice.
    pub(crate) fn await_message(&mut self, want: &Want, mut attempt: Attempt, repeated: bool) {
        let patience = if want.wait == 0 { ms(12_000) } else { ms(want.wait + 6_000) };
        let deadline = attempt.requested + patience;
        let heard = loop {
            let left = self.recorder().until(deadline);
            let heard = self.ear().map_or(Heard::Broken, |ear| ear.next(left));
            match heard {
                // About an attempt before.
                Heard::Message(text) if !text.split(' ').any(|word| word == attempt.owner) => {}
                heard => break heard,
            }
        };
        attempt.answered = self.now();
        let Heard::Message(text) = heard else {
            if heard == Heard::Broken {
                self.stop_listening();
            }
            return self.withdraw(want, attempt);
        };
        let mut fields = text.split(' ');
        match fields.next() {
            Some("granted") => {
                let number = |field: Option<&str>| field.and_then(|field| field.parse().ok()).unwrap_or(-1);
                let told = Told {
                    holds: number(fields.nth(3)),
                    lease: number(fields.next()),
                    token: number(fields.next()),
                };
                self.granted(want, attempt, told, repeated);
            }
            // That may be the end of the first wait, after which the repeat has begun another: it would be granted the
            // lock, and nobody would know.
            Some("timeout") if repeated => {
                attempt.told_of_end = Some(attempt.answered);
                self.withdraw(want, attempt);
            }
            Some("timeout") => self.without(attempt, Outcome::TimedOut),
            Some("dropped") => self.dropped(attempt, fields.nth(3).unwrap_or_default(), repeated),
            _ => {
                self.recorder().violation("reply", want.key, format!("{} was told {text:?}", attempt.owner));
                self.withdraw(want, attempt);
            }
        }
    }

    /// One that waits no more: mostly the lock is served elsewhere now.
    fn dropped(&mut self, attempt: Attempt, reason: &str, repeated: bool) {
        let (key, who, sent, told) =
            (attempt.key, attempt.owner.clone(), attempt.requested, attempt.answered);
        let (code, text) = ("dropped".to_owned(), reason.to_owned());
        self.recorder().refusal(Refusal { key, who, sent, told, code, text });
        // If it had asked again, this may be the end of the first wait, and the repeat have begun another, elsewhere. That one
        // need not be cancelled only since nobody ever listens to its channel again: a grant that nobody hears is none.
        self.stop_listening();
        self.deaf += u64::from(repeated);
        self.hang_up();
        self.without(attempt, Outcome::Refused);
    }

    /// A grant by message: it lasts for a while, and has to be confirmed.
    fn granted(&mut self, want: &Want, mut attempt: Attempt, told: Told, repeated: bool) {
        let heard = attempt.answered;
        let shortly = want.lease.min(CONFIRM_MS);
        if told.lease > i64::try_from(shortly).unwrap_or(i64::MAX) {
            let text = format!("{} was granted {} ms before it was heard of", attempt.owner, told.lease);
            self.recorder().violation("reply", want.key, text);
        }
        let asked = (attempt.requested, heard);
        self.note_token(want, &mut attempt, told, shortly, asked);
        if self.dice.one_in(25) {
            // Its client has died meanwhile.
            attempt.dead = true;
            self.died = true;
            attempt.gone = heard + ms(shortly);
            attempt.outcome = Outcome::Held;
            return self.recorder().attempt(attempt);
        }
        let (name, sent) = (self.name(want.key), self.now());
        let lease = want.lease.to_string();
        match self.ask(want.key, &["RLOCK.RENEW", &name, &attempt.owner, &lease], SOON) {
            Ok(Value::Int(1)) => {
                self.confirmed(&mut attempt, sent, want.lease);
                self.hold(want, attempt);
            }
            // That grant was lost before the message came, and the repeat may have begun another wait: it would be granted
            // the lock, and nobody would know.
            Ok(_) if repeated => self.withdraw(want, attempt),
            Ok(_) => {
                // When the grant came is not known, only that it was after the request.
                let requested = attempt.requested;
                self.acquired(want, &mut attempt, requested, shortly);
                attempt.outcome = Outcome::Held;
                attempt.refuted = Some(self.now());
                attempt.confirms[0].replied = heard;
                // It never believed in it: the grant may have been lost before the message came.
                attempt.released = Some(heard);
                attempt.gone = self.now();
                self.recorder().attempt(attempt);
            }
            Err(_) => self.withdraw(want, attempt),
        }
    }
}
