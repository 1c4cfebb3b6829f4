//! How native holders renew: once, a few times, under WATCH, and until the replica has it.

use redis::Value;

use super::desk::{Desk, SOON};
use super::holding::side;
use super::native::{Want, refs};
use crate::history::{Attempt, Harm};

/// How long a replica may take to have something, in ms.
const REPLICATES: &str = "300";

impl Desk {
    /// A renewal breaks WATCH, as any change does.
    pub(super) fn renew_under_watch(&mut self, want: &Want, attempt: &mut Attempt) -> bool {
        // The same end once more would be no change.
        self.sleep_us(3_000, 6_000);
        let (name, sent) = (self.name(want.key), self.now());
        if sent > attempt.end() {
            return true;
        }
        let renew = self.renewal(want, attempt, want.lease + 50);
        let commands: [&[&str]; 5] = [&["WATCH", &name], &refs(&renew), &["MULTI"], &["PING"], &["EXEC"]];
        match self.ask_all(want.key, &commands, SOON) {
            Ok(Value::Array(_)) => {
                let text = format!("{} renewed, and WATCH did not see it", attempt.owner);
                // A holder that has lost the lock since its request renews nothing.
                let excuse = |harm: &Harm| harm.holds || harm.stalls;
                self.recorder().violation_unless("watch", want.key, text, attempt.requested, excuse);
                true
            }
            Ok(_) => true,
            Err(_) => false,
        }
    }

    fn renewal(&self, want: &Want, attempt: &Attempt, lease: u64) -> Vec<String> {
        let mut words =
            vec!["RLOCK.RENEW".to_owned(), self.name(want.key), attempt.owner.clone(), lease.to_string()];
        words.extend(side(want, attempt));
        words
    }

    /// Renews for a lease; `false` if the client must not rely on the hold any longer.
    pub(crate) fn renew_once(&mut self, want: &Want, attempt: &mut Attempt, lease: u64) -> bool {
        self.renew_with(want, attempt, lease, &[])
    }

    /// The same with more words at the end.
    pub(super) fn renew_with(
        &mut self,
        want: &Want,
        attempt: &mut Attempt,
        lease: u64,
        rest: &[&str],
    ) -> bool {
        let sent = self.now();
        if sent > attempt.end() {
            return false;
        }
        let words = self.renewal(want, attempt, lease);
        match self.ask(want.key, &[&refs(&words), rest].concat(), SOON) {
            Ok(Value::Int(1)) => {
                self.confirmed(attempt, sent, lease);
                true
            }
            Ok(_) => {
                attempt.refuted = Some(self.now());
                false
            }
            Err(_) => false,
        }
    }

    pub(super) fn renew(&mut self, want: &Want, attempt: &mut Attempt) -> bool {
        for _ in 0..3 {
            self.sleep_us(0, 15_000);
            // Also for a shorter lease, which counts from now.
            let lease = if self.dice.one_in(4) { want.lease / 2 + 100 } else { want.lease };
            if !self.renew_once(want, attempt, lease) {
                return false;
            }
        }
        // A shorter lease than the last one counts: the earlier leases promise nothing any more.
        let last = attempt.confirms.last().map_or(0, |confirm| confirm.sent);
        self.sleep_us(0, 2_000);
        last > 0
    }

    /// Renews, and waits until the replica has that; `false` where it does not hold the lock any more.
    pub(super) fn until_on_replica(&mut self, want: &Want, attempt: &mut Attempt) -> bool {
        let opened = self.opened();
        if !self.renew_once(want, attempt, want.lease) {
            return false;
        }
        let answer = self.ask(want.key, &["WAIT", "1", REPLICATES], SOON);
        // It is about what was sent on the same connection. Where there is no replica, or it lags, nothing is known.
        if matches!(answer, Ok(Value::Int(1..))) && self.opened() == opened {
            self.recorder().note("on the replica");
            if let Some(last) = attempt.confirms.last_mut() {
                last.on_replica = true;
            }
        }
        true
    }
}
