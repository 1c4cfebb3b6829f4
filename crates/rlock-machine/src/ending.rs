//! Releases, and the clean-up after a wait that was given up.

use super::{Command, FIRST_PAUSE, Failure, Machine, Outcome, Output, Refusal, Reply, STRAY, State};

impl Machine {
    pub(super) fn release(&mut self, out: &mut Vec<Output>) {
        match self.state {
            // The server may have the hold still, and others wait for it.
            State::Lost => {
                self.state = State::Cancelling;
                self.queued = false;
                self.give_up = self.now + self.plan.lease;
                self.depart(out);
            }
            State::Held => {
                self.state = State::Releasing;
                self.give_up = self.deadline;
                self.next = None;
                if !self.down {
                    self.send(Command::Release, out);
                }
            }
            _ => (),
        }
    }

    pub(super) fn released(&mut self, reply: Reply, out: &mut Vec<Output>) {
        match reply {
            Reply::Failed(Failure::Final) => self.settle(Outcome::Error, out),
            Reply::Failed(failure) if failure != Failure::Gone => {
                self.repeated |= failure == Failure::Unanswered;
                self.rest();
            }
            Reply::Integer(_) => self.settle(Outcome::Ok, out),
            _ if self.repeated => self.settle(Outcome::Unknown, out),
            _ => self.settle(Outcome::Lost, out),
        }
    }

    pub(super) fn settle(&mut self, outcome: Outcome, out: &mut Vec<Output>) {
        out.push(Output::Released(outcome));
        self.done(out);
    }

    /// Ends the acquisition without the lock, and leaves nothing of it in the server.
    pub(super) fn leave(&mut self, refusal: Refusal, out: &mut Vec<Output>) {
        if self.asks == 0 {
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

    /// The server has nothing of the hold any more; a request that is still under way would come after that.
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
