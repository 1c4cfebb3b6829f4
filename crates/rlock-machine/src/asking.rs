//! From the first request to the guard or a refusal.

use super::{
    Command, FIRST_PAUSE, Failure, MS, Machine, Message, Nanos, Output, Refusal, Reply, STRAY, State,
};

const FIRST_LOOK: Nanos = 1_000 * MS;
const LONGEST_LOOK: Nanos = 30_000 * MS;

impl Machine {
    pub(super) fn start(&mut self, out: &mut Vec<Output>) {
        let once = self.plan.response * 2;
        self.end = self.plan.wait.map(|wait| self.now.saturating_add(if wait == 0 { once } else { wait }));
        self.ask(out);
    }

    /// Begins with the hold of another process.
    pub(super) fn adopt(&mut self, out: &mut Vec<Output>) {
        self.adopts = true;
        self.start(out);
    }

    pub(super) fn ask(&mut self, out: &mut Vec<Output>) {
        if self.adopts {
            return self.renew_adopted(out);
        }
        self.state = State::Asking;
        self.next = None;
        self.pending = None;
        if self.down {
            return;
        }
        if self.asks == 0 {
            (self.first_sent, self.proven, self.tied) = (self.now, self.now, true);
        }
        self.asks += 1;
        self.give_up = self.now + self.plan.lease + STRAY;
        if self.plan.wait == Some(0) {
            return self.send(Command::Acquire, out);
        }
        self.queued = true;
        // On the wire, 0 means for ever.
        let wait =
            self.end.map_or(0, |end| (end.saturating_sub(self.now).saturating_add(MS - 1) / MS).max(1));
        self.send(Command::Enqueue { wait, look: self.looks > 0 }, out);
    }

    pub(super) fn asked(&mut self, sent: Nanos, reply: Reply, out: &mut Vec<Output>) {
        match reply {
            Reply::Granted { token } => {
                self.token = token;
                self.hold(sent, out);
            }
            Reply::Waits { holder_lease } => {
                self.state = State::Queued;
                self.pause = FIRST_PAUSE;
                let lease = holder_lease.unwrap_or(LONGEST_LOOK).clamp(FIRST_LOOK, LONGEST_LOOK);
                self.next = Some(self.now + if self.looks > 0 { lease } else { FIRST_LOOK });
                if self.tied {
                    self.proven = self.proven.max(sent);
                }
            }
            Reply::Failed(failure) => self.failed(failure, out),
            Reply::Integer(_) | Reply::Null => self.refuse(Refusal::Denied, out),
        }
    }

    fn confirm(&mut self, token: i64, out: &mut Vec<Output>) {
        self.state = State::Confirming;
        self.token = token;
        self.next = None;
        self.give_up = self.now + self.plan.lease + STRAY;
        // The token of the message may be one of an earlier grant.
        let command = if self.plan.fenced { Command::Acquire } else { Command::Renew { lease: None } };
        self.send(command, out);
    }

    fn renew_adopted(&mut self, out: &mut Vec<Output>) {
        self.state = State::Confirming;
        self.next = None;
        self.pending = None;
        if !self.down {
            self.send(Command::Renew { lease: None }, out);
        }
    }

    pub(super) fn confirmed(&mut self, sent: Nanos, reply: Reply, out: &mut Vec<Output>) {
        match reply {
            Reply::Granted { token } => {
                self.token = token;
                self.hold(sent, out);
            }
            Reply::Integer(1) => self.hold(sent, out),
            Reply::Failed(failure) => self.failed(failure, out),
            _ if self.adopts => self.refuse(Refusal::Lost, out),
            _ => self.ask(out),
        }
    }

    /// A reply says that the owner holds the lock.
    fn hold(&mut self, sent: Nanos, out: &mut Vec<Output>) {
        self.extend(sent, self.plan.lease);
        if self.end_of_hold() <= self.now {
            // The reply lay in a buffer for longer than the lease: only the server can tell.
            return self.confirm(self.token, out);
        }
        self.begin_hold(out);
    }

    /// A request for the lock failed: it is made again, unless that is pointless.
    fn failed(&mut self, failure: Failure, out: &mut Vec<Output>) {
        let once = self.plan.wait == Some(0);
        let pointless =
            matches!(failure, Failure::Final | Failure::Gone) || (failure == Failure::Draining && once);
        if !pointless {
            if !self.adopts {
                self.state = State::Asking;
            }
            return self.rest();
        }
        // It was not carried out, but those before it may have been.
        if self.asks > 1 || self.state == State::Confirming {
            self.leave(Refusal::Error, out);
        } else {
            self.refuse(Refusal::Error, out);
        }
    }

    pub(super) fn message(&mut self, message: Message, out: &mut Vec<Output>) {
        if !matches!(self.state, State::Asking | State::Queued) {
            return;
        }
        match message {
            Message::Granted { token, lease, current } if current && self.may_hold_at_once() => {
                self.hold_unconfirmed(token, lease, out);
            }
            Message::Granted { token, .. } => self.confirm(token, out),
            // Either may be about an earlier wait of this owner: only the clock ends this one.
            Message::Dropped | Message::Timeout => {
                self.state = State::Asking;
                self.overtaken |= self.pending.take().is_some();
                self.rest();
            }
        }
    }

    /// Whether a grant by message is certainly one that this server made for this acquisition. After a broken link, the message may be
    /// older than a restart that lost the lock. A session would have ended with the connection before.
    fn may_hold_at_once(&self) -> bool {
        let token = !self.plan.fenced || self.asks == 1;
        !self.plan.confirm_first && self.tied && self.asks > 0 && token
    }

    /// The lock was granted by message, and the grant is not older than the first request. Half of its lease must be left: a RENEW must
    /// reach the server before lease end.
    fn hold_unconfirmed(&mut self, token: i64, lease: Nanos, out: &mut Vec<Output>) {
        self.deadline = super::holding::end_of(self.first_sent, lease);
        if self.deadline - self.now < lease / 2 || self.end_of_hold() <= self.now {
            return self.confirm(token, out);
        }
        // A repeat without an answer may be carried out after this grant has ended.
        self.stray |= self.asks > 1 && (self.pending.is_some() || self.overtaken);
        self.token = token;
        self.unconfirmed = Some(lease);
        self.renew_at = self.now + lease / 10;
        self.begin_hold(out);
    }

    fn begin_hold(&mut self, out: &mut Vec<Output>) {
        self.state = State::Held;
        self.held_at = self.now;
        if self.adopts {
            self.renew_at = self.renew_at.min(self.now + STRAY);
        }
        self.pending = None;
        self.next = None;
        out.push(Output::Guard { token: self.token });
    }

    pub(super) fn tick_waiting(&mut self, due: bool, out: &mut Vec<Output>) {
        if self.end.is_some_and(|end| self.now >= end) {
            let once = self.plan.wait == Some(0);
            self.leave(if once { Refusal::Error } else { Refusal::Timeout }, out);
        } else if due {
            self.looks += u32::from(self.state == State::Queued);
            self.ask(out);
        }
    }

    pub(super) fn refuse(&mut self, refusal: Refusal, out: &mut Vec<Output>) {
        out.push(Output::Refused(refusal));
        self.finish(out);
    }
}
