//! Revoking a grant whose client disconnected before its reply.

use crate::decision::Reply;
use crate::facts::WriteAccess;
use crate::locks::{Grant, LockName};
use crate::look::{Picture, look};
use crate::node::Node;
use crate::note::Note;
use crate::port::{InTask, Lock, Server};
use crate::rules;
use crate::timing::WorkOutcome;
use crate::turn::Turn;
use crate::view::{Need, Step, View};

/// Revokes a grant whose client disconnected before its answer, and serves the next waiter.
pub(crate) fn revoke<P: InTask>(node: Node<'_, P>, name: LockName<'_>, grant: &Grant) -> WorkOutcome {
    node.at(name, |lock| revoke_at(node, lock, grant)).unwrap_or(WorkOutcome::Done)
}

fn revoke_at<P: Server>(node: Node<'_, P>, lock: &mut P::Lock<'_>, grant: &Grant) -> WorkOutcome {
    let mut turn = Turn::new(node);
    let outcome = revoke_in(&mut turn, lock, grant);
    turn.close(lock);
    outcome
}

fn revoke_in<P: Server>(turn: &mut Turn<'_, P>, lock: &mut P::Lock<'_>, grant: &Grant) -> WorkOutcome {
    let node = turn.node;
    let rule = |view: &View| rules::revoke(view, grant.mode, grant.ends);
    let revokes = |step: &Step| !matches!(step, Step::Done(decision) if decision.reply == Reply::NotHeld);
    let looked = look(node, lock, Some(&grant.owner), Need::Own).and_then(|picture| rule(picture.view()));
    if !looked.is_ok_and(|step| revokes(&step)) {
        return WorkOutcome::Done;
    }
    match lock.write_access() {
        WriteAccess::Allowed => {}
        WriteAccess::Refused => return WorkOutcome::Refused,
        // The lock goes where the key goes, and ends there with its lease.
        WriteAccess::SlotMoved => return WorkOutcome::Done,
    }
    // Asking is a command, in which the lease may have ended.
    turn.look_anew();
    let mut picture = Picture::of(lock, Some(&grant.owner));
    let Ok(decision) = picture.decide(node, Need::Own, |picture| rule(picture.view())) else {
        return WorkOutcome::Done;
    };
    if decision.reply == Reply::NotHeld {
        return WorkOutcome::Done;
    }
    // A failure is in the log, and the lease ends by itself.
    if turn.perform_and_serve(picture, &decision.change).is_ok() {
        node.port.note(Note::Revoked);
    }
    WorkOutcome::Done
}
