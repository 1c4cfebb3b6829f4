//! Revoking a grant whose client disconnected before its reply.

use crate::core::Core;
use crate::decision::Reply;
use crate::facts::WriteAccess;
use crate::locks::{Grant, LockName};
use crate::look::{Picture, look};
use crate::note::Note;
use crate::port::{InTask, Lock, Server};
use crate::rules;
use crate::serve::perform_and_serve;
use crate::timing::WorkOutcome;
use crate::view::{Need, Step, View};

/// Revokes a grant whose client disconnected before its answer, and serves the next waiter.
pub(crate) fn revoke<P: InTask>(core: Core<'_, P>, name: LockName<'_>, grant: &Grant) -> WorkOutcome {
    core.at(name, |lock| revoke_at(core, lock, grant)).unwrap_or(WorkOutcome::Done)
}

fn revoke_at<P: Server>(core: Core<'_, P>, lock: &mut P::Lock<'_>, grant: &Grant) -> WorkOutcome {
    let rule = |view: &View| rules::revoke(view, grant.mode, grant.ends);
    let revokes = |step: &Step| !matches!(step, Step::Done(decision) if decision.reply == Reply::NotHeld);
    let looked = look(core, lock, Some(&grant.owner), Need::Own).and_then(|picture| rule(picture.view()));
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
    let mut picture = Picture::of(lock, Some(&grant.owner));
    let Ok(decision) = picture.decide(core, Need::Own, |picture| rule(picture.view())) else {
        return WorkOutcome::Done;
    };
    if decision.reply == Reply::NotHeld {
        return WorkOutcome::Done;
    }
    // A failure is in the log, and the lease ends by itself.
    if perform_and_serve(core, picture, &decision.change, core.port.now()).is_ok() {
        core.port.note(Note::Revoked);
    }
    WorkOutcome::Done
}
