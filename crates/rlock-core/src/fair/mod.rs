//! FAIR: one order for native waiters and the waiters for Redisson's fair lock of the same name.
//!
//! Redisson keeps its order in a list of owners and a sorted set of their deadlines, after which a waiter counts as
//! dead. Its scripts drop heads whose deadline has passed by a client's clock, and lower the deadlines of other entries.
//! Native waiters are known in memory, and have entries in the list too. If a script drops a native waiter, the module
//! puts it back; the module also keeps the deadline of a native waiter at the head far ahead. The module cannot know
//! whether a Redisson waiter is alive: at the head of a free lock it is called, and keeps its turn for a limited time.

pub(crate) mod due;

mod departed;
mod repair;

use crate::access::Access;
use crate::at::At;
use crate::locks::{LockName, Waiter, Walked};
use crate::look::key_end;
use crate::node::Node;
use crate::port::{FairList, Lock, Server};
use crate::timing::entry;
use crate::turn::Turn;
use crate::types::{Expiry, LeaseMs, UnixMs, WaitMs};
use crate::weight::weigh;

/// How far ahead the deadline of a native waiter at the head is kept at least, in ms: clients' clocks differ.
const AHEAD_MS: i64 = 5 * 60_000;

/// The longest wait that is counted in a deadline, Redisson's own default: native waiters are kept alive while they
/// wait.
const LONGEST_BUDGET_MS: i64 = AHEAD_MS;

/// Whose turn it is.
pub(crate) enum Next {
    /// A native waiter.
    Waiter(Waiter),
    /// A Redisson waiter, which was called.
    Redisson,
    /// More entries of departed owners stand before it than are removed at once.
    Later,
    /// No waiter.
    Nobody,
}

/// Notes a fair list with entries. When the list is met for the first time, and has entries from before a start or a
/// promotion, their deadlines get an upper bound.
pub(crate) fn list_met<P: Server>(node: Node<'_, P>, lock: LockName<'_>) {
    let clock = node.port.clock();
    if node.locks(|locks| locks.doubts_fair_list(lock, clock)) {
        let _entry = entry(node);
        node.locks(|locks| locks.note_fair_uncapped(lock.to_ref()));
    }
}

/// The time that a wait adds to the deadline of the waiter before it.
fn budget(wait: WaitMs) -> LeaseMs {
    let asked = i64::try_from(wait.ms()).ok().filter(|ms| *ms > 0);
    let budget = asked.map_or(LONGEST_BUDGET_MS, |ms| ms.min(LONGEST_BUDGET_MS));
    LeaseMs::new(budget).unwrap_or(LeaseMs::SHORTEST)
}

impl<P: Server> Turn<'_, '_, P> {
    /// Whose turn it is at a lock that is free. A Redisson waiter that has its turn is called.
    pub(crate) fn call_next(&mut self) -> Next {
        // Otherwise departed owners would count as Redisson waiters, and would have a turn.
        self.at.remove_departed_heads();
        let Some(head) = self.at.locks(|locks, lock| locks.records.head(lock).cloned()) else {
            return Next::Nobody;
        };
        if !head.fair {
            return Next::Waiter(head);
        }
        // A Redisson waiter is not called to a lock that readers have just acquired: it would lose its place.
        if self.access(&head.owner, head.wanted) != Access::Free {
            return Next::Waiter(head);
        }
        self.at.repair_fair_list(self.now);
        match self.at.call_first_in_list(self.now, None) {
            ListHead::Native(waiter) => Next::Waiter(waiter),
            ListHead::Redisson => Next::Redisson,
            ListHead::InDoubt => Next::Later,
            ListHead::Nobody => Next::Waiter(head),
        }
    }

    /// Calls the first in the fair list of a free lock if this owner is not the first. Returns whether another owner is ahead.
    pub(crate) fn call_first_ahead_of(&self, owner: &[u8]) -> bool {
        self.at.remove_departed_heads();
        !matches!(self.at.call_first_in_list(self.now, Some(owner)), ListHead::Nobody)
    }
}

/// The first in the fair list of a free lock.
enum ListHead {
    /// A native waiter.
    Native(Waiter),
    /// A Redisson waiter: it has its turn, and was called.
    Redisson,
    /// More entries of departed owners, or expired ones, stand before it than one command removes.
    InDoubt,
    /// No living entry, or the asking owner.
    Nobody,
}

impl<P: Server> At<'_, '_, P> {
    /// A caller passes FAIR: the list may have entries of owners that are gone.
    pub(crate) fn meet_fair_list(&self) {
        if self.node.locks(|locks| locks.role.doubts_fair_lists()) && self.lock.fair_list().head().is_some() {
            list_met(self.node, self.name());
        }
    }

    /// Finds the first living entry of the fair list, calls it if it is a Redisson waiter, and removes the expired ones before it.
    /// The list may hold fifty thousand of these: one call removes a bounded number of them.
    fn call_first_in_list(&self, now: UnixMs, asking: Option<&[u8]>) -> ListHead {
        let most = self.node.port.settings().at_once.listed;
        let mut removed = 0_usize;
        while let Some(entry) = self.lock.fair_list().head().filter(|entry| asking != Some(&*entry.owner)) {
            if self.locks(|locks, lock| locks.records.is_leaving(lock, &entry.owner)) {
                return ListHead::InDoubt;
            }
            if let Some(waiter) =
                self.locks(|locks, lock| locks.records.fair_waiter(lock, &entry.owner).cloned())
            {
                return ListHead::Native(waiter);
            }
            if let Some(deadline) = entry.deadline.filter(|deadline| *deadline > now) {
                self.give_turn(&entry.owner, deadline, now);
                return ListHead::Redisson;
            }
            if removed >= most {
                return ListHead::InDoubt;
            }
            let expired = |owner: &[u8]| {
                let other = asking != Some(owner) && !self.knows_fair_owner(owner);
                other && self.lock.fair_list().deadline(owner).is_none_or(|deadline| deadline <= now)
            };
            let gone = self.lock.fair_list().pop(most.saturating_sub(removed), &expired);
            if gone.is_empty() {
                // The server does not let them be removed.
                return ListHead::Nobody;
            }
            removed = removed.saturating_add(weigh(&gone)).saturating_add(self.remove_departed_heads());
        }
        ListHead::Nobody
    }

    /// A living Redisson waiter is first at a free lock: it is called the first time, and its turn is bounded.
    fn give_turn(&self, owner: &[u8], deadline: UnixMs, now: UnixMs) {
        let latest = now.after(self.node.port.settings().fair_turn);
        let far = deadline > latest;
        if far {
            self.lock.fair_list().set_deadline(owner, latest);
        }
        let is_first_call = self.locks(|locks, lock| locks.records.note_called(lock, owner));
        if is_first_call || far {
            self.lock.fair_list().call(owner);
        }
    }

    /// When the turn of a Redisson waiter at a free lock ends; `None` if it was not called yet, or a native waiter is
    /// next.
    pub(crate) fn fair_turn_ends(&self) -> Option<UnixMs> {
        if !self.locks(|locks, lock| locks.records.head(lock).is_some_and(|head| head.fair)) {
            return None;
        }
        let entry = self.lock.fair_list().head()?;
        let called = self.locks(|locks, lock| {
            locks.records.fair_waiter(lock, &entry.owner).is_none()
                && locks.records.was_called(lock, &entry.owner)
        });
        entry.deadline.filter(|_| called)
    }

    /// An owner is about to wait with FAIR. If it has left the queue a moment ago, and its entry has not left the list yet,
    /// it keeps its place.
    pub(crate) fn rejoin_fair_list(&self, owner: &[u8]) {
        if !self.locks(|locks, lock| locks.has_leaving(lock)) {
            return;
        }
        if self.locks(|locks, lock| locks.records.is_leaving(lock, owner)) {
            if !self.lock.fair_list().has(owner) {
                self.locks(|locks, lock| locks.forget_departed(lock, owner));
            }
        } else if self.locks(|locks, lock| locks.forget_departed(lock, owner)).is_some() {
            // Its entry is gone: it comes to the end of the list.
            self.lock.fair_list().forget(&[owner.into()]);
        }
    }

    /// Bounds the deadlines of entries in the list that this server cannot tell alive from dead: their owners waited at the
    /// previous primary, or at this server before its restart. Each counts as gone five minutes after the lock's lease at
    /// the latest, and one turn later than the one before it. `passed` entries at the end of the list were seen before.
    fn cap_deadlines(&mut self, passed: usize, now: UnixMs) -> Walked {
        let settings = self.node.port.settings();
        let lease_ends = match key_end(self.lock) {
            Expiry::At(at) => at.max(now),
            Expiry::Never => now,
        };
        let latest = |place: usize, owner: &[u8]| {
            let turns = i64::try_from(place).unwrap_or(i64::MAX).saturating_mul(settings.fair_turn.get());
            let latest = UnixMs(lease_ends.0.saturating_add(AHEAD_MS).saturating_add(turns));
            let is_native = self.locks(|locks, lock| locks.records.fair_waiter(lock, owner).is_some());
            (!is_native).then_some(latest)
        };
        self.lock.fair_list().lower(passed, settings.at_once.listed, &latest)
    }
}
