//! Changes that a fair list needs: dropped native waiters return to its head, and a native waiter at its head is kept alive.

use super::{AHEAD_MS, budget};
use crate::at::At;
use crate::facts::FairEntry;
use crate::port::{FairList, Lock, Server};
use crate::types::{UnixMs, WaitMs};

/// How far ahead the module sets the deadline of a head, in ms: not every check must set it again.
const SET_AHEAD_MS: i64 = AHEAD_MS + 60_000;

impl<P: Server> At<'_, '_, P> {
    /// Puts native waiters back that another client has dropped from the fair list, and keeps the deadline of a native waiter at
    /// its head far ahead. Writing must be allowed.
    ///
    /// Fifty thousand may have been dropped, so one call looks for a bounded number, and only for those before the first
    /// that is in the list: an owner behind it would be put before it. The others keep their turns: the first waiter in the
    /// queue is looked for before it is passed over, and goes to the head of the list if the list lacks it.
    pub(crate) fn repair_fair_list(&self, now: UnixMs) {
        let owners = self.fair_owners_to_check();
        // Before the list is read: a later notification is about another change.
        self.locks(|locks, lock| locks.records.fair_list_checked(lock));
        if let Some(repair) = self.needed_repair(&owners, now) {
            repair.write(self.lock, now);
        }
    }

    /// Repairs the list before a waiter joins, if another client may have changed it. An owner that was dropped and asks again
    /// keeps its place.
    pub(crate) fn repair_changed_fair_list(&self) {
        if self.locks(|locks, lock| locks.records.fair_has_changed(lock)) {
            self.repair_fair_list(self.node.port.now());
        }
    }

    /// Whether a lock's fair list needs a change: this writes nothing.
    pub(crate) fn fair_list_needs_repair(&self, now: UnixMs) -> bool {
        self.needed_repair(&self.fair_owners_to_check(), now).is_some()
    }

    fn fair_owners_to_check(&self) -> Vec<Box<[u8]>> {
        let most = self.node.port.settings().at_once.listed;
        self.locks(|locks, lock| locks.records.fair_to_check(lock, most))
    }

    /// A native waiter joins the list. If it becomes the head, its deadline is far ahead at once: the next Redisson
    /// client may have a clock that is some minutes ahead.
    pub(crate) fn join_fair_list(&self, owner: &[u8], wait: WaitMs) {
        self.lock.fair_list().join(owner, budget(wait));
        let now = self.node.port.now();
        let head = self.lock.fair_list().head().filter(|head| *head.owner == *owner);
        if let Some(repair) = head.and_then(|head| self.keep_alive(head, now)) {
            repair.write(self.lock, now);
        }
    }

    /// The change that a lock's fair list needs, if it does, after a look for these native waiters.
    fn needed_repair(&self, owners: &[Box<[u8]>], now: UnixMs) -> Option<Repair> {
        let head = self.lock.fair_list().head();
        let at_head = |owner: &[u8]| head.as_ref().is_some_and(|head| *head.owner == *owner);
        let is_listed = owners.len() == 1 && owners.first().is_some_and(|owner| at_head(owner));
        if !is_listed {
            let missing = self.lock.fair_list().missing(owners, self.node.port.settings().at_once.listed);
            if !missing.is_empty() {
                return Some(Repair::PutBack(missing));
            }
        }
        self.keep_alive(head?, now)
    }

    /// The change that keeps the head of a list alive, if it is a native waiter whose deadline is near.
    fn keep_alive(&self, head: FairEntry, now: UnixMs) -> Option<Repair> {
        let is_native = self.locks(|locks, lock| locks.records.fair_waiter(lock, &head.owner).is_some());
        let near = head.deadline.is_none_or(|deadline| deadline.0 < now.0.saturating_add(AHEAD_MS));
        (is_native && near).then_some(Repair::KeepAlive(head.owner))
    }
}

/// A change that a fair list needs.
enum Repair {
    /// These native waiters go back to its head.
    PutBack(Vec<Box<[u8]>>),
    /// The deadline of the native waiter at its head is moved far ahead.
    KeepAlive(Box<[u8]>),
}

impl Repair {
    /// Writes the change. Writing must be allowed.
    fn write<L: Lock>(&self, lock: &L, now: UnixMs) {
        match self {
            Self::PutBack(owners) => put_back(lock, owners, now),
            Self::KeepAlive(owner) => lock.fair_list().set_deadline(owner, far_ahead(now)),
        }
    }
}

fn put_back<L: Lock>(lock: &L, dropped: &[Box<[u8]>], now: UnixMs) {
    // Scripts drop heads only: the dropped owners stood before all others.
    lock.fair_list().put_back(dropped, far_ahead(now));
}

fn far_ahead(now: UnixMs) -> UnixMs {
    UnixMs(now.0.saturating_add(SET_AHEAD_MS))
}
