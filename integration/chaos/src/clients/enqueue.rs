//! Native enqueued waiters: they ask again, cancel, stop listening, die before they confirm, and confirm.

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
        // It must listen to the server that answers it.
        let _ = self.ask(want.key, &["RLOCK.RENEW", &self.name(want.key), "nobody", "1"], SOON);
        if self.listen(want.key, &channel).is_none() {
            return std::thread::sleep(Duration::from_millis(20));
        }
        let attempt = self.begin(want.key, want.mode(), want.line(), Some(want.wait));
        let wait = want.wait.to_string();
        let words = ["ENQUEUE", wait.as_str(), channel.as_str()];
        let answer = self.acquire(want, &attempt.owner, &words, SOON);
        // A caller that may wait is not denied at once: null counts as a wait that ended early.
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

    /// An enqueued waiter may cancel, ask again, or stop listening.
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
                // Other waiters may have queued behind it in the meantime.
                self.sleep_us(0, 15_000);
                let again = self.acquire(want, &attempt.owner, words, SOON);
                if let Some(told) = again.as_ref().ok().and_then(told).filter(|told| told.holds > 0) {
                    attempt.answered = self.now();
                    // The grant's message may have arrived, and is of no use any more.
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

    /// Stops listening for good: a grant without a subscriber does not take effect.
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

    /// Waits for the message that ends its wait, which it may have requested twice.
    pub(crate) fn await_message(&mut self, want: &Want, mut attempt: Attempt, repeated: bool) {
        let patience = if want.wait == 0 { ms(12_000) } else { ms(want.wait + 6_000) };
        let deadline = attempt.requested + patience;
        let heard = loop {
            let left = self.recorder().until(deadline);
            let heard = self.ear().map_or(Heard::Broken, |ear| ear.next(left));
            match heard {
                // About an earlier attempt.
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
            // This may end the first wait, after which the repeat has begun another: that grant would reach no client.
            Some("timeout") if repeated => {
                attempt.told_of_end = Some(attempt.answered);
                self.withdraw(want, attempt);
            }
            Some("timeout") => self.without(attempt, Outcome::TimedOut),
            Some("dropped") => self.dropped(attempt, fields.nth(3).unwrap_or_default(), repeated),
            _ => {
                self.recorder().violation("reply", want.key, format!("{} received {text:?}", attempt.owner));
                self.withdraw(want, attempt);
            }
        }
    }

    /// A waiter that was dropped from the queue: mostly the lock is served elsewhere now.
    fn dropped(&mut self, attempt: Attempt, reason: &str, repeated: bool) {
        let (key, who, sent, told) =
            (attempt.key, attempt.owner.clone(), attempt.requested, attempt.answered);
        let (code, text) = ("dropped".to_owned(), reason.to_owned());
        self.recorder().refusal(Refusal { key, who, sent, told, code, text });
        // After a repeat this may end the first wait, and the repeat may have begun another, elsewhere. That wait needs
        // no cancel only because its channel never gets a subscriber again: a grant without a subscriber does not take
        // effect.
        self.stop_listening();
        self.deaf += u64::from(repeated);
        self.hang_up();
        self.without(attempt, Outcome::Refused);
    }

    /// A grant by message: it lasts for a while, and must be confirmed.
    fn granted(&mut self, want: &Want, mut attempt: Attempt, told: Told, repeated: bool) {
        let heard = attempt.answered;
        let shortly = want.lease.min(CONFIRM_MS);
        if told.lease > i64::try_from(shortly).unwrap_or(i64::MAX) {
            let text = format!("the unconfirmed grant of {} lasts {} ms", attempt.owner, told.lease);
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
            // The grant was lost before its message arrived, and the repeat may have begun another wait: that grant
            // would reach no client.
            Ok(_) if repeated => self.withdraw(want, attempt),
            Ok(_) => {
                // When the grant came is not known, only that it was after the request.
                let requested = attempt.requested;
                self.acquired(want, &mut attempt, requested, shortly);
                attempt.outcome = Outcome::Held;
                attempt.refuted = Some(self.now());
                attempt.confirms[0].replied = heard;
                // It never relied on the grant, which may have been lost before its message arrived.
                attempt.released = Some(heard);
                attempt.gone = self.now();
                self.recorder().attempt(attempt);
            }
            Err(_) => self.withdraw(want, attempt),
        }
    }
}
