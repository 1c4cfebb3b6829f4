//! Reasons to check many locks: keys that changed without an event for each, slots that are on another server, a step of the
//! clock, the ten-second check of fair lists and running waits. They are processed a few locks at a time.

use std::collections::VecDeque;
use std::ops::Bound;

use super::{Cause, Due, Job, LockName, LockRef, Locks};
use crate::slots::SlotSet;
use crate::types::UnixMs;
use crate::weight::{Taken, Weighed, take_weighed};

/// One database or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Databases {
    /// All of them.
    All,
    /// The database with this number.
    One(i32),
}

/// Why many locks must be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// Keys of these databases were created or removed without an event for each.
    Keys(Databases, Cause),
    /// SWAPDB: the keys of this database were exchanged with those of another one.
    Swapped {
        /// The database whose locks are swept.
        db: i32,
        /// The database where its keys are now.
        with: i32,
    },
    /// The locks in these slots are on another server.
    SlotsMoved(SlotSet),
    /// The wall clock was set forward or back.
    Clock,
    /// Ten seconds have gone by: fair lists may have changed without an event, and waiters have waited.
    Periodic,
}

/// The sweeps that are under way or to come, none of them twice: one that is asked for again while it is under way is
/// done once more after that, so that each lock comes up however often it is asked for. All slots that are elsewhere are one sweep.
#[derive(Clone, Debug, Default)]
pub(super) struct Sweeps {
    under_way: Option<UnderWay>,
    to_come: VecDeque<Sweep>,
}

/// A sweep, and how far it is.
#[derive(Clone, Debug)]
struct UnderWay {
    sweep: Sweep,
    /// The lock that was swept last.
    after: Option<LockRef>,
    /// SWAPDB: the lock whose owners are leaving its fair list, and the last of them.
    owner: Option<(LockRef, Box<[u8]>)>,
}

/// From this number of sweeps on, a SWAPDB that is still to come is not planned again: each exchange moves entries on, but a
/// client must not fill the memory.
const MANY: usize = 64;

impl Sweeps {
    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_none() && self.to_come.is_empty()
    }

    fn add(&mut self, sweep: Sweep) {
        match sweep {
            Sweep::SlotsMoved(slots) => match self.to_come.iter_mut().find_map(Sweep::slots) {
                Some(others) => others.add(&slots),
                None => self.to_come.push_back(Sweep::SlotsMoved(slots)),
            },
            sweep if self.is_planned(&sweep) => {}
            sweep => self.to_come.push_back(sweep),
        }
    }

    fn is_planned(&self, sweep: &Sweep) -> bool {
        let moves_on = matches!(sweep, Sweep::Swapped { .. }) && self.to_come.len() < MANY;
        // The two sweeps of the last SWAPDB, whose databases were exchanged once more before they began.
        let last = self.to_come.iter().rev().take(2);
        if moves_on { last.into_iter().any(|last| last == sweep) } else { self.to_come.contains(sweep) }
    }

    fn all(&self) -> impl Iterator<Item = &Sweep> {
        self.under_way.as_ref().map(|at| &at.sweep).into_iter().chain(&self.to_come)
    }

    /// Where it is, for the model checker: the lock that was swept last.
    pub(super) fn position(&self, number: &dyn Fn(LockName<'_>) -> i64) -> [i64; 3] {
        let last = self.under_way.as_ref().and_then(|at| at.after.as_ref());
        let to_come = i64::try_from(self.to_come.len()).unwrap_or(i64::MAX);
        [self.under_way.is_some().into(), last.map_or(-1, |last| number(last.name())), to_come]
    }
}

impl Sweep {
    fn slots(&mut self) -> Option<&mut SlotSet> {
        match self {
            Self::SlotsMoved(slots) => Some(slots),
            Self::Keys(..) | Self::Swapped { .. } | Self::Clock | Self::Periodic => None,
        }
    }

    fn databases(&self) -> Databases {
        match self {
            Self::Keys(databases, _) => *databases,
            Self::Swapped { db, .. } => Databases::One(*db),
            Self::SlotsMoved(_) | Self::Clock | Self::Periodic => Databases::All,
        }
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
            self.void_ties(databases);
            self.begin_era();
        }
    }

    /// Continues the sweeps of [`Self::sweep`] with locks that count `most`, and schedules their check for `now`. A sweep slows
    /// down while as many locks are due as one event-loop cycle checks: a lock that becomes due later comes behind them.
    pub fn continue_sweeps(&mut self, now: UnixMs, most: usize) {
        let mut left = most.saturating_sub(self.count_due(now, most)).max(1);
        while left > 0 {
            let Sweeps { under_way, to_come } = &mut self.sweeps;
            let next = || to_come.pop_front().map(|sweep| UnderWay { sweep, after: None, owner: None });
            let Some(mut at) = under_way.take().or_else(next) else { return };
            let locks = self.next_swept(&at.sweep, at.after.as_ref(), left);
            for lock in locks.items {
                left = left.saturating_sub(self.exchange_lists(&mut at, lock.name(), left));
                if left == 0 {
                    self.sweeps.under_way = Some(at);
                    return;
                }
                self.sweep_record(&at.sweep, lock.name(), now);
                left = left.saturating_sub(lock.weight());
                at.after = Some(lock);
            }
            self.sweeps.under_way = Some(at).filter(|_| !locks.is_all);
        }
    }

    /// SWAPDB has moved a lock's fair list to another database, but not its waiters: their entries leave the list there, until
    /// they count `most`, and so do those of owners that had left. Returns what they count.
    fn exchange_lists(&mut self, at: &mut UnderWay, lock: LockName<'_>, most: usize) -> usize {
        let Sweep::Swapped { with, .. } = at.sweep else { return 0 };
        let there = LockName { db: with, key: lock.key };
        let after = at.owner.take().filter(|(of, _)| of.name() == lock).map(|(_, owner)| owner);
        let owners = take_weighed(most, self.listed_after(lock, after.as_deref(), most).into_iter());
        for owner in &owners.items {
            let is_listed = self.fair_waiter(lock, owner).is_some() || self.is_leaving(lock, owner);
            if is_listed && self.fair_waiter(there, owner).is_none() {
                self.note_departed(there, owner);
            }
        }
        let last = owners.items.into_iter().next_back().filter(|_| !owners.is_all);
        at.owner = last.map(|owner| (lock.to_ref(), owner));
        owners.weight
    }

    /// Whether fair lists may be in another database than their waiters.
    pub fn exchanges_lists(&self) -> bool {
        self.sweeps.all().any(|sweep| matches!(sweep, Sweep::Swapped { .. }))
    }

    /// The databases to which SWAPDB has moved the keys of this one, and whose locks were not swept since.
    pub(super) fn exchanged_with(&self, db: i32) -> Vec<i32> {
        let with = |sweep: &Sweep| match sweep {
            Sweep::Swapped { db: swept, with } if *swept == db => Some(*with),
            _ => None,
        };
        self.sweeps.all().filter_map(with).collect()
    }

    /// The next locks for a sweep after this one, until they count `most`: only keys and slots concern locks that have no waiters.
    fn next_swept(&self, sweep: &Sweep, after: Option<&LockRef>, most: usize) -> Taken<LockRef> {
        let (first, one) = match sweep.databases() {
            Databases::One(db) => (Bound::Included(LockName { db, key: b"" }), Some(db)),
            Databases::All => (Bound::Unbounded, None),
        };
        let here = |lock: &LockRef| one.is_none_or(|db| db == lock.db);
        if let Sweep::Keys(..) | Sweep::Swapped { .. } | Sweep::SlotsMoved(_) = sweep {
            let from = after.map_or(first, |after| Bound::Excluded(after.name()));
            return take_weighed(most, self.records.from(from).map(|(lock, _)| lock).take_while(here));
        }
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        take_weighed(most, self.awaited.range::<LockRef, _>((from, Bound::Unbounded)).cloned())
    }

    fn sweep_record(&mut self, sweep: &Sweep, lock: LockName<'_>, now: UnixMs) {
        let Some(record) = self.records.get(lock) else { return };
        let (awaited, read) = (record.queue.is_some(), self.read_end(lock).is_some());
        match sweep {
            Sweep::Periodic => {
                self.note_running_waits(lock);
                if self.note_fair_change(lock) {
                    self.check_at(lock, Some(Due::At(now)));
                }
                return;
            }
            Sweep::Keys(..) | Sweep::Swapped { .. } => {
                if read {
                    let name = self.shared_name(lock);
                    self.agenda.push(Job::RepairReads, name);
                }
                self.remove_void_ties(lock);
                let cause = if let Sweep::Keys(_, cause) = sweep { *cause } else { Cause::Swapped };
                if awaited { self.note_cause(lock, cause) } else { self.end_count(lock) }
            }
            Sweep::SlotsMoved(slots) if slots.has(lock.key) => self.forget_moved(lock),
            Sweep::SlotsMoved(_) => return,
            Sweep::Clock => {}
        }
        self.note_fair_change(lock);
        self.check_at(lock, Some(Due::At(now)));
    }

    /// A lock is on another server, with its holds and its fair list: they are forgotten. Its waiters leave when the lock is
    /// checked.
    fn forget_moved(&mut self, lock: LockName<'_>) {
        self.untie_all(lock);
        self.forget_read_end(lock);
        self.set_yielding(lock, None);
        self.forget_all_departed(lock);
    }
}
