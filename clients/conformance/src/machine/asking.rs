//! From the first request to the guard or a refusal.

use super::{FIRST_PAUSE, Failure, MS, Machine, Nanos, Output, Reply, STRAY, State, Word};

const FIRST_LOOK: Nanos = 1_000 * MS;
const LONGEST_LOOK: Nanos = 30_000 * MS;

impl Machine {
    pub(super) fn start(&mut self) {
        let once = self.plan.response * 2;
        self.end = self.plan.wait.map(|wait| self.now + if wait == 0 { once } else { wait });
        self.ask();
    }

    pub(super) fn ask(&mut self) {
        self.state = State::Asking;
        self.next = None;
        self.pending = None;
        if self.down {
            return;
        }
        self.asks += 1;
        self.give_up = self.now + self.plan.lease + STRAY;
        if self.plan.wait == Some(0) {
            return self.send("ACQUIRE");
        }
        self.queued = true;
        // On the wire, 0 means for ever.
        let left = self.end.map_or(0, |end| ((end - self.now + MS - 1) / MS).max(1));
        self.send_more("ENQUEUE", left, self.looks > 0);
    }

    pub(super) fn asked(&mut self, sent: Nanos, reply: Reply) {
        match reply {
            Reply::Granted { token } => {
                self.token = token;
                self.hold(sent);
            }
            Reply::Waits { holder_lease } => {
                self.state = State::Queued;
                self.pause = FIRST_PAUSE;
                let lease = holder_lease.unwrap_or(LONGEST_LOOK).clamp(FIRST_LOOK, LONGEST_LOOK);
                self.next = Some(self.now + if self.looks > 0 { lease } else { FIRST_LOOK });
            }
            Reply::Failed(failure) => self.failed(failure),
            Reply::Integer(_) | Reply::Null => self.refuse("denied"),
        }
    }

    pub(super) fn confirm(&mut self, token: i64) {
        self.state = State::Confirming;
        self.token = token;
        self.next = None;
        self.give_up = self.now + self.plan.lease + STRAY;
        // The token of the message may be one of an earlier grant.
        self.send(if self.plan.fenced { "ACQUIRE" } else { "RENEW" });
    }

    pub(super) fn confirmed(&mut self, sent: Nanos, reply: Reply) {
        match reply {
            Reply::Granted { token } => {
                self.token = token;
                self.hold(sent);
            }
            Reply::Integer(1) => self.hold(sent),
            Reply::Failed(failure) => self.failed(failure),
            _ => self.ask(),
        }
    }

    /// A request for the lock failed: it is made again, unless that is pointless.
    fn failed(&mut self, failure: Failure) {
        let once = self.plan.wait == Some(0);
        let pointless =
            matches!(failure, Failure::Final | Failure::Gone) || (failure == Failure::Draining && once);
        if !pointless {
            self.state = State::Asking;
            return self.rest();
        }
        // It was not carried out, but those before it may have been.
        if self.asks > 1 || self.state == State::Confirming {
            self.leave("error");
        } else {
            self.refuse("error");
        }
    }

    pub(super) fn message(&mut self, word: Word) {
        if !matches!(self.state, State::Asking | State::Queued) {
            return;
        }
        match word {
            Word::Granted { token } => self.confirm(token),
            // Either may be about an earlier wait of this owner: only the clock ends this one.
            Word::Dropped | Word::Timeout => {
                self.state = State::Asking;
                self.pending = None;
                self.rest();
            }
        }
    }

    pub(super) fn tick_waiting(&mut self, due: bool) {
        if self.end.is_some_and(|end| self.now >= end) {
            let once = self.plan.wait == Some(0);
            self.leave(if once { "error" } else { "timeout" });
        } else if due {
            self.looks += u32::from(self.state == State::Queued);
            self.ask();
        }
    }

    pub(super) fn refuse(&mut self, kind: &'static str) {
        self.out.push(Output::Refused(kind));
        self.finish();
    }
}
