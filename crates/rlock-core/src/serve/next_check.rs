//! When a lock with waiters is checked next.

use crate::access::{Access, access, head};
use crate::fair;
use crate::locks::Due;
use crate::port::{Server, Site};
use crate::types::LeaseMs;

/// How soon to look again at a lock that could not be given away.
const AGAIN: LeaseMs = LeaseMs::SHORTEST;

/// Notes when a lock with waiters is to be looked at next: after its lease, or when a window closes.
pub(crate) fn schedule_next_check<S: Site>(site: &S) {
    let (server, lock) = (site.server(), site.lock());
    match head(site).map(|(owner, mode)| access(site, &owner, mode)) {
        None => {}
        Some(Access::Free | Access::Shared) => {
            let (now, clock, longest) = (server.now(), server.clock(), server.settings().foreign_window);
            let foreign = fair::fair_turn_ends(site).map(|until| until.after(LeaseMs::SHORTEST));
            server.locks(|locks| {
                let window = locks.window(lock, clock, longest);
                let again = now.after(window.unwrap_or(AGAIN));
                // Before its turn, which comes after a window, the deadline is whatever it has set itself.
                let turn = foreign.filter(|_| window.is_none());
                locks.check_at(lock, Some(Due::At(turn.map_or(again, |turn| turn.max(again)))));
            });
        }
        Some(Access::Until(until)) => {
            let expiry = site.expiry(&site.open());
            server.locks(|locks| {
                locks.note_unserved(lock, false);
                locks.found_held(lock, expiry, until);
            });
        }
    }
}
