//! Releases, and the clean-up after a wait that was given up.

use super::{FIRST_PAUSE, Failure, Machine, Output, Reply, STRAY, State};

impl Machine {
    pub(super) fn release(&mut self) {
        match self.state {
            // The server may have the hold still, and others wait for it.
            State::Lost => {
                self.state = State::Cancelling;
                self.queued = false;
                self.give_up = self.now + self.plan.lease;
                self.depart();
            }
            State::Held => {
                self.state = State::Releasing;
                self.give_up = self.deadline;
                self.next = None;
                if !self.down {
                    self.send("RELEASE");
                }
            }
            _ => (),
        }
    }

    pub(super) fn released(&mut self, reply: Reply) {
        match reply {
            Reply::Failed(Failure::Final) => self.settle("error"),
            Reply::Failed(failure) if failure != Failure::Gone => {
                self.repeated |= failure == Failure::Unanswered;
                self.rest();
            }
            Reply::Integer(_) => self.settle("ok"),
            _ if self.repeated => self.settle("unknown"),
            _ => self.settle("lost"),
        }
    }

    pub(super) fn settle(&mut self, outcome: &'static str) {
        self.out.push(Output::Released(outcome));
        self.done();
    }

    /// Ends the acquisition without the lock, and leaves nothing of it in the server.
    pub(super) fn leave(&mut self, kind: &'static str) {
        if self.asks == 0 {
            return self.refuse(kind);
        }
        self.out.push(Output::Refused(kind));
        self.state = State::Cancelling;
        self.pause = FIRST_PAUSE;
        self.depart();
    }

    pub(super) fn depart(&mut self) {
        self.next = None;
        if self.down {
            return;
        }
        // In this order: a grant between the two is released by the second.
        if self.queued {
            self.send("CANCEL");
        }
        self.send("RELEASE");
    }

    pub(super) fn cancelled(&mut self, reply: Reply) {
        match reply {
            Reply::Failed(failure) if !matches!(failure, Failure::Final | Failure::Gone) => self.rest(),
            _ => self.done(),
        }
    }

    /// The server has answered the release; a request that is still under way would come after it.
    fn done(&mut self) {
        if !self.stray || self.down {
            return self.finish();
        }
        self.state = State::Cancelling;
        self.stray = false;
        self.queued = true;
        self.next = Some(self.now + STRAY);
        self.give_up = self.now + 3 * STRAY;
    }

    pub(super) fn finish(&mut self) {
        self.state = State::Ended;
        self.pending = None;
        self.out.push(Output::Ended);
    }
}
