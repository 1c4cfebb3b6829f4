//! What other clients and the server did to locks: each event schedules a check.

use crate::at::At;
use crate::fair;
use crate::locks::{Cause, Databases, LockName, LockRef, Locks, Sweep};
use crate::look::is_read;
use crate::node::Node;
use crate::note::Note;
use crate::port::Server;
use crate::read_leases;
use crate::settings::AtOnce;
use crate::slots::{SlotRange, SlotSet};
use crate::timing::{check_soon, entry};
use crate::tying;
use crate::weight::weigh;

/// A key was changed, deleted or renamed, or has expired: its lock is checked now if it has waiters. If it has none, a
/// lock that ended was also free for waiting Redisson clients.
pub fn key_changed<P: Server>(node: Node<'_, P>, lock: LockName<'_>, cause: Cause) {
    if !node.locks(|locks| locks.records.knows(lock) || locks.sessions.knows_end(lock)) {
        return;
    }
    let _entry = entry(node);
    node.locks(|locks| locks.records.key_changed());
    if cause != Cause::Other {
        tying::key_ended(node, lock, cause);
    }
    let awaited = node.locks(|locks| {
        locks.schedule_read_repair(lock);
        locks.records.head(lock).is_some()
    });
    if awaited {
        node.locks(|locks| locks.records.note_cause(lock, cause));
        check_soon(node, lock);
    } else if cause != Cause::Other {
        node.locks(|locks| locks.records.end_count(lock));
    }
}

/// Keys of these databases were created or removed without an event for each: schedules a check of all their locks with
/// waiters.
pub fn databases_changed<P: Server>(node: Node<'_, P>, databases: Databases, cause: Cause) {
    sweep(node, Sweep::Keys(databases, cause));
}

/// SWAPDB has exchanged the keys of two databases: schedules a check of all their locks with waiters. The waiters stay where
/// they are, but not their fair lists.
pub fn databases_swapped<P: Server>(node: Node<'_, P>, [one, other]: [i32; 2]) {
    let _entry = entry(node);
    node.locks(|locks| locks.records.key_changed());
    for (db, with) in [(one, other), (other, one)] {
        node.locks(|locks| locks.sweep(Sweep::Swapped { db, with }));
    }
    continue_sweeps(node);
}

/// The wall clock was set forward or back: schedules a check of every lock with waiters.
pub fn clock_stepped<P: Server>(node: Node<'_, P>) {
    sweep(node, Sweep::Clock);
}

/// This server has data whose owners it does not know: it has loaded a file, is promoted, or slots arrived as a whole.
pub fn data_arrived<P: Server>(node: Node<'_, P>) {
    let clock = node.port.clock();
    node.locks(|locks| locks.role.data_arrived(clock));
}

/// Another server decides about slots: they have left as a whole, or begin to arrive as a whole. Their locks are forgotten, and
/// their waiters are sent away.
pub fn slots_moved<P: Server>(node: Node<'_, P>, ranges: &[SlotRange]) {
    sweep(node, Sweep::SlotsMoved(SlotSet::of(ranges)));
}

/// Another value took the place of a lock's value: earlier holds are not tied any more, whatever the key holds now.
pub fn value_replaced<P: Server>(node: Node<'_, P>, lock: LockName<'_>) {
    if !node.locks(|locks| locks.sessions.has_ties()) {
        return;
    }
    let _entry = entry(node);
    node.locks(|locks| locks.untie_holds(lock));
}

impl<P: Server> At<'_, '_, P> {
    /// Another client has set the expiry of a key. The key may now end before the leases of readers that this server does not know.
    pub fn expiry_set(self) {
        if is_read(self.lock) {
            read_leases::meet(self.node, self.name());
        }
    }

    /// A key was restored from another server: earlier knowledge of the lock's readers does not hold.
    pub fn key_restored(self) {
        if is_read(self.lock) && self.node.port.is_primary() {
            let _entry = entry(self.node);
            self.locks(|locks, lock| locks.search_reads(lock));
        }
    }
}

/// A lease key of one of a lock's readers was restored from another server.
pub fn read_lease_restored<P: Server>(node: Node<'_, P>, lock: LockName<'_>) {
    let _entry = entry(node);
    node.locks(|locks| locks.doubt_reads(lock));
}

/// A fair list with entries was met.
pub fn fair_list_met<P: Server>(node: Node<'_, P>, lock: LockName<'_>) {
    fair::list_met(node, lock);
}

/// This server cannot tell which entries of a lock's fair list are alive: the list came from another server.
pub fn fair_list_found<P: Server>(node: Node<'_, P>, lock: LockRef) {
    let _entry = entry(node);
    node.locks(|locks| locks.note_fair_uncapped(lock));
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
pub fn fair_list_changed<P: Server>(node: Node<'_, P>, lock: LockName<'_>, change: ListChange) {
    if !node.locks(|locks| locks.records.knows(lock)) {
        return;
    }
    let _entry = entry(node);
    if change == ListChange::Anywhere {
        node.locks(|locks| locks.records.disturb_walk(lock));
    }
    if node.locks(|locks| locks.records.note_fair_change(lock)) {
        check_soon(node, lock);
    }
}

/// Schedules a check of all fair lists with native waiters, and of the channels of all waiters, and counts the time of all running
/// waits.
pub fn sweep_periodically<P: Server>(node: Node<'_, P>) {
    sweep(node, Sweep::Periodic);
    let _entry = entry(node);
    node.locks(Locks::begin_channel_round);
    check_channels(node);
}

/// Retries the changes that were deferred while a slot migrates.
pub fn retry_deferred<P: Server>(node: Node<'_, P>) {
    let _entry = entry(node);
    node.locks(Locks::unpark);
}

/// Schedules a check of some locks with waiters now; the next call continues after them.
pub fn check_some<P: Server>(node: Node<'_, P>) {
    let now = node.port.now();
    let most = node.port.settings().at_once.looked;
    let _entry = entry(node);
    node.locks(|locks| locks.check_some_now(now, most));
}

/// Some slots may have left this server without an event, with keys that stay: schedules a check of the slot for some
/// locks with waiters; the next call continues after them.
pub fn doubt_some_slots<P: Server>(node: Node<'_, P>) {
    let (now, most) = (node.port.now(), node.port.settings().at_once.looked);
    let _entry = entry(node);
    node.locks(|locks| locks.doubt_some_slots(now, most));
}

/// A lock may have become free without an event, as a command that only reads has seen: it is checked now.
pub fn seen_free<P: Server>(node: Node<'_, P>, lock: LockName<'_>) {
    let _entry = entry(node);
    check_soon(node, lock);
}

fn sweep<P: Server>(node: Node<'_, P>, sweep: Sweep) {
    let _entry = entry(node);
    node.locks(|locks| locks.records.key_changed());
    node.locks(|locks| locks.sweep(sweep));
    continue_sweeps(node);
}

/// Continues a round of checks of channels. Waiters whose channel has no subscriber at two checks in a row are removed. No message is
/// published: it would have no receiver.
pub(crate) fn check_channels<P: Server>(node: Node<'_, P>) {
    let AtOnce { looked, ended, .. } = node.port.settings().at_once;
    let (clock, mut left) = (node.port.clock(), ended);
    for _ in 0..looked {
        let Some(channel) = node.locks(|locks| locks.channels.next_channel()) else { return };
        let has_subscriber = node.port.has_subscriber(&channel);
        let gone = node.locks(|locks| locks.channel_checked(&channel, has_subscriber, clock, left));
        if !gone.is_empty() {
            node.port.note(Note::Gone(gone.len()));
        }
        left = left.saturating_sub(weigh(&gone));
        if left == 0 {
            return;
        }
    }
}

pub(crate) fn continue_sweeps<P: Server>(node: Node<'_, P>) {
    let (now, most) = (node.port.now(), node.port.settings().at_once.looked);
    node.locks(|locks| locks.continue_sweeps(now, most));
}
