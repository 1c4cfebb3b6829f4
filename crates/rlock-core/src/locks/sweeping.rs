//! Checks of many locks, a few locks at a time.

use std::ops::Bound;

use super::records::Records;
use super::sweep::UnderWay;
use super::{Cause, Databases, Due, Job, LockName, LockRef, Locks, Sweep};
use crate::types::UnixMs;
use crate::weight::{Taken, Weighed, take_weighed};

impl Records {
    /// The next locks for a sweep after this one, up to a weight of `most`. Only sweeps of keys and slots include locks without waiters.
    fn next_swept(&self, sweep: &Sweep, after: Option<&LockRef>, most: usize) -> Taken<LockRef> {
        let (first, one) = match sweep.databases() {
            Databases::One(db) => (Bound::Included(LockName { db, key: b"" }), Some(db)),
            Databases::All => (Bound::Unbounded, None),
        };
        let here = |lock: &LockRef| one.is_none_or(|db| db == lock.db);
        if let Sweep::Keys(..) | Sweep::Swapped { .. } | Sweep::SlotsMoved(_) = sweep {
            let from = after.map_or(first, |after| Bound::Excluded(after.name()));
            return take_weighed(most, self.from(from).map(|(lock, _)| lock).take_while(here));
        }
        take_weighed(most, self.awaited_after(after).cloned())
    }
}

impl Locks {
    /// Schedules a check of many locks for this reason.
    pub fn sweep(&mut self, sweep: Sweep) {
        let keys_of = match &sweep {
            Sweep::Keys(..) | Sweep::Swapped { .. } => Some(sweep.databases()),
            _ => None,
        };
        self.sweeps.add(sweep);
        self.agenda.change();
        if let Some(databases) = keys_of {
            self.sessions.void_ties(databases);
            self.role.begin_era();
        }
    }

    /// Continues the sweeps of [`Self::sweep`] with locks up to a weight of `most`, and schedules their check for `now`. A sweep
    /// slows down while as many locks are due as one event-loop cycle checks: a lock that becomes due later comes behind them.
    pub fn continue_sweeps(&mut self, now: UnixMs, most: usize) {
        let mut left = most.saturating_sub(self.agenda.due(now, most).weight).max(1);
        while left > 0 {
            let Some(mut at) = self.sweeps.take_next() else { return };
            let locks = self.records.next_swept(&at.sweep, at.after.as_ref(), left);
            for lock in locks.items {
                left = left.saturating_sub(self.exchange_lists(&mut at, lock.name(), left));
                if left == 0 {
                    self.sweeps.continue_later(Some(at));
                    return;
                }
                self.sweep_record(&at.sweep, lock.name(), now);
                left = left.saturating_sub(lock.weight());
                at.after = Some(lock);
            }
            self.sweeps.continue_later(Some(at).filter(|_| !locks.is_all));
        }
    }

    /// SWAPDB has moved a lock's fair list to another database, but not its waiters. Removes their entries from the list
    /// there, and those of departed owners, up to a weight of `most`. Returns the weight.
    fn exchange_lists(&mut self, at: &mut UnderWay, lock: LockName<'_>, most: usize) -> usize {
        let Sweep::Swapped { with, .. } = at.sweep else { return 0 };
        let there = LockName { db: with, key: lock.key };
        let after = at.owner.take().filter(|(of, _)| of.name() == lock).map(|(_, owner)| owner);
        let owners = take_weighed(most, self.records.listed_after(lock, after.as_deref(), most).into_iter());
        for owner in &owners.items {
            let is_listed =
                self.records.fair_waiter(lock, owner).is_some() || self.records.is_leaving(lock, owner);
            if is_listed && self.records.fair_waiter(there, owner).is_none() {
                self.note_departed(there, owner);
            }
        }
        let last = owners.items.into_iter().next_back().filter(|_| !owners.is_all);
        at.owner = last.map(|owner| (lock.to_ref(), owner));
        owners.weight
    }

    fn sweep_record(&mut self, sweep: &Sweep, lock: LockName<'_>, now: UnixMs) {
        let Some(record) = self.records.get(lock) else { return };
        let (awaited, read) = (record.queue.is_some(), self.records.read_end(lock).is_some());
        match sweep {
            Sweep::Periodic => {
                self.note_running_waits(lock);
                if self.records.note_fair_change(lock) {
                    self.check_at(lock, Some(Due::At(now)));
                }
                return;
            }
            Sweep::Keys(..) | Sweep::Swapped { .. } => {
                if read {
                    let name = self.records.shared_name(lock);
                    self.agenda.push(Job::RepairReads, name);
                }
                self.remove_void_ties(lock);
                let cause = if let Sweep::Keys(_, cause) = sweep { *cause } else { Cause::Swapped };
                if awaited { self.records.note_cause(lock, cause) } else { self.records.end_count(lock) }
            }
            Sweep::SlotsMoved(slots) if slots.has(lock.key) => self.forget_moved(lock),
            Sweep::SlotsMoved(_) => return,
            Sweep::Clock => {}
        }
        self.records.note_fair_change(lock);
        self.check_at(lock, Some(Due::At(now)));
    }

    /// A lock is on another server, with its holds and its fair list: they are forgotten. Its waiters leave when the lock is
    /// checked.
    fn forget_moved(&mut self, lock: LockName<'_>) {
        self.untie_all(lock);
        self.forget_read_end(lock);
        self.records.set_yielding(lock, None);
        self.forget_all_departed(lock);
    }
}
