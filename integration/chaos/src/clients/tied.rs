//! Native holders that die with a session: their locks are free soon, not at lease end.

use redis::Value;

use super::desk::{Desk, SOON};
use super::holding::side;
use super::native::{Want, refs};
use crate::history::{Attempt, ms};

/// How long the lock stays after the connection, in ms.
const GRACE: u64 = 200;

/// How long the server may take to see the end of a connection.
const SEEN: u64 = 100;

impl Desk {
    /// Ties its hold to its connection by a renewal, and closes that without another word.
    pub(super) fn die_tied(&mut self, want: &Want, mut attempt: Attempt) {
        let (name, sent) = (self.name(want.key), self.now());
        if sent > attempt.end() {
            return self.withdraw_hold(want, attempt);
        }
        let (lease, grace) = (want.lease.to_string(), GRACE.to_string());
        let mut words = vec!["RLOCK.RENEW".to_owned(), name, attempt.owner.clone(), lease];
        words.extend(side(want, &attempt));
        words.extend(["SESSION".to_owned(), grace]);
        match self.ask(want.key, &refs(&words), SOON) {
            Ok(Value::Int(1)) => self.confirmed(&mut attempt, sent, want.lease),
            Ok(_) => {
                attempt.refuted = Some(self.now());
                return self.recorder().attempt(attempt);
            }
            Err(_) => return self.withdraw_hold(want, attempt),
        }
        self.hang_up();
        self.recorder().count("died with a session");
        let now = self.now();
        attempt.released = Some(now);
        attempt.gone = now + ms(GRACE + SEEN);
        attempt.tied = true;
        self.died = true;
        self.recorder().attempt(attempt);
    }
}
