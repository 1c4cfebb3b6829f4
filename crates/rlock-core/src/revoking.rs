//! Revoking a grant whose client disconnected before its reply.

use crate::decision::Reply;
use crate::locks::{Grant, LockName};
use crate::look::{Picture, look};
use crate::port::{Note, Server, Site, WriteAccess};
use crate::rules;
use crate::serve::perform_and_serve;
use crate::timing::Outcome;
use crate::view::{Need, Step, View};

/// Takes a grant back whose client went before its answer, and serves the next.
pub(crate) fn revoke<V: Server>(server: &V, lock: LockName<'_>, grant: &Grant) -> Outcome {
    server.at(lock, |site| revoke_at(site, grant)).unwrap_or(Outcome::Done)
}

fn revoke_at<S: Site>(site: &S, grant: &Grant) -> Outcome {
    let rule = |view: &View| rules::revoke(view, grant.mode, grant.ends);
    let revokes = |step: &Step| !matches!(step, Step::Done(decision) if decision.reply == Reply::NotHeld);
    let first = look(site, Some(&grant.owner), Need::Mine).and_then(|picture| rule(picture.view()));
    if !first.is_ok_and(|step| revokes(&step)) {
        return Outcome::Done;
    }
    match site.write_access() {
        WriteAccess::Allowed => {}
        WriteAccess::Refused => return Outcome::Refused,
        // The lock goes where the key goes, and ends there with its lease.
        WriteAccess::SlotMoved => return Outcome::Done,
    }
    // Asking is a command, in which the lease may have ended.
    let mut picture = Picture::of(site, Some(&grant.owner));
    let Ok(decision) = picture.decide(rule) else { return Outcome::Done };
    if decision.reply == Reply::NotHeld {
        return Outcome::Done;
    }
    // A failure is in the log; the lease ends by itself then.
    if perform_and_serve(&mut picture, &decision.change, site.server().now()).is_ok() {
        site.server().note(Note::Revoked);
    }
    Outcome::Done
}
