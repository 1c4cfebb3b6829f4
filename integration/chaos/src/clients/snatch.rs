//! A client that kills the client it hands the lock to, in the same transaction: the module must revoke the grant.

use std::time::Duration;

use redis::Value;

use super::desk::{Desk, SOON};
use super::look::{entries, has, number, word};
use super::native::{Want, told};
use crate::history::{Attempt, Outcome, Us, ms};
use crate::wire::Trouble;
use rlock_testkit::redisson as lua;

/// For how long it waits, in ms: less than half its lease, which counts from its request where it does not renew.
const WAITS: u64 = 1_500;

impl Desk {
    /// Takes the lock, waits for a waiter, and releases the lock and closes the waiter's client at once.
    pub(crate) fn snatch(&mut self, want: &Want) {
        let attempt = self.begin(want.key, want.mode(), want.line(), Some(WAITS));
        let answer = self.acquire(want, &attempt.owner, &["BLOCK", &WAITS.to_string()], 2 * SOON);
        let Some((mut attempt, _)) = self.answered(want, attempt, answer, Outcome::TimedOut) else { return };
        attempt.outcome = Outcome::Held;
        let sent = attempt.requested;
        self.confirmed(&mut attempt, sent, want.lease);
        let name = self.name(want.key);
        let deadline = self.now() + ms(want.lease / 2);
        let mut victim = None;
        while victim.is_none() && self.now() < deadline && !self.stopped() {
            self.sleep_us(2_000, 10_000);
            let Ok(info) = self.ask(want.key, &["RLOCK.INFO", &name], SOON) else { break };
            let queue = entries(&info, "queue");
            // Better with another waiter behind it.
            let enough = queue.len() > 1 || self.now() + ms(1_000) > deadline;
            let first = queue.first().filter(|_| enough);
            let blocked = first.filter(|waiter| word(waiter, "via") == "block");
            victim = blocked.map(|waiter| (word(waiter, "owner"), number(waiter, "client-id")));
        }
        if let Some((owner, _)) = victim.as_ref().filter(|_| self.dice.one_in(3)) {
            self.cancel(want, owner);
            victim = None;
        }
        self.hand_over(want, attempt, victim);
    }

    /// Takes another owner out of the queue, whose client must be notified.
    fn cancel(&mut self, want: &Want, owner: &str) {
        let name = self.name(want.key);
        match self.ask(want.key, &["RLOCK.CANCEL", &name, owner], SOON) {
            Ok(Value::Int(1)) => self.recorder().cancelled(owner, Some(self.now())),
            Err(Trouble::Lost) => self.recorder().cancelled(owner, None),
            _ => {}
        }
    }

    #[expect(clippy::too_many_lines, reason = "to be split: choosing the commands, and judging the answers")]
    fn hand_over(&mut self, want: &Want, mut attempt: Attempt, victim: Option<(String, i64)>) {
        let (name, owner) = (self.name(want.key), attempt.owner.clone());
        let (victim, id) = victim.unwrap_or_default();
        let id = id.to_string();
        let release = ["RLOCK.RELEASE", &name, &owner, "ALL"];
        let kill = ["CLIENT", "KILL", "ID", &id];
        let lease = want.lease.to_string();
        // An owner that confirms its grant by another call keeps the lock.
        let heard = !victim.is_empty() && want.side.is_empty() && self.dice.one_in(2);
        let renew = ["RLOCK.RENEW", &name, &victim, &lease];
        // A lease that is shorter than its own, so that the call only confirms.
        let again = ["RLOCK.ACQUIRE", &name, &victim, "50", "HOLDS", "1"];
        // And a call that the module does not see, as Redisson renews.
        let changed = ["EVAL", lua::RENEW, "1", &name, &lease, &victim];
        let call: &[&str] = match self.dice.below(4) {
            0 => &renew,
            1 => &changed,
            _ => &again,
        };
        let call: &[&str] = if heard { call } else { &["PING"] };
        // A client that is killed is freed at once. One whose user is deleted is marked: it is answered before that.
        let user = victim.rsplit_once(':').map_or("", |(user, _)| user);
        let delete = ["ACL", "DELUSER", user];
        let (how, early, late): (_, &[&str], &[&str]) = match self.dice.below(4) {
            _ if victim.is_empty() => ("", &["PING"], &["PING"]),
            0 => ("deleted with a grant", &delete, &["PING"]),
            1 => ("deleted with a grant", &["PING"], &delete),
            _ => ("killed with a grant", &["PING"], &kill),
        };
        attempt.released = Some(self.now());
        let (before, after) = (["RLOCK.INFO", &name], ["HKEYS", &name]);
        let commands: [&[&str]; 8] = [&["MULTI"], &before, early, &release, &after, call, late, &["EXEC"]];
        let answer = self.ask_all(want.key, &commands, SOON);
        let since = self.now();
        let Ok(Value::Array(answers)) = answer else { return self.withdraw(want, attempt) };
        let [before, early, released, after, called, late] = answers.as_slice() else {
            return self.withdraw(want, attempt);
        };
        attempt.gone = since;
        let (freed, sent) = (*released == Value::Int(1), attempt.requested);
        attempt.refuted = Some(since).filter(|_| !freed);
        self.recorder().attempt(attempt);
        // Its lease may have ended before, and the other have the lock for good.
        if !freed {
            return;
        }
        for owner in left_out(before, after) {
            let text = format!("{owner}, a reader at the head, was left out when other readers were granted");
            self.recorder().violation_unless("together", want.key, text, sent, |harm| harm.stalls);
        }
        // PING is not answered by a number. And the commands may have waited for the end of a CLIENT PAUSE, and the victim's
        // wait have ended before.
        if ![early, late].contains(&&Value::Int(1)) || !waits_first(before, &victim) {
            return;
        }
        // The number of its holds, or that it has renewed.
        if heard && (*called == Value::Int(1) || told(called).is_some()) {
            return self.see_it_kept(want, &victim, since);
        }
        self.recorder().note(how);
        self.see_it_taken_back(want, &victim, since);
    }

    /// The owner whose client was closed does not hold the lock.
    fn see_it_taken_back(&mut self, want: &Want, victim: &str, since: Us) {
        let name = self.name(want.key);
        let mut holding = true;
        // The closed client itself cleans up later than this.
        while holding && self.now() < since + ms(100) {
            std::thread::sleep(Duration::from_millis(5));
            let info = self.ask(want.key, &["RLOCK.INFO", &name], SOON);
            holding = info.is_ok_and(|info| has(&info, "holders", victim));
        }
        if holding {
            let text = format!("{victim} holds the lock 100 ms after its client was closed with the grant");
            self.recorder().violation_unless("take-back", want.key, text, since, |harm| harm.stalls);
        }
    }

    /// The owner that confirmed its grant still holds the lock, a while after its client was closed.
    fn see_it_kept(&mut self, want: &Want, victim: &str, since: Us) {
        self.recorder().note("closed after a confirmation");
        std::thread::sleep(Duration::from_millis(60));
        let name = self.name(want.key);
        let Ok(info) = self.ask(want.key, &["RLOCK.INFO", &name], SOON) else { return };
        // By that time it may have cleaned up.
        if self.now() < since + ms(130) && !has(&info, "holders", victim) {
            let text = format!("{victim} confirmed its grant and lost the lock when its client was closed");
            self.recorder()
                .violation_unless("take-back", want.key, text, since, |harm| harm.holds || harm.lags);
        }
    }
}

/// Whether this owner's call waited first, as RLOCK.INFO said.
fn waits_first(info: &Value, owner: &str) -> bool {
    let first = entries(info, "queue").first();
    first.is_some_and(|first| word(first, "owner") == owner && word(first, "via") == "block")
}

/// The readers that waited before any writer, as RLOCK.INFO said, and do not hold the lock now that it is read; empty
/// if it is not read. The other answer has the lock's owners.
fn left_out(before: &Value, after: &Value) -> Vec<String> {
    let Value::Array(fields) = after else { return Vec::new() };
    let queue = entries(before, "queue").iter();
    let readers = queue.take_while(|waiter| word(waiter, "mode") == "read" && word(waiter, "via") == "block");
    let owners: Vec<String> = readers.map(|waiter| word(waiter, "owner")).collect();
    let holds = |owner: &String| fields.contains(&Value::BulkString(owner.clone().into_bytes()));
    if !owners.iter().any(holds) {
        return Vec::new();
    }
    owners.into_iter().filter(|owner| !holds(owner)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn readers_at_the_head_go_together() {
        let waiter = |(owner, mode): &(&str, &str)| {
            Value::Array(["owner", owner, "mode", mode, "via", "block"].map(text).to_vec())
        };
        let left_out = |queue: &[(&str, &str)], after: &[&str]| {
            let queue = Value::Array(queue.iter().map(waiter).collect());
            let after = Value::Array(after.iter().map(|word| text(word)).collect());
            super::left_out(&Value::Array(vec![text("queue"), queue]), &after)
        };
        let three = [("a", "read"), ("b", "read"), ("c", "read")];
        assert_eq!(left_out(&three, &["mode", "a"]), ["b", "c"]);
        assert!(left_out(&three, &["mode", "a", "b", "c"]).is_empty());
        // Not past a writer, and empty if no reader was granted.
        assert!(left_out(&[("a", "read"), ("w", "write"), ("c", "read")], &["mode", "a"]).is_empty());
        assert!(left_out(&three, &["mode", "w:write"]).is_empty());
        assert!(left_out(&three, &[]).is_empty());
    }
}
