//! Clients by Redisson's protocol: they try, subscribe, try again, and sleep until a message arrives or until the lease
//! end in the reply. Each is a process of its own.

use std::time::Duration;

use redis::Value;
use rlock_testkit::redisson as lua;

use super::desk::{Desk, SOON};
use super::holding::SHORT;
use crate::history::{Attempt, Line, Mode, Outcome, ms};
use crate::recorder::Recorder;
use crate::wire::{Answer, Heard, Trouble};

/// Redisson's default for how long a fair waiter counts as alive, in ms.
const BUDGET: &str = "300000";

/// One of its kinds of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    Plain,
    Fair,
    Read,
    Write,
}

/// What it asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) key: usize,
    pub(crate) lock: Lock,
    pub(crate) lease: u64,
    /// For how long it waits, in ms.
    pub(crate) wait: u64,
}

/// What it does to the lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Take,
    GiveBack,
    Renew,
    Leave,
}

impl Ask {
    fn mode(self) -> Mode {
        if self.lock == Lock::Read { Mode::Shared } else { Mode::Alone }
    }

    /// The channel of its wake-ups.
    fn channel(self, name: &str, owner: &str) -> String {
        match self.lock {
            Lock::Plain => format!("redisson_lock__channel:{{{name}}}"),
            Lock::Fair => format!("redisson_lock__channel:{{{name}}}:{owner}"),
            Lock::Read | Lock::Write => format!("redisson_rwlock:{{{name}}}"),
        }
    }

    fn script(self, act: Act) -> &'static str {
        match (act, self.lock) {
            (Act::Take, Lock::Plain) => lua::TAKES,
            (Act::Take, Lock::Fair) => lua::FAIR_TAKES,
            (Act::Take, Lock::Read) => lua::READ,
            (Act::Take, Lock::Write) => lua::WRITE,
            (Act::GiveBack, Lock::Plain) => lua::GIVES_BACK,
            (Act::GiveBack, Lock::Fair) => lua::FAIR_GIVES_BACK,
            (Act::GiveBack, Lock::Read) => lua::UNREAD,
            (Act::GiveBack, Lock::Write) => lua::UNWRITE,
            (Act::Renew, Lock::Read) => lua::RENEW_READ,
            (Act::Renew, _) => lua::RENEW,
            (Act::Leave, _) => lua::FAIR_GIVES_UP,
        }
    }

    /// The whole command.
    fn words(self, act: Act, name: &str, owner: &str, sharded: bool, now: i64) -> Vec<String> {
        let keys = match self.lock {
            Lock::Plain | Lock::Write => vec![name.to_owned()],
            Lock::Read => vec![name.to_owned(), format!("{{{name}}}:{owner}:rwlock_timeout")],
            Lock::Fair => {
                let derived = ["queue", "timeout"].map(|what| format!("redisson_lock_{what}:{{{name}}}"));
                [&[name.to_owned()][..], &derived].concat()
            }
        };
        let owner = match (act, self.lock) {
            (Act::Renew, Lock::Write) => format!("{owner}:write"),
            _ => owner.to_owned(),
        };
        let publish = if sharded { "spublish" } else { "publish" }.to_owned();
        let mut words = vec!["EVAL".to_owned(), self.script(act).to_owned(), keys.len().to_string()];
        words.extend(keys);
        words.extend([self.lease.to_string(), owner]);
        if self.lock == Lock::Fair {
            words.extend([now.to_string(), BUDGET.to_owned()]);
        }
        words.push(publish);
        words
    }
}

impl Desk {
    pub(crate) fn run(&mut self, ask: Ask, act: Act, owner: &str) -> Answer {
        let words = self.words(ask, act, owner, 0);
        self.ask(ask.key, &words.iter().map(String::as_str).collect::<Vec<_>>(), SOON)
    }

    /// Waits for a lock as Redisson does, and uses it.
    #[expect(clippy::too_many_lines, reason = "one protocol, from the request to the release")]
    pub(crate) fn redisson(&mut self, ask: Ask) {
        let line = if ask.lock == Lock::Fair { Line::ForeignFair } else { Line::Foreign };
        let mut attempt = self.begin(ask.key, ask.mode(), line, Some(ask.wait));
        // Its owners are threads of a process.
        attempt.owner = attempt.owner.replace(' ', "-");
        let channel = ask.channel(&self.name(ask.key), &attempt.owner);
        let deadline = attempt.requested + ms(ask.wait);
        let mut listening = false;
        loop {
            let sent = self.now();
            let left = match self.run(ask, Act::Take, &attempt.owner) {
                Ok(Value::Nil) => {
                    attempt.answered = self.now();
                    self.confirmed(&mut attempt, sent, ask.lease);
                    return self.hold_redissons(ask, attempt);
                }
                Ok(Value::Int(left)) => left,
                Ok(_) | Err(Trouble::Refused(..)) => {
                    self.sleep_us(10_000, 50_000);
                    return self.leave(ask, attempt, Outcome::Denied);
                }
                Err(Trouble::Lost) => return self.leave(ask, attempt, Outcome::Unknown),
            };
            if ask.lock == Lock::Fair && attempt.queued.is_none() {
                attempt.queued = Some(self.now());
                if self.dice.one_in(30) {
                    // Its process dies in the list.
                    attempt.dead = true;
                    return self.without(attempt, Outcome::Denied);
                }
            }
            // It subscribes again where another server answers: messages may not reach a primary that was replaced.
            if !listening || !self.listens_beside() {
                if self.listen(ask.key, &channel).is_none() {
                    return self.leave(ask, attempt, Outcome::Unknown);
                }
                listening = true;
                attempt.queued.get_or_insert(self.now());
                continue;
            }
            // A message wakes a fair waiter at its turn; the number says how long other owners may take.
            let told = u64::try_from(left).unwrap_or(0).max(1);
            let until = deadline.min(self.now() + ms(told));
            let patience = self.recorder().until(until);
            match self.ear().map_or(Heard::Broken, |ear| ear.next(patience)) {
                Heard::Broken => return self.leave(ask, attempt, Outcome::Unknown),
                _ if self.now() >= deadline => return self.leave(ask, attempt, Outcome::Denied),
                _ => {}
            }
        }
    }

    /// Gives up waiting, and what it may have taken without knowing.
    fn leave(&mut self, ask: Ask, mut attempt: Attempt, outcome: Outcome) {
        self.stop_listening();
        attempt.answered = self.now();
        if outcome == Outcome::Denied && ask.lock != Lock::Fair {
            return self.without(attempt, outcome);
        }
        attempt.outcome = outcome;
        let acts: &[Act] =
            if ask.lock == Lock::Fair { &[Act::Leave, Act::GiveBack] } else { &[Act::GiveBack] };
        for act in acts {
            self.run_surely(ask, *act, &attempt.owner);
        }
        attempt.gone = self.now();
        self.recorder().attempt(attempt);
    }

    /// The command, by a clock that is this many ms ahead.
    pub(crate) fn words(&self, ask: Ask, act: Act, owner: &str, ahead: i64) -> Vec<String> {
        let (name, sharded) = (self.name(ask.key), self.shared.place.sharded());
        ask.words(act, &name, owner, sharded, Recorder::wall_ms() + ahead)
    }

    pub(crate) fn run_surely(&mut self, ask: Ask, act: Act, owner: &str) {
        let words = self.words(ask, act, owner, 0);
        self.surely(ask.key, &words.iter().map(String::as_str).collect::<Vec<_>>());
    }

    fn hold_redissons(&mut self, ask: Ask, mut attempt: Attempt) {
        self.stop_listening();
        attempt.outcome = Outcome::Held;
        self.sleep_us(0, 4_000);
        if self.dice.one_in(3) {
            let sent = self.now();
            match self.run(ask, Act::Renew, &attempt.owner) {
                Ok(Value::Int(1)) => self.confirmed(&mut attempt, sent, ask.lease),
                Ok(Value::Int(0)) => attempt.refuted = Some(self.now()),
                _ => {}
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        if ask.lease <= SHORT && self.dice.one_in(6) {
            attempt.dead = true;
            self.died = true;
            self.hang_up();
            return self.recorder().attempt(attempt);
        }
        attempt.released = Some(self.now());
        let answer = self.run(ask, Act::GiveBack, &attempt.owner);
        match answer {
            Ok(Value::Nil) if attempt.refuted.is_none() => attempt.refuted = Some(self.now()),
            Ok(_) => {}
            Err(_) => self.run_surely(ask, Act::GiveBack, &attempt.owner),
        }
        attempt.gone = self.now();
        self.recorder().attempt(attempt);
    }
}
