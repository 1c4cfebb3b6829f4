//! From the guard to its release or its loss.

use super::{Command, Failure, Loss, MS, Machine, Nanos, Output, Reply, State};

/// Renewals that are due within this time are sent with those that are due now.
const WINDOW: Nanos = 100 * MS;
const DOUBLINGS: u32 = 6;

/// The end, by the local clock, of a time that counts from a sending: the server's clock may be faster.
pub(super) fn end_of(sent: Nanos, time: Nanos) -> Nanos {
    sent + time - time / 100 - 2 * MS
}

impl Machine {
    /// When the hold ends by the local clock: at lease end or, with a session, sooner, one grace after the last proof of the connection.
    pub fn end_of_hold(&self) -> Nanos {
        self.plan.grace.map_or(self.deadline, |grace| self.deadline.min(end_of(self.proven, grace)))
    }

    /// When the lease ends by the local clock.
    pub fn lease_end(&self) -> Nanos {
        self.deadline
    }

    /// The server has confirmed the hold: the lease counts from the sending of that command.
    pub(super) fn extend(&mut self, sent: Nanos, lease: Nanos) {
        self.deadline = end_of(sent, lease);
        self.proven = sent;
        self.tied = true;
        self.renew_at = sent + lease / Nanos::from(self.plan.renewals);
    }

    /// Whether the lock was held for as long as the plan allows.
    pub(super) fn is_overdue(&self) -> bool {
        self.plan.max_hold.is_some_and(|most| self.now >= self.held_at.saturating_add(most))
    }

    /// Whether the lease is renewed now. A fixed lease is not renewed once it is confirmed.
    fn is_renewed(&self) -> bool {
        self.plan.renew && !self.is_overdue() || self.unconfirmed.is_some()
    }

    /// Whether a new connection begins with a RENEW.
    pub(super) fn wants_renewal(&self) -> bool {
        self.is_renewed() || self.plan.grace.is_some()
    }

    pub(super) fn renews(&self) -> bool {
        let wanted = self.is_renewed() || self.adopts || self.plan.grace.is_some() && !self.tied;
        wanted && self.pending.is_none() && !self.down
    }

    /// Sends a RENEW. A lease that is not renewed keeps its end: only its tie is new.
    pub(super) fn send_renewal(&mut self, out: &mut Vec<Output>) {
        let left = self.deadline - self.now;
        let lease = (!self.is_renewed()).then_some((left + left / 99) / MS + 4);
        self.send(Command::Renew { lease }, out);
    }

    pub(super) fn tick_held(&mut self, out: &mut Vec<Output>) {
        let window = WINDOW.min(self.plan.lease / 30);
        if self.renews() && self.now >= self.renew_at - window {
            self.send_renewal(out);
        }
    }

    pub(super) fn renewed(&mut self, sent: Nanos, reply: Reply, out: &mut Vec<Output>) {
        match reply {
            Reply::Failed(failure) if failure != Failure::Gone => {
                // Short pauses first: most failures are over soon.
                let lease = self.unconfirmed.unwrap_or(self.plan.lease);
                let pause = (lease / 12) >> (DOUBLINGS - self.failures.min(DOUBLINGS));
                self.renew_at = self.now + pause;
                self.failures += 1;
                out.push(Output::RenewalFailed);
            }
            Reply::Integer(1) => {
                self.failures = 0;
                self.adopts = false;
                self.tied = true;
                self.proven = self.proven.max(sent);
                if self.is_renewed() {
                    self.deadline = self.deadline.max(end_of(sent, self.plan.lease));
                }
                self.unconfirmed = None;
                self.renew_at = sent + self.plan.lease / Nanos::from(self.plan.renewals);
                out.push(Output::Renewed);
            }
            _ => self.lose(Loss::Taken, out),
        }
    }

    pub(super) fn lose(&mut self, loss: Loss, out: &mut Vec<Output>) {
        self.state = State::Lost;
        self.pending = None;
        out.push(Output::Lost(loss));
        if loss == Loss::Taken {
            // The server has nothing left to release.
            self.done(out);
        }
    }
}
