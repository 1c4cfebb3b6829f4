//! The work outside commands: ended waits, revoked grants, and checks of locks that may have become free. Timers only
//! wake: every decision uses the server's state at that time.

use std::cell::OnceCell;

use crate::access::{Access, access, head};
use crate::departures::{continue_dropping, demoted, drop_waiters, end_waits};
use crate::events::continue_sweeps;
use crate::facts::WriteAccess;
use crate::fair::{
    self,
    due::{cap_lists, clear_fair_lists},
};
use crate::locks::{DropReason, Job, Locks};
use crate::port::{Server, Site};
use crate::read_repair::repair_read_lease;
use crate::revoking::revoke;
use crate::serve::{schedule_next_check, serve_found_free};
use crate::timing::{Outcome, Share, entry};
use crate::types::{Mode, MonoMs};

/// How soon to look again while the server refuses writes, in ms.
const RETRY_MS: u64 = 20;

/// The timer has fired: one cycle of work, with a bound for each kind. The rest is due again at once, but the server serves
/// other clients before that.
pub fn on_timer<V: Server>(server: &V) {
    let _entry = entry(server);
    server.locks(Locks::timer_fired_or_lost);
    // Waits end, and waiters are sent away, also while the server refuses writes.
    end_waits(server);
    if !server.is_primary() {
        demoted(server);
        return;
    }
    continue_dropping(server);
    if !server.may_write() || work_on_locks(server) == Outcome::Refused {
        let retry = MonoMs(server.clock().0.saturating_add(RETRY_MS));
        server.locks(|locks| locks.put_off(retry));
    }
}

fn work_on_locks<V: Server>(server: &V) -> Outcome {
    continue_sweeps(server);
    let mut done = Outcome::Done;
    for work in [clear_fair_lists, revoke_grants, repair_read_leases, cap_lists] {
        // A server that refuses one write refuses them all.
        if done == Outcome::Done {
            done = work(server);
        }
    }
    if serve_due(server) == Outcome::Refused { Outcome::Refused } else { done }
}

/// Takes grants back whose clients went before the answer.
fn revoke_grants<V: Server>(server: &V) -> Outcome {
    let share = Share::of(server);
    for _ in 0..share.most {
        let Some((lock, grant)) = server.locks(Locks::next_revoke) else { break };
        if revoke(server, lock.name(), &grant) == Outcome::Refused {
            server.locks(|locks| locks.revoke_later(lock, grant));
            return Outcome::Refused;
        }
        if share.is_used_up(server) {
            break;
        }
    }
    Outcome::Done
}

/// Looks at the locks that are due.
fn serve_due<V: Server>(server: &V) -> Outcome {
    let (now, share, mut looked) = (server.now(), Share::of(server), Outcome::Done);
    let most = server.settings().at_once.looked;
    for lock in server.locks(|locks| locks.due(now, most)) {
        if server.at(lock.name(), |site| check(site)) == Some(Outcome::Refused) {
            looked = Outcome::Refused;
        }
        if share.is_used_up(server) {
            break;
        }
    }
    looked
}

/// Looks at locks that natives read and that somebody else has changed.
fn repair_read_leases<V: Server>(server: &V) -> Outcome {
    for _ in 0..server.settings().at_once.looked {
        let Some(lock) = server.locks(|locks| locks.next_with(Job::RepairReads)) else { break };
        // What changes while this one is looked at is another change.
        server.locks(|locks| locks.reads_are_repaired(&lock));
        let Some(ends) = server.locks(|locks| locks.read_end(lock.name())) else { continue };
        if server.at(lock.name(), |site| repair_read_lease(site, ends)) == Some(Outcome::Refused) {
            server.locks(|locks| locks.note_foreign_read_change(lock.name()));
            return Outcome::Refused;
        }
    }
    Outcome::Done
}

/// Checks a lock with waiters outside a command. It asks for write access once, and only before it writes.
fn check<S: Site>(site: &S) -> Outcome {
    let Some((owner, mode)) = head(site) else { return Outcome::Done };
    let asked = OnceCell::new();
    let write_access = || *asked.get_or_init(|| site.write_access());
    if let Err(outcome) = repair_list(site, &owner, mode, &write_access) {
        return outcome;
    }
    // Asking is a command, in which the lease may have ended: the state is read after it.
    if let Access::Until(_) = access(site, &owner, mode) {
        schedule_next_check(site);
        return Outcome::Done;
    }
    match write_access() {
        WriteAccess::Allowed => serve_found_free(site, site.server().now()),
        WriteAccess::Refused => return Outcome::Refused,
        WriteAccess::SlotMoved => return drop_moved(site),
    }
    Outcome::Done
}

/// Repairs the fair list, if the lock has waiters in it; an error is the end of the check.
fn repair_list<S: Site>(
    site: &S,
    owner: &[u8],
    mode: Mode,
    write_access: &dyn Fn() -> WriteAccess,
) -> Result<(), Outcome> {
    let (server, lock, now) = (site.server(), site.lock(), site.server().now());
    if !server.locks(|locks| locks.has_fair(lock)) {
        return Ok(());
    }
    let is_elsewhere = site.fair_is_elsewhere();
    if !is_elsewhere && !fair::needs_repair(site, now) {
        server.locks(|locks| locks.fair_list_checked(lock));
        return Ok(());
    }
    match write_access() {
        WriteAccess::Allowed if is_elsewhere => return Err(drop_moved(site)),
        WriteAccess::Allowed => {
            // Asking is a command, which other modules may have heard of: the list is read again.
            fair::repair(site, server.now());
        }
        WriteAccess::Refused => {
            if let Access::Until(_) = access(site, owner, mode) {
                // Those who wait by Redisson's protocol may have been told of this lease.
                schedule_next_check(site);
            }
            return Err(Outcome::Refused);
        }
        // The list is on another server: a check of it would be due for ever.
        WriteAccess::SlotMoved => server.locks(|locks| locks.forget_fair_change(lock)),
    }
    Ok(())
}

/// Sends all away who wait for a lock that is on its way to another server: they ask again where it is served.
fn drop_moved<S: Site>(site: &S) -> Outcome {
    let (server, lock) = (site.server(), site.lock());
    let most = server.settings().at_once.served;
    // Those who are left wait on, and the lock is due again.
    let moved = server.locks(|locks| {
        locks.end_streak(lock);
        let moved = locks.drain(lock, most);
        locks.count_served(moved.len());
        moved
    });
    let lock = lock.to_ref();
    let moved = moved.into_iter().map(|waiter| (lock.clone(), waiter)).collect();
    drop_waiters(server, moved, DropReason::Moved);
    Outcome::Done
}
