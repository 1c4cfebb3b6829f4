//! The key of a lock with permits expires with the last one. Another client that removes that one, or that prolongs the key,
//! leaves a key that outlasts its permits: after their end it has the shape of other data, and its waiters would wait until it
//! expires. Of an awaited lock the ended permits go as well: beside them alone the key would outlast the living ones that another client
//! removes.

use std::cell::OnceCell;

use crate::decision::Change;
use crate::facts::{MOST_ENDED, WriteAccess};
use crate::look::Picture;
use crate::port::{Lock, Server};
use crate::rules;
use crate::timing::{WorkOutcome, check_soon};
use crate::turn::Turn;
use crate::types::Wanted;
use crate::view::{Need, Step};

impl<P: Server> Turn<'_, '_, P> {
    /// An owner waits from now on. No event shows what another client did to the key before that.
    pub(crate) fn check_permits_soon(&mut self, wanted: Wanted) {
        if matches!(wanted, Wanted::Permit(_)) && self.needs_repair() {
            check_soon(self.at.node, self.at.name());
        }
    }

    fn needs_repair(&mut self) -> bool {
        self.look(None, Need::Own).is_ok_and(|mut picture| !repair(&mut picture).is_empty())
    }

    /// Sets the expiry of an awaited lock's key to the end of its last permit again, and removes permits that have ended; whether some
    /// are left for the next event-loop cycle.
    pub(crate) fn repair_permits(&mut self, asked: &OnceCell<WriteAccess>) -> Result<bool, WorkOutcome> {
        if !self.needs_repair() {
            return Ok(false);
        }
        match *asked.get_or_init(|| self.at.lock.write_access()) {
            WriteAccess::Allowed => {}
            WriteAccess::Refused => return Err(WorkOutcome::Refused),
            WriteAccess::SlotMoved => return Ok(false),
        }
        // Asking is a command, in which permits may have ended.
        self.forget_all();
        let mut picture = Picture::of(self, None);
        if picture.look(Need::Own).is_err() {
            return Ok(false);
        }
        let change = repair(&mut picture);
        // A failure is in the log.
        let is_done = picture.commit(&change).is_ok();
        let removed = change.buried().len();
        self.at.node.locks(|locks| locks.calls.count_served(removed));
        Ok(is_done && removed >= MOST_ENDED)
    }
}

/// The change after which the key expires with its last permit, and none of them has ended.
fn repair<P: Server>(picture: &mut Picture<'_, '_, '_, P>) -> Change {
    let Step::Done(decision) = rules::lower_expiry(picture.view()) else { return Change::default() };
    let mut change = decision.change;
    picture.bury_ended(&mut change);
    change
}
