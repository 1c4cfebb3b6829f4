//! What other clients and the server did to locks: each event schedules a check.

use crate::bugs::{Bug, planted};
use crate::locks::{Cause, Databases, LockName, LockRef, Locks, Sweep};
use crate::port::Server;
use crate::sessions;
use crate::timing::{check_soon, entry};

/// A key was changed, deleted or renamed, or has expired: its lock is checked now if it has waiters. If it has none, a
/// lock that ended was also free for waiting Redisson clients.
pub fn key_changed<V: Server>(server: &V, lock: LockName<'_>, cause: Cause) {
    if !server.locks(|locks| locks.knows(lock) || locks.knows_end(lock)) {
        return;
    }
    let _entry = entry(server);
    if cause != Cause::Other {
        sessions::key_ended(server, lock, cause);
    }
    let awaited = server.locks(|locks| {
        locks.note_foreign_read_change(lock);
        locks.head(lock).is_some()
    });
    if awaited {
        server.locks(|locks| locks.note_cause(lock, cause));
        check_soon(server, lock);
    } else if cause != Cause::Other && !planted(Bug::KeepStreak) {
        server.locks(|locks| locks.end_streak(lock));
    }
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

/// A lock's fair list was found after a load, a slot migration or a promotion: this server cannot tell which of its entries
/// are alive.
pub fn fair_list_found<V: Server>(server: &V, lock: LockRef) {
    let _entry = entry(server);
    server.locks(|locks| locks.note_fair_uncapped(lock));
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
pub fn fair_list_changed<V: Server>(server: &V, lock: LockName<'_>, change: ListChange) {
    if !server.locks(|locks| locks.knows(lock)) {
        return;
    }
    let _entry = entry(server);
    if change == ListChange::Anywhere {
        server.locks(|locks| locks.disturb_walk(lock));
    }
    if server.locks(|locks| locks.note_fair_change(lock)) {
        check_soon(server, lock);
    }
}

/// Schedules a check of all fair lists with native waiters.
pub fn check_fair_lists<V: Server>(server: &V) {
    sweep(server, Sweep::FairLists);
}

/// Retries the changes that were deferred while a slot migrates.
pub fn retry_deferred<V: Server>(server: &V) {
    let _entry = entry(server);
    server.locks(Locks::unpark);
}

/// Schedules a check of some locks with waiters now; the next call continues after them.
pub fn check_some<V: Server>(server: &V) {
    let now = server.now();
    let most = server.settings().at_once.looked;
    let _entry = entry(server);
    server.locks(|locks| locks.check_some_now(now, most));
}

/// A lock may have become free without an event, as a command that only reads has seen: it is checked now.
pub fn seen_free<V: Server>(server: &V, lock: LockName<'_>) {
    let _entry = entry(server);
    check_soon(server, lock);
}

fn sweep<V: Server>(server: &V, sweep: Sweep) {
    let _entry = entry(server);
    server.locks(|locks| locks.sweep(sweep));
    continue_sweeps(server);
}

pub(crate) fn continue_sweeps<V: Server>(server: &V) {
    let (now, most) = (server.now(), server.settings().at_once.looked);
    server.locks(|locks| locks.continue_sweeps(now, most));
}
