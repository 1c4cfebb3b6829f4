//! From the guard to its release or its loss.

use super::{Failure, MS, Machine, Nanos, Output, Reply, State};

/// Renewals that are due so soon go along with those that are due now.
const WINDOW: Nanos = 100 * MS;
const DOUBLINGS: u32 = 6;

/// When a time that counts from sending ends by the local clock.
fn end_of(sent: Nanos, time: Nanos) -> Nanos {
    sent + time - time / 100 - 2 * MS
}

impl Machine {
    /// By the lease, and with a session by the life of the connection.
    pub(super) fn end_of_hold(&self) -> Nanos {
        self.plan.grace.map_or(self.deadline, |grace| self.deadline.min(end_of(self.proven, grace)))
    }

    pub(super) fn hold(&mut self, sent: Nanos) {
        (self.deadline, self.proven) = (end_of(sent, self.plan.lease), sent);
        if self.end_of_hold() <= self.now {
            // The reply lay in a buffer for longer than the lease: only the server can tell.
            return self.confirm(self.token);
        }
        self.state = State::Held;
        self.tied = true;
        self.renew_at = sent + self.plan.lease / 3;
        self.pending = None;
        self.next = None;
        self.out.push(Output::Guard(self.token));
    }

    pub(super) fn renews(&self) -> bool {
        let wanted = self.plan.renew || self.plan.grace.is_some() && !self.tied;
        wanted && self.pending.is_none() && !self.down
    }

    pub(super) fn send_renewal(&mut self) {
        self.send("RENEW");
        let left = self.deadline - self.now;
        if let (false, Some(Output::Send { lease, .. })) = (self.plan.renew, self.out.last_mut()) {
            *lease = Some((left + left / 99) / MS + 4);
        }
    }

    pub(super) fn tick_held(&mut self) {
        let window = WINDOW.min(self.plan.lease / 30);
        if self.renews() && self.now >= self.renew_at - window {
            self.send_renewal();
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
                self.tied = true;
                self.proven = self.proven.max(sent);
                if self.plan.renew {
                    self.deadline = self.deadline.max(end_of(sent, self.plan.lease));
                }
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
