//! The key of a lock with permits expires with the last one. Another client that removes that one, or that prolongs the key,
//! leaves a key that outlasts its permits: after their end it has the shape of other data, and its waiters would wait until it
//! expires.

use std::cell::OnceCell;

use crate::facts::WriteAccess;
use crate::look::Picture;
use crate::port::{Lock, Server};
use crate::rules;
use crate::timing::{WorkOutcome, check_soon};
use crate::turn::Turn;
use crate::types::Wanted;
use crate::view::{Need, Step};

impl<P: Server> Turn<'_, '_, P> {
    /// An owner waits from now on. No event shows what another client did to the key before that.
    pub(crate) fn check_expiry_soon(&mut self, wanted: Wanted) {
        if matches!(wanted, Wanted::Permit(_)) && self.outlasts_permits() {
            check_soon(self.at.node, self.at.name());
        }
    }

    fn outlasts_permits(&mut self) -> bool {
        let step = self.look(None, Need::Own).map(|picture| rules::lower_expiry(picture.view()));
        step.is_ok_and(|step| matches!(step, Step::Done(decision) if !decision.change.is_empty()))
    }

    /// Sets the expiry of an awaited lock's key to the end of its last permit again.
    pub(crate) fn lower_expiry(&mut self, asked: &OnceCell<WriteAccess>) -> WorkOutcome {
        if !self.outlasts_permits() {
            return WorkOutcome::Done;
        }
        match *asked.get_or_init(|| self.at.lock.write_access()) {
            WriteAccess::Allowed => {}
            WriteAccess::Refused => return WorkOutcome::Refused,
            WriteAccess::SlotMoved => return WorkOutcome::Done,
        }
        // Asking is a command, in which permits may have ended.
        self.forget_all();
        let mut picture = Picture::of(self, None);
        let Ok(decision) = picture.decide(Need::Own, |picture| Ok(rules::lower_expiry(picture.view())))
        else {
            return WorkOutcome::Done;
        };
        // A failure is in the log.
        let _ = picture.commit(&decision.change);
        WorkOutcome::Done
    }
}
