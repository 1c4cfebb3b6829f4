//! Clients that send the module's commands: they try, block, enqueue; plain, fenced, fair, readers and writers.

use std::time::Duration;

use redis::Value;

use super::desk::{Desk, SOON};
use crate::history::{Attempt, Line, Mode, Outcome, Token, Us, ms};
use crate::places::CONFIRM_MS;
use crate::wire::{Answer, Heard, Trouble};

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Want {
    pub(crate) key: usize,
    /// `READ`, `WRITE` or nothing.
    pub(crate) side: &'static str,
    pub(crate) fair: bool,
    pub(crate) fenced: bool,
    pub(crate) lease: u64,
    /// In ms; 0 is for ever.
    pub(crate) wait: u64,
}

/// What a holder was told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) holds: i64,
    pub(crate) lease: i64,
    pub(crate) token: i64,
}

/// The three numbers of an answer; nothing where it is null or something else.
pub(crate) fn told(value: &Value) -> Option<Told> {
    match value {
        Value::Array(parts) => match parts.as_slice() {
            [Value::Int(holds), Value::Int(lease), Value::Int(token), ..] => {
                Some(Told { holds: *holds, lease: *lease, token: *token })
            }
            _ => None,
        },
        _ => None,
    }
}

impl Want {
    pub(crate) fn mode(&self) -> Mode {
        if self.side == "READ" { Mode::Shared } else { Mode::Alone }
    }

    pub(crate) fn line(&self) -> Line {
        if self.fair { Line::NativeFair } else { Line::Native }
    }

    /// The words of an acquisition by this owner that arrives at so many holds.
    pub(crate) fn acquire(
        &self,
        desk: &Desk,
        owner: &str,
        lease: u64,
        holds: u64,
        wait: &[&str],
    ) -> Vec<String> {
        let mut words =
            vec!["RLOCK.ACQUIRE".to_owned(), desk.name(self.key), owner.to_owned(), lease.to_string()];
        words.extend([self.side].iter().filter(|side| !side.is_empty()).map(ToString::to_string));
        words.extend(self.fair.then(|| "FAIR".to_owned()));
        words.extend(self.fenced.then(|| "FENCED".to_owned()));
        words.extend(["HOLDS".to_owned(), holds.to_string()]);
        words.extend(wait.iter().map(ToString::to_string));
        words
    }
}

/// Words as commands take them.
pub(crate) fn refs(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

impl Desk {
    /// Sends an acquisition, and its answer.
    pub(crate) fn acquire(&mut self, want: &Want, owner: &str, wait: &[&str], within: Duration) -> Answer {
        let words = want.acquire(self, owner, want.lease, 1, wait);
        self.ask(want.key, &refs(&words), within)
    }

    /// After an answer that was lost.
    pub(crate) fn withdraw(&mut self, want: &Want, attempt: Attempt) {
        let (name, owner) = (self.name(want.key), attempt.owner.clone());
        let cancel = vec!["RLOCK.CANCEL".to_owned(), name, owner.clone()];
        let mut clean = vec![cancel];
        clean.extend(self.releases(want, &owner));
        // Twice: a command may have been on its way still.
        let clean: Vec<Vec<&str>> = clean.iter().chain(&clean).map(|words| refs(words)).collect();
        let clean: Vec<&[&str]> = clean.iter().map(Vec::as_slice).collect();
        self.give_up(attempt, &clean);
    }

    /// What gives back all that an owner may hold.
    pub(crate) fn releases(&self, want: &Want, owner: &str) -> Vec<Vec<String>> {
        let sides: &[&str] = if want.side.is_empty() { &[""] } else { &["READ", "WRITE"] };
        let words = |side: &&str| {
            let words = ["RLOCK.RELEASE".to_owned(), self.name(want.key), owner.to_owned(), side.to_string()];
            words.into_iter().filter(|word| !word.is_empty()).chain(["ALL".to_owned()]).collect()
        };
        sides.iter().map(words).collect()
    }

    /// Tries once.
    pub(crate) fn try_once(&mut self, want: &Want) {
        let mut attempt = self.begin(want.key, want.mode(), want.line(), None);
        let answer = self.acquire(want, &attempt.owner, &[], SOON);
        attempt.answered = self.now();
        match answer {
            Ok(value) => match told(&value) {
                Some(told) => self.got(want, attempt, told),
                None => self.without(attempt, Outcome::Denied),
            },
            Err(Trouble::Refused(code, text)) => self.refused(attempt, &code, &text),
            Err(Trouble::Lost) => self.withdraw(want, attempt),
        }
    }

    /// Waits as a blocked client.
    pub(crate) fn block(&mut self, want: &Want) {
        let mut attempt = self.begin(want.key, want.mode(), want.line(), Some(want.wait));
        let leaves = self.dice.one_in(40);
        let patience = match (leaves, want.wait) {
            (true, _) => Duration::from_millis(self.dice.within(5, 60)),
            (_, 0) => Duration::from_secs(12),
            (_, wait) => Duration::from_millis(wait + 6_000),
        };
        let wait = want.wait.to_string();
        let answer = self.acquire(want, &attempt.owner, &["BLOCK", &wait], patience);
        attempt.answered = self.now();
        match answer {
            Ok(value) => match told(&value) {
                Some(told) => self.got(want, attempt, told),
                None => self.without(attempt, Outcome::TimedOut),
            },
            Err(Trouble::Refused(code, text)) => self.refused(attempt, &code, &text),
            Err(Trouble::Lost) if leaves => self.left(want, attempt),
            Err(Trouble::Lost) => self.withdraw(want, attempt),
        }
    }

    /// A waiter that was told that it waits no more.
    fn refused(&mut self, attempt: Attempt, code: &str, text: &str) {
        let expected =
            ["UNBLOCKED", "READONLY", "LOADING", "OOM", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MISCONF"];
        if !expected.contains(&code) {
            let said = format!("{} was answered {code} {text}", attempt.owner);
            self.recorder().violation("answer", attempt.key, said);
        }
        self.without(attempt, Outcome::Denied);
        // It will be refused for a while.
        self.sleep_us(10_000, 50_000);
    }

    /// A client that hung up leaves the queue at once, and holds nothing.
    fn left(&mut self, want: &Want, mut attempt: Attempt) {
        self.hang_up();
        let (name, since) = (self.name(want.key), self.now());
        let mut listed = true;
        while listed && self.now() < since + ms(1_000) {
            std::thread::sleep(Duration::from_millis(30));
            let info = self.ask(want.key, &["RLOCK.INFO", &name], SOON);
            // Where nobody answers there is nothing to be seen.
            listed = info.is_ok_and(|info| super::look::waits(&info, &attempt.owner));
        }
        if listed {
            let text = format!("{} still waits 1 s after its client has gone", attempt.owner);
            self.recorder().violation_unless("departure", want.key, text, since, |harm| harm.stalls);
        }
        attempt.gone = self.now();
        self.withdraw(want, attempt);
    }

    /// Waits for a message.
    pub(crate) fn enqueue(&mut self, want: &Want) {
        let channel = format!("chaos:{}.{}:{{{}}}", self.number, self.deaf, self.name(want.key));
        // Nobody answers the first time to ask where the lock is.
        if self.shared.place.sharded() {
            let _ = self.ask(want.key, &["RLOCK.INFO", &self.name(want.key)], SOON);
        }
        if self.listen(want.key, &channel).is_none() {
            return std::thread::sleep(Duration::from_millis(20));
        }
        let mut attempt = self.begin(want.key, want.mode(), want.line(), Some(want.wait));
        let wait = want.wait.to_string();
        let words = ["ENQUEUE", wait.as_str(), channel.as_str()];
        let answer = self.acquire(want, &attempt.owner, &words, SOON);
        attempt.answered = self.now();
        match answer.as_ref().map(told) {
            Ok(Some(Told { holds: 0, .. })) => {
                attempt.queued = Some(attempt.answered);
                self.queued(want, attempt, &words);
            }
            Ok(Some(told)) => self.got(want, attempt, told),
            Ok(None) => self.without(attempt, Outcome::Denied),
            Err(Trouble::Refused(code, text)) => self.refused(attempt, code, text),
            Err(Trouble::Lost) => self.withdraw(want, attempt),
        }
    }

    /// One that is in the queue: it may cancel, ask again, or go.
    fn queued(&mut self, want: &Want, mut attempt: Attempt, words: &[&str]) {
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
                let again = self.acquire(want, &attempt.owner, words, SOON);
                if let Some(told) = again.as_ref().ok().and_then(told).filter(|told| told.holds > 0) {
                    attempt.answered = self.now();
                    self.forget_message();
                    return self.got(want, attempt, told);
                }
            }
            4 => {
                return self.go_deaf(want, attempt);
            }
            _ => {}
        }
        self.await_message(want, attempt);
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
                waits = info.is_ok_and(|info| super::look::waits(&info, &attempt.owner));
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        attempt.gone = self.now() + if waits { 0 } else { ms(CONFIRM_MS) };
        self.without(attempt, Outcome::Unknown);
    }

    /// The grant's message may have come, and is of no use any more.
    fn forget_message(&mut self) {
        self.stop_listening();
    }

    fn await_message(&mut self, want: &Want, mut attempt: Attempt) {
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
                self.granted(want, attempt, told);
            }
            Some("timeout") => self.without(attempt, Outcome::TimedOut),
            _ => self.without(attempt, Outcome::Denied),
        }
    }

    /// A grant by message: it lasts for a while, and has to be confirmed.
    fn granted(&mut self, want: &Want, mut attempt: Attempt, told: Told) {
        let heard = attempt.answered;
        let shortly = want.lease.min(CONFIRM_MS);
        if told.lease > i64::try_from(shortly).unwrap_or(i64::MAX) {
            let text = format!("{} was granted {} ms before it was heard of", attempt.owner, told.lease);
            self.recorder().violation("reply", want.key, text);
        }
        self.note_token(want, &mut attempt, told, shortly);
        if self.dice.one_in(25) {
            // Its client has died meanwhile.
            attempt.dead = true;
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
            Ok(_) => {
                // How long the message was under way is not known, only that the grant came after it had queued.
                let queued = attempt.queued.unwrap_or(attempt.requested);
                self.confirmed(&mut attempt, queued, shortly);
                attempt.outcome = Outcome::Held;
                attempt.refuted = Some(self.now());
                attempt.confirms[0].replied = heard;
                attempt.gone = self.now();
                self.recorder().attempt(attempt);
            }
            Err(_) => self.withdraw(want, attempt),
        }
    }

    /// An acquisition that was answered.
    fn got(&mut self, want: &Want, mut attempt: Attempt, told: Told) {
        let (sent, lease) = (attempt.requested, want.lease);
        // After a wait the lease counts from a moment that this client does not know: it asks for a whole one.
        let waited = attempt.answered - sent;
        self.note_token(want, &mut attempt, told, lease);
        if told.holds != 1 || told.lease > lease as i64 {
            let text =
                format!("{} was answered {told:?} to HOLDS 1 and a lease of {lease} ms", attempt.owner);
            self.recorder().violation("reply", want.key, text);
        }
        self.confirmed(&mut attempt, sent, lease);
        if waited > ms(lease / 8) {
            let (name, since) = (self.name(want.key), self.now());
            match self.ask(want.key, &["RLOCK.RENEW", &name, &attempt.owner, &lease.to_string()], SOON) {
                Ok(Value::Int(1)) => {
                    // It had it from the answer until now, whenever that lease began.
                    let until_now = (since - sent) + (since - sent) / 50 + ms(4);
                    attempt.confirms[0].lease = attempt.confirms[0].lease.max(until_now);
                    self.confirmed(&mut attempt, since, lease);
                }
                Ok(_) => {
                    attempt.refuted = Some(self.now());
                    attempt.gone = self.now();
                }
                Err(_) => return self.withdraw(want, attempt),
            }
        }
        self.hold(want, attempt);
    }

    /// Writes down a token, which must be there where it was asked for, and only there.
    pub(crate) fn note_token(&self, want: &Want, attempt: &mut Attempt, told: Told, lease: u64) {
        if want.fenced != (told.token > 0) {
            let text = format!("{} has token {}", attempt.owner, told.token);
            self.recorder().violation("reply", want.key, text);
        }
        if told.token > 0 {
            let (requested, known) = (attempt.requested, attempt.answered);
            attempt.tokens.push(Token { number: told.token, requested, known, lease: ms(lease) });
        }
    }

    /// What the lease has left for sure.
    pub(crate) fn left_of(&self, attempt: &Attempt) -> Us {
        attempt.end().saturating_sub(self.now())
    }
}
