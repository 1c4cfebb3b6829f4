//! The work outside commands: ended waits, revoked grants, and checks of locks that may have become free. Timers only
//! wake: every decision uses the server's state at that time.

use crate::bugs::{Bug, planted};
use crate::decide;
use crate::decision::Change;
use crate::departures::{continue_dropping, demoted, drop_waiters, end_waits};
use crate::fair;
use crate::message::DropReason;
use crate::port::{Note, Server, Site, WriteAccess};
use crate::queue::{Cause, Databases, Grant, LockId, Queues, Rearm, Sweep};
use crate::read_leases;
use crate::read_write::{self, Held, Others};
use crate::serve::{Access, access, head, perform_and_serve, serve_found_free};
use crate::shape::LockState;
use crate::types::{Expiry, LeaseMs, Mode, UnixMs};
use crate::yielding;

/// How soon to look again while the server refuses writes, in ms.
const RETRY_MS: u64 = 20;

/// How soon to look again at a lock that could not be given away.
const AGAIN: LeaseMs = LeaseMs::SHORTEST;

/// The timer has fired.
pub fn on_timer<V: Server>(server: &V) {
    server.queues(|queues| queues.timer_fired_or_lost());
    end_waits(server);
    if server.is_primary() {
        continue_dropping(server);
    } else {
        demoted(server);
        return;
    }
    if !server.may_write() {
        arm_timer_for_retry(server);
        return;
    }
    continue_sweeps(server);
    // What is left of these is due at once again, after whatever else the server has to do.
    let mut refused = revoke_grants(server) == Outcome::Refused;
    refused = refused || clear_fair_lists(server) == Outcome::Refused;
    refused = refused || repair_read_leases(server) == Outcome::Refused;
    refused = refused || cap_lists(server) == Outcome::Refused;
    refused |= check_due(server) == Outcome::Refused;
    if refused { arm_timer_for_retry(server) } else { arm_timer(server) }
}

/// Waits end, and waiters are sent away, also while the server refuses writes.
fn arm_timer_for_retry<V: Server>(server: &V) {
    let clock = server.clock();
    let more = server.queues(|queues| {
        // A look at another lock may have set it for now, where a fair list is to be put right that may not be written.
        queues.timer_fired_or_lost();
        queues.dropping().is_some() || queues.has_ended_waits(clock)
    });
    arm_timer_after(server, if more { 0 } else { RETRY_MS });
}

/// Takes grants back whose clients went before the answer.
fn revoke_grants<V: Server>(server: &V) -> Outcome {
    let share = Share::of(server);
    for _ in 0..share.most {
        let Some((lock, grant)) = server.queues(|queues| queues.next_revoke()) else { break };
        if revoke(server, &lock, &grant) == Outcome::Refused {
            server.queues(|queues| queues.revoke_later(lock, grant));
            return Outcome::Refused;
        }
        if share.is_used_up(server) {
            break;
        }
    }
    Outcome::Done
}

/// Looks at the locks that are due.
fn check_due<V: Server>(server: &V) -> Outcome {
    let (now, share, mut looked) = (server.now(), Share::of(server), Outcome::Done);
    let most = server.settings().at_once.looked;
    for lock in server.queues(|queues| queues.due(now, most)) {
        if server.at(&lock, |site| check(site)) == Some(Outcome::Refused) {
            looked = Outcome::Refused;
        }
        if share.is_used_up(server) {
            break;
        }
    }
    looked
}

/// How many waiters may be granted locks, or leave queues that are served, in one event-loop cycle.
pub(crate) struct Share {
    before: usize,
    most: usize,
}

impl Share {
    pub(crate) fn of<V: Server>(server: &V) -> Self {
        Self { before: server.queues(|queues| queues.served()), most: server.settings().at_once.served }
    }

    pub(crate) fn is_used_up<V: Server>(&self, server: &V) -> bool {
        server.queues(|queues| queues.served_since(self.before)) >= self.most
    }
}

#[derive(PartialEq, Eq)]
enum Outcome {
    Done,
    /// The server refuses writes for now.
    Refused,
}

/// Takes those out of lists who wait no more.
fn clear_fair_lists<V: Server>(server: &V) -> Outcome {
    let (most, mut done) = (server.settings().at_once.listed, 0_usize);
    while done < most {
        let Some(lock) = server.queues(|queues| queues.next_fair_departed()) else { break };
        match server.at(&lock, |site| remove_departed(site)) {
            Some(Some(looked_at)) => done = done.saturating_add(looked_at),
            Some(None) => return Outcome::Refused,
            // There is no such database any more.
            None => server.queues(|queues| queues.forget_all_departed(&lock)),
        }
    }
    Outcome::Done
}

/// Looks at locks that natives read and that somebody else has changed.
fn repair_read_leases<V: Server>(server: &V) -> Outcome {
    for _ in 0..server.settings().at_once.looked {
        let Some((lock, ends)) = server.queues(|queues| queues.next_read_repair()) else { break };
        if server.at(&lock, |site| repair_read_lease(site, ends)) == Some(Outcome::Refused) {
            server.queues(|queues| queues.repair_reads_later(lock));
            return Outcome::Refused;
        }
    }
    Outcome::Done
}

/// Sets bounds to the deadlines in lists that were found.
fn cap_lists<V: Server>(server: &V) -> Outcome {
    let (most, mut done) = (server.settings().at_once.listed, 0_usize);
    while done < most {
        let Some((lock, passed)) = server.queues(|queues| queues.next_fair_uncapped()) else { break };
        let lock = if passed == 0 { lock_of_list(server, lock) } else { lock };
        match server.at(&lock, |site| cap(site, passed)) {
            Some(Capped::Refused) => {
                server.queues(|queues| queues.note_fair_uncapped(lock));
                return Outcome::Refused;
            }
            Some(Capped::Some(seen)) => {
                let passed = passed.saturating_add(seen);
                server.queues(|queues| queues.continue_capping(lock, passed));
                done = done.saturating_add(seen.max(1));
            }
            Some(Capped::All(seen)) => done = done.saturating_add(seen.max(1)),
            None => done = done.saturating_add(1),
        }
    }
    Outcome::Done
}

/// Of the two locks that a list may be of, `x` and `{x}`, the one that is there.
fn lock_of_list<V: Server>(server: &V, lock: LockId) -> LockId {
    let is_there = |lock: &LockId| {
        server
            .at(lock, |site| !matches!(site.state(&site.open(), None), Ok(LockState::Free)))
            .unwrap_or(false)
    };
    if lock.key.contains(&b'{') || is_there(&lock) {
        return lock;
    }
    let braced = [b"{", &lock.key[..], b"}"].concat();
    let braced = LockId { db: lock.db, key: braced.into() };
    if is_there(&braced) { braced } else { lock }
}

/// Looks at a lock with waiters outside a command.
fn check<S: Site>(site: &S) -> Outcome {
    let (server, lock) = (site.server(), site.lock());
    let Some((owner, mode)) = head(site) else { return Outcome::Done };
    if server.queues(|queues| queues.has_fair(lock)) {
        match site.write_access() {
            WriteAccess::Allowed if site.fair_is_elsewhere() => return drop_moved(site),
            WriteAccess::Allowed => fair::repair(site, server.now()),
            WriteAccess::Refused => {
                if let Access::Until(_) = access(site, &owner, mode) {
                    // Those who wait by Redisson's protocol may have been told of this lease.
                    schedule_next_check(site);
                }
                return Outcome::Refused;
            }
            // Its list is not ours to put right any more, or the look at it would be due for ever.
            WriteAccess::SlotMoved => server.queues(|queues| queues.forget_fair_change(lock)),
        }
    }
    if let Access::Until(_) = access(site, &owner, mode) {
        schedule_next_check(site);
        return Outcome::Done;
    }
    match site.write_access() {
        WriteAccess::Allowed => {}
        WriteAccess::Refused => return Outcome::Refused,
        WriteAccess::SlotMoved => return drop_moved(site),
    }
    serve_found_free(site, server.now());
    Outcome::Done
}

/// Sends all away who wait for a lock that is on its way to another server: they ask again where it is served.
fn drop_moved<S: Site>(site: &S) -> Outcome {
    let (server, lock) = (site.server(), site.lock());
    let most = server.settings().at_once.served;
    // Those who are left wait on, and the lock is due again.
    let moved = server.queues(|queues| {
        queues.end_streak(lock);
        let moved = queues.drain(lock, most);
        queues.count_served(moved.len());
        moved
    });
    let moved = moved.into_iter().map(|waiter| (lock.clone(), waiter)).collect();
    drop_waiters(server, moved, DropReason::Moved);
    Outcome::Done
}

/// Takes some out of a lock's list who wait no more, and says how many were looked at; `None` if writing is refused.
fn remove_departed<S: Site>(site: &S) -> Option<usize> {
    if site.write_access() == WriteAccess::Refused {
        return None;
    }
    // Where the key is not here, neither is the list: there is nothing to be taken out of it.
    Some(fair::remove_departed(site))
}

/// How much of a list has got its bounds.
enum Capped {
    /// So many entries, and there are more before them.
    Some(usize),
    /// So many, and these were the first ones.
    All(usize),
    /// The server refuses writes for now.
    Refused,
}

/// Sets a bound to the deadlines of some in a lock's list of whom nobody here knows.
fn cap<S: Site>(site: &S, passed: usize) -> Capped {
    match site.write_access() {
        WriteAccess::Refused => return Capped::Refused,
        WriteAccess::Allowed if !site.fair_is_elsewhere() => {
            let (seen, all) = fair::cap(site, passed, site.server().now());
            return if all { Capped::All(seen) } else { Capped::Some(seen) };
        }
        // A part of it is not here yet, or is here no more.
        WriteAccess::Allowed | WriteAccess::SlotMoved if site.fair_head().is_some() => {
            site.server().queues(|queues| queues.defer_fair_list(site.lock()));
        }
        WriteAccess::Allowed | WriteAccess::SlotMoved => {}
    }
    Capped::All(0)
}

/// A lock's fair list was found after a load, a slot migration or a promotion: this server cannot tell which of its entries
/// are alive.
pub fn fair_list_found<V: Server>(server: &V, lock: LockId) {
    server.queues(|queues| queues.note_fair_uncapped(lock));
    arm_timer(server);
}

/// Where another client has changed a fair list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListChange {
    /// At its ends: the head was removed, or an entry was added at an end.
    AtAnEnd,
    /// Anywhere.
    Anywhere,
}

/// Another client has changed a fair list: a native waiter may have been dropped from it.
pub fn fair_list_changed<V: Server>(server: &V, lock: &LockId, change: ListChange) {
    if change == ListChange::Anywhere {
        server.queues(|queues| queues.disturb_walk(lock));
    }
    if server.queues(|queues| queues.note_fair_change(lock)) {
        check_soon(server, lock);
    }
}

/// Schedules a check of all fair lists with native waiters.
pub fn check_fair_lists<V: Server>(server: &V) {
    sweep(server, Sweep::FairLists);
}

/// Looks at a read/write lock whose key somebody else has changed: it is there for as long as the read leases that
/// were given here, the longest of which was to end then.
fn repair_read_lease<S: Site>(site: &S, ends: UnixMs) -> Outcome {
    let lacks = |expiry: Expiry| matches!(expiry, Expiry::At(at) if at < ends);
    let hash = match site.state(&site.open(), None) {
        Ok(LockState::ReadWrite(hash)) => hash,
        _ => {
            yielding::native_reads_ended(site);
            return Outcome::Done;
        }
    };
    if hash.writing || !lacks(hash.expiry) || planted(Bug::ReadEndedEarly) {
        return Outcome::Done;
    }
    match site.write_access() {
        WriteAccess::Allowed => {}
        WriteAccess::Refused => return Outcome::Refused,
        // It is not ours yet, or not any more.
        WriteAccess::SlotMoved => {
            site.server().queues(|queues| queues.defer_read_repair(site.lock()));
            return Outcome::Done;
        }
    }
    let latest =
        read_leases::latest_end(site, hash, ends).filter(|latest| latest.later(hash.expiry) != hash.expiry);
    if let Some(Expiry::At(at)) = latest {
        let change = Change { mode: Mode::Read, expire_at: Some(at), ..Change::default() };
        // A failure is in the log.
        let _ = site.perform(site.open(), None, &change);
        // Not later: who waits first may be able to have it by now.
        check_soon(site.server(), site.lock());
    }
    Outcome::Done
}

/// Takes a grant back whose client went before its answer, and serves the next.
fn revoke<V: Server>(server: &V, lock: &LockId, grant: &Grant) -> Outcome {
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

/// Notes when a lock with waiters is to be looked at next: after its lease, or when a window closes.
pub(crate) fn schedule_next_check<S: Site>(site: &S) {
    let (server, lock) = (site.server(), site.lock());
    match head(site).map(|(owner, mode)| access(site, &owner, mode)) {
        None => {}
        Some(Access::Free | Access::Shared) => {
            let (now, clock, longest) = (server.now(), server.clock(), server.settings().foreign_window);
            let foreign = fair::fair_turn_ends(site).map(|until| until.after(LeaseMs::SHORTEST));
            server.queues(|queues| {
                let window = queues.window(lock, clock, longest);
                let again = now.after(window.unwrap_or(AGAIN));
                // Before its turn, which comes after a window, the deadline is whatever it has set itself.
                let turn = foreign.filter(|_| window.is_none());
                queues.check_at(lock, Some(turn.map_or(again, |turn| turn.max(again))));
            });
        }
        Some(Access::Until(until)) => {
            let expiry = site.expiry(&site.open());
            server.queues(|queues| {
                queues.note_unserved(lock, false);
                queues.found_held(lock, expiry, until);
            });
        }
    }
    if planted(Bug::ForgetTimer) {
        return;
    }
    arm_timer(server);
}

/// A key was changed, deleted or renamed, or has expired: its lock is checked now if it has waiters. If it has none, a
/// lock that ended was also free for waiting Redisson clients.
pub fn key_changed<V: Server>(server: &V, lock: &LockId, cause: Cause) {
    if server.queues(|queues| queues.note_foreign_read_change(lock)) {
        arm_timer(server);
    }
    if server.queues(|queues| queues.head(lock).is_some()) {
        server.queues(|queues| queues.note_cause(lock, cause));
        check_soon(server, lock);
    } else if cause != Cause::Other && !planted(Bug::KeepStreak) {
        server.queues(|queues| queues.end_streak(lock));
    }
}

/// Schedules a check of a lock with waiters now.
pub fn check_soon<V: Server>(server: &V, lock: &LockId) {
    let now = server.now();
    server.queues(|queues| queues.check_at(lock, Some(now)));
    arm_timer(server);
}

/// Keys of these databases were created or removed without an event for each: schedules a check of all their locks with
/// waiters.
pub fn databases_changed<V: Server>(server: &V, databases: Databases, cause: Cause) {
    sweep(server, Sweep::Keys(databases, cause));
}

/// The wall clock was set forward or back: schedules a check of every lock with waiters.
pub fn clock_stepped<V: Server>(server: &V) {
    sweep(server, Sweep::Clock);
}

fn sweep<V: Server>(server: &V, sweep: Sweep) {
    server.queues(|queues| queues.sweep(sweep));
    continue_sweeps(server);
    arm_timer(server);
}

fn continue_sweeps<V: Server>(server: &V) {
    let (now, most) = (server.now(), server.settings().at_once.looked);
    server.queues(|queues| queues.continue_sweeps(now, most));
}

/// Retries the changes that were deferred while a slot migrates.
pub fn retry_deferred<V: Server>(server: &V) {
    if server.queues(Queues::retry_deferred) {
        arm_timer(server);
    }
}

/// Schedules a check of some locks with waiters now; the next call continues after them.
pub fn check_some<V: Server>(server: &V) {
    let now = server.now();
    let most = server.settings().at_once.looked;
    server.queues(|queues| queues.check_some_now(now, most));
    arm_timer(server);
}

/// Starts, moves or stops the timer, so that it fires at the next work. There is one timer, and none while there are no
/// waiters: the server does not unload a module with timers.
pub fn arm_timer<V: Server>(server: &V) {
    arm_timer_after(server, 0);
}

/// The same, but not before so many milliseconds have passed.
fn arm_timer_after<V: Server>(server: &V, least: u64) {
    let (now, clock) = (server.now(), server.clock());
    match server.queues(|queues| queues.rearm(now, clock, least)) {
        Rearm::Keep => {}
        Rearm::Stop => server.set_timer(None),
        Rearm::In(ms) => server.set_timer(Some(ms)),
    }
}

/// Sets the timer again, after its clock may have stepped.
pub fn restart_timer<V: Server>(server: &V) {
    server.queues(|queues| queues.timer_fired_or_lost());
    server.set_timer(None);
    arm_timer(server);
}
