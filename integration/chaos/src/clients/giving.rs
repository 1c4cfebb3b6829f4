//! How native holders release: by the command alone, in a transaction or a script, or by deleting the lock.

use redis::Value;

use super::desk::{Desk, SOON};
use super::holding::side;
use super::native::{Want, refs};
use crate::history::{Attempt, Harm, Mode};
use crate::wire::Trouble;

/// A lease that does not end in a round.
const LONG: u64 = 30_000;

impl Desk {
    /// Deletes the lock as other software would, and stays away for a while: the deletion must wake the waiters.
    pub(crate) fn give_back_by_deletion(&mut self, want: &Want, mut attempt: Attempt) {
        // The end of the lease must not wake them instead, and they must have time to arrive.
        if !self.renew_once(want, &mut attempt, LONG) {
            return self.withdraw_hold(want, attempt);
        }
        self.sleep_us(50_000, 200_000);
        let (name, sent) = (self.name(want.key), self.now());
        attempt.released = Some(sent);
        if self.ask(want.key, &["DEL", &name], SOON).is_err() {
            return self.withdraw_hold(want, attempt);
        }
        // The deletion also hits owners that acquired in between and holders of other permits, and wakes no Redisson
        // waiter.
        let harm = Harm { holds: true, ..Harm::default() };
        self.recorder().event("DEL by its holder", sent, Some(want.key), harm);
        attempt.gone = self.now();
        self.died = true;
        self.recorder().attempt(attempt);
    }

    /// Releases, in one of several ways.
    pub(crate) fn give_back(&mut self, want: &Want, mut attempt: Attempt) {
        let (name, owner) = (self.name(want.key), attempt.owner.clone());
        let late = self.now() >= attempt.end();
        let mut words = vec!["RLOCK.RELEASE".to_owned(), name, owner];
        words.extend(side(want, &attempt));
        words.extend(["HOLDS".to_owned(), "0".to_owned()]);
        attempt.released = Some(self.now());
        let answer = match self.dice.below(12) {
            0 => self.in_transaction(want, &words),
            1 => self.in_script(want, &words),
            _ => self.ask(want.key, &refs(&words), SOON),
        };
        match answer {
            Ok(Value::Int(1)) => {
                attempt.gone = self.now();
                self.look_for_lease_key(want, &attempt);
            }
            Ok(Value::Int(_)) => {
                let text =
                    format!("{} released all its holds, and the reply says that holds remain", attempt.owner);
                self.recorder().violation("reply", want.key, text);
            }
            Ok(_) => {
                attempt.gone = self.now();
                attempt.refuted = Some(self.now()).filter(|_| !late);
            }
            Err(_) => return self.withdraw_hold(want, attempt),
        }
        self.recorder().attempt(attempt);
    }

    /// A reader leaves no lease key behind when it releases.
    fn look_for_lease_key(&mut self, want: &Want, attempt: &Attempt) {
        if attempt.mode != Mode::Shared || !self.dice.one_in(8) {
            return;
        }
        let key = format!("{{{}}}:{}:rwlock_timeout:1", self.name(want.key), attempt.owner);
        if self.ask(want.key, &["EXISTS", &key], SOON) == Ok(Value::Int(1)) {
            let text = format!("{key} exists after its reader has released");
            self.recorder().violation("reply", want.key, text);
        }
    }

    fn in_transaction(&mut self, want: &Want, words: &[String]) -> Result<Value, Trouble> {
        match self.ask_all(want.key, &[&["MULTI"], &refs(words), &["EXEC"]], SOON)? {
            Value::Array(mut answers) if answers.len() == 1 => Ok(answers.remove(0)),
            _ => Err(Trouble::Lost),
        }
    }

    fn in_script(&mut self, want: &Want, words: &[String]) -> Result<Value, Trouble> {
        const SCRIPT: &str = "return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))";
        let mut all = vec!["EVAL", SCRIPT, "1", &words[1], &words[0]];
        all.extend(words[2..].iter().map(String::as_str));
        match self.ask(want.key, &all, SOON)? {
            // Lua has no null: redis.call answers false, and that is null again.
            Value::Boolean(false) => Ok(Value::Nil),
            value => Ok(value),
        }
    }
}
