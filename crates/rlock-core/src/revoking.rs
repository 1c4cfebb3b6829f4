//! Revoking a grant whose client disconnected before its reply.

use crate::decision::Reply;
use crate::facts::WriteAccess;
use crate::locks::{Grant, LockName};
use crate::look::Picture;
use crate::node::Node;
use crate::note::Note;
use crate::port::{InTask, Lock, Server};
use crate::rules;
use crate::timing::WorkOutcome;
use crate::turn::Turn;
use crate::view::{Need, Step, View};

/// Revokes a grant whose client disconnected before its answer, and serves the next waiter.
pub(crate) fn revoke<P: InTask>(node: Node<'_, P>, name: LockName<'_>, grant: &Grant) -> WorkOutcome {
    node.visit(name, |at| Turn::run(at, |turn| turn.revoke(grant))).unwrap_or(WorkOutcome::Done)
}

impl<P: Server> Turn<'_, '_, P> {
    fn revoke(&mut self, grant: &Grant) -> WorkOutcome {
        let rule = |view: &View| rules::revoke(view, grant.mode, grant.ends);
        let revokes = |step: &Step| !matches!(step, Step::Done(decision) if decision.reply == Reply::NotHeld);
        let looked = self.look(Some(&grant.owner), Need::Own).and_then(|picture| rule(picture.view()));
        if !looked.is_ok_and(|step| revokes(&step)) {
            return WorkOutcome::Done;
        }
        match self.at.lock.write_access() {
            WriteAccess::Allowed => {}
            WriteAccess::Refused => return WorkOutcome::Refused,
            // The lock goes where the key goes, and ends there with its lease.
            WriteAccess::SlotMoved => return WorkOutcome::Done,
        }
        // Asking is a command, in which the lease may have ended.
        self.forget_all();
        let mut picture = Picture::of(self, Some(&grant.owner));
        let Ok(decision) = picture.decide(Need::Own, |picture| rule(picture.view())) else {
            return WorkOutcome::Done;
        };
        if decision.reply == Reply::NotHeld {
            return WorkOutcome::Done;
        }
        // A failure is in the log, and the lease ends by itself.
        if let Ok(turn) = picture.commit_and_serve(&decision.change) {
            turn.at.node.port.note(Note::Revoked);
        }
        WorkOutcome::Done
    }
}
