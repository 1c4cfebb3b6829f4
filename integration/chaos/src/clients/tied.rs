//! Native holders that die with a session: their locks are free soon, not at lease end.

use super::desk::Desk;
use super::native::Want;
use crate::history::{Attempt, ms};

/// How long the lock stays after the connection, in ms.
const GRACE: u64 = 200;

/// How long the server may take to see the end of a connection.
const SEEN: u64 = 100;

impl Desk {
    /// Ties its hold to its connection by a renewal, and closes that without another word.
    pub(super) fn die_tied(&mut self, want: &Want, mut attempt: Attempt) {
        if !self.renew_with(want, &mut attempt, want.lease, &["SESSION", &GRACE.to_string()]) {
            return self.withdraw_hold(want, attempt);
        }
        self.hang_up();
        self.recorder().note("died with a session");
        let now = self.now();
        attempt.released = Some(now);
        attempt.gone = now + ms(GRACE + SEEN);
        attempt.tied = true;
        self.died = true;
        self.recorder().attempt(attempt);
    }
}
