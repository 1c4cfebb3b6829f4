//! One who kills the client that it hands the lock to, in the same transaction: the grant has to be taken back.

use std::time::Duration;

use redis::Value;

use super::desk::{Desk, SOON};
use super::look::{entries, holds, number, word};
use super::native::Want;
use crate::history::{Attempt, Outcome, ms};

impl Desk {
    /// Takes the lock, waits for somebody to wait for it, and releases and kills at once.
    pub(crate) fn snatch(&mut self, want: &Want) {
        let mut attempt = self.begin(want.key, want.mode(), want.line(), None);
        let answer = self.acquire(want, &attempt.owner, &[], SOON);
        attempt.answered = self.now();
        match answer {
            Ok(Value::Array(_)) => {}
            Err(crate::wire::Trouble::Lost) => return self.withdraw(want, attempt),
            _ => return self.without(attempt, Outcome::Denied),
        }
        attempt.outcome = Outcome::Held;
        let sent = attempt.requested;
        self.confirmed(&mut attempt, sent, want.lease);
        let name = self.name(want.key);
        let deadline = self.now() + ms(want.lease / 2);
        let mut victim = None;
        while victim.is_none() && self.now() < deadline && !self.stopped() {
            self.sleep_us(2_000, 10_000);
            let Ok(info) = self.ask(want.key, &["RLOCK.INFO", &name], SOON) else { break };
            let first = entries(&info, "queue").first();
            let blocked = first.filter(|waiter| word(waiter, "via") == "block");
            victim = blocked.map(|waiter| (word(waiter, "owner"), number(waiter, "client-id")));
        }
        self.hand_over(want, attempt, victim);
    }

    fn hand_over(&mut self, want: &Want, mut attempt: Attempt, victim: Option<(String, i64)>) {
        let (name, owner) = (self.name(want.key), attempt.owner.clone());
        let (victim, id) = victim.unwrap_or_default();
        let id = id.to_string();
        let release = ["RLOCK.RELEASE", &name, &owner, "ALL"];
        let kill = ["CLIENT", "KILL", "ID", &id];
        let kill: &[&str] = if victim.is_empty() { &["PING"] } else { &kill };
        attempt.released = Some(self.now());
        let answer = self.ask_all(want.key, &[&["MULTI"], &release, kill, &["EXEC"]], SOON);
        let since = self.now();
        let Ok(Value::Array(answers)) = answer else { return self.withdraw(want, attempt) };
        attempt.gone = since;
        self.recorder().attempt(attempt);
        if victim.is_empty() || answers.get(1) != Some(&Value::Int(1)) {
            return;
        }
        self.recorder().count("killed with a grant");
        let mut holding = true;
        // The one that was killed cleans up behind itself later than this.
        while holding && self.now() < since + ms(100) {
            std::thread::sleep(Duration::from_millis(5));
            let info = self.ask(want.key, &["RLOCK.INFO", &name], SOON);
            holding = info.is_ok_and(|info| holds(&info, &victim));
        }
        if holding {
            let text = format!("{victim} holds the lock 100 ms after its client was killed with the grant");
            self.recorder().violation_unless("take-back", want.key, text, since, |harm| harm.stalls);
        }
    }
}
