//! The key of a lock with permits expires with its last permit. If another client removes that permit, or prolongs the key, the key
//! outlasts its permits. After their end it has the shape of other data, and its waiters would wait until it expires. For a lock with
//! waiters, ended permits are removed as well: with ended permits alone, the key would outlast the living ones that another client
//! removes.

use std::cell::OnceCell;

use crate::decision::Change;
use crate::facts::WriteAccess;
use crate::look::Picture;
use crate::port::{Lock, Server};
use crate::rules;
use crate::turn::Turn;
use crate::view::{Need, Step};

impl<P: Server> Turn<'_, '_, P> {
    /// Whether the key outlasts its permits, or some have ended. No event shows what another client did before an owner waits, nor the
    /// end of a permit.
    pub(crate) fn needs_repair(&mut self) -> bool {
        self.look(None, Need::Own).is_ok_and(|mut picture| !repair(&mut picture).is_empty())
    }

    /// Sets the expiry of an awaited lock's key to the end of its last permit again, and removes permits that have ended: as many as one
    /// event-loop cycle may. Returns whether the server allows that.
    pub(crate) fn repair_permits(&mut self, asked: &OnceCell<WriteAccess>) -> WriteAccess {
        if !self.needs_repair() {
            return WriteAccess::Allowed;
        }
        let access = *asked.get_or_init(|| self.at.lock.write_access());
        if access != WriteAccess::Allowed {
            return access;
        }
        // Asking is a command, in which permits may have ended.
        self.forget_all();
        let mut picture = Picture::of(self, None);
        if picture.look(Need::Own).is_err() {
            return access;
        }
        let change = repair(&mut picture);
        if picture.commit(&change).is_err() {
            // It is in the log; at once it would fail again.
            return WriteAccess::Refused;
        }
        self.at.node.locks(|locks| locks.calls.count_served(change.buried().len()));
        access
    }
}

/// The change after which the key expires with its last permit, and none of them has ended.
fn repair<P: Server>(picture: &mut Picture<'_, '_, '_, P>) -> Change {
    let Step::Done(decision) = rules::lower_expiry(picture.view()) else { return Change::default() };
    let mut change = decision.change;
    picture.bury_ended(&mut change);
    change
}
