//! What other clients and the server did to locks: each event schedules a check.

use crate::bugs::{Bug, planted};
use crate::port::Server;
use crate::queue::{Cause, Databases, LockId, Queues, Sweep};
use crate::timing::{arm_timer, check_soon};

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

fn sweep<V: Server>(server: &V, sweep: Sweep) {
    server.queues(|queues| queues.sweep(sweep));
    continue_sweeps(server);
    arm_timer(server);
}

pub(crate) fn continue_sweeps<V: Server>(server: &V) {
    let (now, most) = (server.now(), server.settings().at_once.looked);
    server.queues(|queues| queues.continue_sweeps(now, most));
}
