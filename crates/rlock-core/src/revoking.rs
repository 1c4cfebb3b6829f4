//! Revoking a grant whose client disconnected before its reply.

use crate::decide;
use crate::decision::Change;
use crate::locks::{Grant, LockName};
use crate::port::{Note, Server, Site, WriteAccess};
use crate::read_leases;
use crate::read_write::{self, Held, Others};
use crate::serve::perform_and_serve;
use crate::timing::Outcome;
use crate::types::Mode;

/// Takes a grant back whose client went before its answer, and serves the next.
pub(crate) fn revoke<V: Server>(server: &V, lock: LockName<'_>, grant: &Grant) -> Outcome {
    server.at(lock, |site| revoke_at(site, grant)).unwrap_or(Outcome::Done)
}

fn revoke_at<S: Site>(site: &S, grant: &Grant) -> Outcome {
    // Dead readers are cleared away only where that may be written.
    if revoking_change(site, grant, |_| Others::default()).is_none() {
        return Outcome::Done;
    }
    match site.write_access() {
        WriteAccess::Allowed => {}
        WriteAccess::Refused => return Outcome::Refused,
        // The lock goes where the key goes, and ends there with its lease.
        WriteAccess::SlotMoved => return Outcome::Done,
    }
    // Asking is a command, in which the lease may have ended.
    let others = |held| read_leases::check_others(site, &grant.owner, held);
    let Some((key, change)) = revoking_change(site, grant, others) else { return Outcome::Done };
    site.server().note(Note::Revoked);
    // A failure is in the log; the lease ends by itself then.
    let _ = perform_and_serve(site, key, Some(&grant.owner), &change, site.server().now());
    Outcome::Done
}

/// What takes a grant back, if it is still as it was made, and the lock's key, open.
fn revoking_change<S: Site>(
    site: &S,
    grant: &Grant,
    others: impl FnOnce(Held) -> Others,
) -> Option<(S::Key, Change)> {
    if grant.mode == Mode::Mutex {
        let key = site.open();
        let state = site.state(&key, Some(&grant.owner)).ok()?;
        return Some((key, decide::revoke(state, grant.ends)?));
    }
    let (seen, state) = read_leases::state(site, Some(&grant.owner)).ok()?;
    let change = read_write::revoke(state, grant.mode, grant.ends, others)?;
    let key = site.open();
    // Time goes on here, and the lock may have ended while its readers were looked at.
    site.state(&key, Some(&grant.owner)).is_ok_and(|state| state.holds_as(seen)).then_some((key, change))
}
