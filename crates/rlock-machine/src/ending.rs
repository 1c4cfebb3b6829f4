//! Releases, and the clean-up after a wait that was given up.

use super::{
    Command, Ending, FIRST_PAUSE, Failure, MS, Machine, Nanos, Outcome, Output, Refusal, Reply, STRAY, State,
};

impl Machine {
    pub(super) fn release(&mut self, out: &mut Vec<Output>) {
        let until = self.held_at.saturating_add(self.plan.at_least);
        self.end(if self.now < until { Ending::At(until) } else { Ending::Release }, out);
    }

    /// The caller no longer has the lock.
    pub(super) fn end(&mut self, ending: Ending, out: &mut Vec<Output>) {
        match self.state {
            // Its lease will end, and that is not too soon.
            State::Lost if ending != Ending::Release => {
                self.ending = ending;
                self.finish(out);
            }
            // The server may have the hold still, and others wait for it.
            State::Lost => {
                self.state = State::Cancelling;
                self.queued = false;
                self.give_up = self.now + self.plan.lease;
                self.depart(out);
            }
            State::Held => {
                self.state = State::Releasing;
                self.ending = ending;
                self.give_up = self.deadline;
                self.next = None;
                if !self.down {
                    self.send_end(out);
                }
            }
            _ => (),
        }
    }

    /// Whether the hold outlasts its release: nothing may end it, whether or not the server has answered.
    pub fn is_kept(&self) -> bool {
        self.ending != Ending::Release
    }

    pub(super) fn send_end(&mut self, out: &mut Vec<Output>) {
        self.next = None;
        let lease = match self.ending {
            Ending::At(until) if self.now < until => until - self.now,
            Ending::At(_) | Ending::Release => return self.send(Command::Release, out),
            Ending::Elsewhere => self.plan.lease,
        };
        self.send(Command::Keep { lease: (lease + MS - 1) / MS }, out);
    }

    pub(super) fn released(&mut self, sent: Nanos, reply: Reply, out: &mut Vec<Output>) {
        match reply {
            Reply::Failed(Failure::Final) => self.settle(Outcome::Error, out),
            Reply::Failed(failure) if failure != Failure::Gone => {
                self.repeated |= failure == Failure::Unanswered;
                self.rest();
            }
            // Of RENEW. It is asked for again by RENEW only, so that 0 is certain.
            Reply::Integer(0) if self.ending != Ending::Release => self.settle(Outcome::Lost, out),
            Reply::Integer(_) => {
                if self.ending == Ending::Elsewhere {
                    self.deadline = super::holding::end_of(sent, self.plan.lease);
                }
                self.settle(Outcome::Ok, out);
            }
            _ if self.repeated => self.settle(Outcome::Unknown, out),
            _ => self.settle(Outcome::Lost, out),
        }
    }

    pub(super) fn settle(&mut self, outcome: Outcome, out: &mut Vec<Output>) {
        out.push(Output::Released(outcome));
        if outcome == Outcome::Lost {
            self.ending = Ending::Release;
        }
        // The process that adopts the hold sets its lease. If it is unknown what became of the hold, its lease ends it.
        self.stray &= match self.ending {
            Ending::Release => true,
            Ending::At(_) => outcome == Outcome::Ok,
            Ending::Elsewhere => false,
        };
        self.done(out);
    }

    /// Ends the acquisition without the lock, and leaves nothing of it in the server.
    pub(super) fn leave(&mut self, refusal: Refusal, out: &mut Vec<Output>) {
        if self.asks == 0 || self.adopts {
            return self.refuse(refusal, out);
        }
        out.push(Output::Refused(refusal));
        self.state = State::Cancelling;
        self.pause = FIRST_PAUSE;
        self.depart(out);
    }

    pub(super) fn depart(&mut self, out: &mut Vec<Output>) {
        self.next = None;
        if self.down {
            return;
        }
        if matches!(self.ending, Ending::At(until) if self.now < until) {
            return self.send_end(out);
        }
        // In this order: a grant between the two is released by the second.
        if self.queued {
            self.send(Command::Cancel, out);
        }
        self.send(Command::Release, out);
    }

    pub(super) fn cancelled(&mut self, reply: Reply, out: &mut Vec<Output>) {
        match reply {
            Reply::Failed(failure) if !matches!(failure, Failure::Final | Failure::Gone) => self.rest(),
            _ => self.done(out),
        }
    }

    /// The server has nothing of the hold any more, or keeps it until a time. If a request may still be carried out late, what ended
    /// the hold, or set its lease, is sent once more later.
    pub(super) fn done(&mut self, out: &mut Vec<Output>) {
        if !self.stray || self.down {
            return self.finish(out);
        }
        self.state = State::Cancelling;
        self.stray = false;
        self.queued = true;
        self.next = Some(self.now + STRAY);
        self.give_up = self.now + 3 * STRAY;
    }

    pub(super) fn finish(&mut self, out: &mut Vec<Output>) {
        self.state = State::Ended;
        self.pending = None;
        out.push(Output::Ended);
    }
}
