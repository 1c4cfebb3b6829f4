//! Clients that send the module's commands: they try, block, enqueue; plain, fenced, fair, readers and writers.

use std::time::Duration;

use redis::Value;

use super::desk::{Desk, SOON};
use crate::history::{Attempt, Line, Mode, Outcome, Token, Us, ms};
use crate::wire::{Answer, Trouble};

/// How long a hold lasts after its connection, in ms.
const GRACE: u64 = 1_000;

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Want {
    pub(crate) key: usize,
    /// `READ`, `WRITE` or nothing.
    pub(crate) side: &'static str,
    pub(crate) fair: bool,
    pub(crate) fenced: bool,
    /// How many owners may hold it at once, if a permit is asked for.
    pub(crate) permits: Option<u32>,
    /// Whether the acquisition ties the hold, or the wait, to its connection; nothing after it does.
    pub(crate) tied: bool,
    pub(crate) lease: u64,
    /// In ms; 0 is for ever.
    pub(crate) wait: u64,
}

/// The numbers of an acquisition's reply.
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
        match self.permits {
            Some(permits) => Mode::Permit(permits),
            None if self.side == "READ" => Mode::Shared,
            None => Mode::Alone,
        }
    }

    /// For how long an acquisition with this lease may be relied on, if its connection has ended meanwhile.
    fn relied_on(&self, lease: u64) -> u64 {
        if self.tied { lease.min(GRACE) } else { lease }
    }

    pub(crate) fn line(&self) -> Line {
        if self.fair { Line::NativeFair } else { Line::Native }
    }

    /// The words of an acquisition by this owner that ends with this number of holds.
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
        words
            .extend(self.permits.into_iter().flat_map(|permits| ["PERMITS".to_owned(), permits.to_string()]));
        words.extend(self.tied.then(|| ["SESSION".to_owned(), GRACE.to_string()]).into_iter().flatten());
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
        // Twice: a command may still have been on its way.
        let clean: Vec<Vec<&str>> = clean.iter().chain(&clean).map(|words| refs(words)).collect();
        let clean: Vec<&[&str]> = clean.iter().map(Vec::as_slice).collect();
        self.give_up(attempt, &clean);
    }

    /// The commands that release all that an owner may hold.
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
        let attempt = self.begin(want.key, want.mode(), want.line(), None);
        let answer = self.acquire(want, &attempt.owner, &[], SOON);
        if let Some((attempt, told)) = self.answered(want, attempt, answer, Outcome::Denied) {
            self.got(want, attempt, told);
        }
    }

    /// The attempt with its holds, if an acquisition is answered with numbers. Null, an error or a lost answer is
    /// recorded, null as this outcome.
    pub(crate) fn answered(
        &mut self,
        want: &Want,
        mut attempt: Attempt,
        answer: Answer,
        null: Outcome,
    ) -> Option<(Attempt, Told)> {
        attempt.answered = self.now();
        match answer {
            Ok(value) => match told(&value) {
                Some(told) => return Some((attempt, told)),
                None => {
                    if value != Value::Nil {
                        let text = format!("{} was answered {value:?}", attempt.owner);
                        self.recorder().violation("reply", attempt.key, text);
                    }
                    self.without(attempt, null);
                }
            },
            Err(Trouble::Refused(code, _)) => self.refused(attempt, &code),
            Err(Trouble::Lost) => self.withdraw(want, attempt),
        }
        None
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
        if leaves && answer == Err(Trouble::Lost) {
            attempt.answered = self.now();
            return self.left(want, attempt);
        }
        if let Some((attempt, told)) = self.answered(want, attempt, answer, Outcome::TimedOut) {
            self.got(want, attempt, told);
        }
    }

    /// An attempt, or a wait, that ended with an error. The history decides whether the error had a reason.
    pub(crate) fn refused(&mut self, attempt: Attempt, code: &str) {
        self.without(attempt, Outcome::Refused);
        if code == "UNBLOCKED" {
            // The lock is served elsewhere now.
            self.hang_up();
        }
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
            // Without an answer the queue is unknown.
            listed = info.is_ok_and(|info| super::look::has(&info, "queue", &attempt.owner));
        }
        if listed {
            let text = format!("{} still waits 1 s after its client has gone", attempt.owner);
            self.recorder().violation_unless("departure", want.key, text, since, |harm| harm.stalls);
        }
        attempt.gone = self.now();
        self.withdraw(want, attempt);
    }

    /// An acquisition that was answered.
    pub(crate) fn got(&mut self, want: &Want, mut attempt: Attempt, told: Told) {
        let (sent, lease) = (attempt.requested, want.lease);
        // After a wait the lease counts from a moment that this client does not know: it asks for a whole one.
        let waited = attempt.answered - sent;
        let answered = attempt.answered;
        self.note_token(want, &mut attempt, told, lease, (sent, answered));
        if told.holds != 1 || told.lease > lease as i64 {
            let text =
                format!("{} was answered {told:?} to HOLDS 1 and a lease of {lease} ms", attempt.owner);
            self.recorder().violation("reply", want.key, text);
        }
        self.acquired(want, &mut attempt, sent, lease);
        if waited > ms(lease / 8) {
            let (name, since) = (self.name(want.key), self.now());
            match self.ask(want.key, &["RLOCK.RENEW", &name, &attempt.owner, &lease.to_string()], SOON) {
                Ok(Value::Int(1)) => {
                    // The client held the lock from the answer until now, whenever that lease began.
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

    /// Writes down that it has the lock by an acquisition, and for how long it may rely on that.
    pub(crate) fn acquired(&self, want: &Want, attempt: &mut Attempt, sent: Us, lease: u64) {
        self.confirmed(attempt, sent, lease);
        if let Some(last) = attempt.confirms.last_mut() {
            last.lease = ms(want.relied_on(lease));
        }
    }

    /// Acquires the lock at once; any other outcome is recorded.
    pub(crate) fn takes(&mut self, want: &Want) -> Option<Attempt> {
        let attempt = self.begin(want.key, want.mode(), want.line(), None);
        let answer = self.acquire(want, &attempt.owner, &[], SOON);
        let (mut attempt, told) = self.answered(want, attempt, answer, Outcome::Denied)?;
        let (sent, answered) = (attempt.requested, attempt.answered);
        self.note_token(want, &mut attempt, told, want.lease, (sent, answered));
        attempt.outcome = Outcome::Held;
        self.confirmed(&mut attempt, sent, want.lease);
        Some(attempt)
    }

    /// Records a token, which must exist exactly if it was asked for, with the times when it was asked for and known.
    pub(crate) fn note_token(
        &self,
        want: &Want,
        attempt: &mut Attempt,
        told: Told,
        lease: u64,
        (requested, known): (Us, Us),
    ) {
        if want.fenced != (told.token > 0) {
            let text = format!("{} has token {}", attempt.owner, told.token);
            self.recorder().violation("reply", want.key, text);
        }
        if told.token > 0 {
            attempt.tokens.push(Token { number: told.token, requested, known, lease: ms(lease) });
        }
    }

    /// The time that the lease has left for certain.
    pub(crate) fn left_of(&self, attempt: &Attempt) -> Us {
        attempt.end().saturating_sub(self.now())
    }
}
