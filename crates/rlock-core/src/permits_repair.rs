//! The key of a lock with permits expires with the last one. Another client that removes that one, or that prolongs the key,
//! leaves a key that outlasts its permits: after their end it has the shape of other data, and its waiters would wait until it
//! expires.

use std::cell::OnceCell;

use crate::facts::WriteAccess;
use crate::look::{Picture, look};
use crate::node::Node;
use crate::port::{Lock, Server};
use crate::rules;
use crate::timing::{WorkOutcome, check_soon};
use crate::turn::Turn;
use crate::types::Wanted;
use crate::view::{Need, Step};

/// An owner waits from now on. No event shows what another client did to the key before that.
pub(crate) fn check_expiry_soon<P: Server>(node: Node<'_, P>, lock: &mut P::Lock<'_>, wanted: Wanted) {
    if matches!(wanted, Wanted::Permit(_)) && outlasts_permits(node, lock) {
        check_soon(node, lock.name());
    }
}

fn outlasts_permits<P: Server>(node: Node<'_, P>, lock: &mut P::Lock<'_>) -> bool {
    let step = look(node, lock, None, Need::Own).map(|picture| rules::lower_expiry(picture.view()));
    step.is_ok_and(|step| matches!(step, Step::Done(decision) if !decision.change.is_empty()))
}

/// Sets the expiry of an awaited lock's key to the end of its last permit again.
pub(crate) fn lower_expiry<P: Server>(
    turn: &mut Turn<'_, P>,
    lock: &mut P::Lock<'_>,
    asked: &OnceCell<WriteAccess>,
) -> WorkOutcome {
    let node = turn.node;
    if !outlasts_permits(node, lock) {
        return WorkOutcome::Done;
    }
    match *asked.get_or_init(|| lock.write_access()) {
        WriteAccess::Allowed => {}
        WriteAccess::Refused => return WorkOutcome::Refused,
        WriteAccess::SlotMoved => return WorkOutcome::Done,
    }
    // Asking is a command, in which permits may have ended.
    turn.look_anew();
    let mut picture = Picture::of(lock, None);
    let Ok(decision) = picture.decide(node, Need::Own, |picture| Ok(rules::lower_expiry(picture.view())))
    else {
        return WorkOutcome::Done;
    };
    // A failure is in the log.
    let _ = turn.commit(picture, &decision.change);
    WorkOutcome::Done
}
