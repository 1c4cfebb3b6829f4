//! From the guard to its release or its loss.

use super::{Failure, MS, Machine, Nanos, Output, Reply, State};

/// Renewals that are due so soon go along with those that are due now.
const WINDOW: Nanos = 100 * MS;
const DOUBLINGS: u32 = 6;

impl Machine {
    fn end_of(&self, sent: Nanos) -> Nanos {
        sent + self.plan.lease - self.plan.lease / 100 - 2 * MS
    }

    pub(super) fn hold(&mut self, sent: Nanos) {
        let deadline = self.end_of(sent);
        if deadline <= self.now {
            // The reply lay in a buffer for longer than the lease: only the server can tell.
            return self.confirm(self.token);
        }
        self.state = State::Held;
        self.deadline = deadline;
        self.renew_at = sent + self.plan.lease / 3;
        self.pending = None;
        self.next = None;
        self.out.push(Output::Guard(self.token));
    }

    pub(super) fn renews(&self) -> bool {
        self.plan.renew && self.pending.is_none() && !self.down
    }

    pub(super) fn tick_held(&mut self) {
        let window = WINDOW.min(self.plan.lease / 30);
        if self.renews() && self.now >= self.renew_at - window {
            self.send("RENEW");
        }
    }

    pub(super) fn renewed(&mut self, sent: Nanos, reply: Reply) {
        match reply {
            Reply::Failed(failure) if failure != Failure::Gone => {
                // Short pauses first: most failures are over soon.
                let pause = (self.plan.lease / 12) >> (DOUBLINGS - self.failures.min(DOUBLINGS));
                self.renew_at = self.now + pause;
                self.failures += 1;
                self.out.push(Output::RenewalFailed);
            }
            Reply::Integer(1) => {
                self.failures = 0;
                self.deadline = self.deadline.max(self.end_of(sent));
                self.renew_at = sent + self.plan.lease / 3;
                self.out.push(Output::Renewed);
            }
            _ => self.lose("taken"),
        }
    }

    pub(super) fn lose(&mut self, why: &'static str) {
        self.state = State::Lost;
        self.pending = None;
        self.out.push(Output::Lost(why));
        if why == "taken" {
            // The server has nothing left to release.
            self.finish();
        }
    }
}
