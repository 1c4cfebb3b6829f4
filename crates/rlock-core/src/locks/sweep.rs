//! Reasons to check many locks: keys that changed without an event for each, slots that are on another server, a step of the
//! clock, the ten-second check of fair lists and running waits. They are processed a few locks at a time.

use std::collections::VecDeque;
use std::ops::Bound;

use super::{Cause, Due, Job, LockName, LockRef, Locks};
use crate::slots::SlotSet;
use crate::types::UnixMs;
use crate::weight::{Taken, take_weighed};

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
    /// The locks in these slots are on another server.
    Elsewhere(SlotSet),
    /// The wall clock was set forward or back.
    Clock,
    /// Ten seconds have gone by: fair lists may have changed without an event, and waiters have waited.
    Periodic,
}

/// The sweeps that are under way or to come, none of them twice: one that is asked for again while it is under way is
/// done once more after that, so that each lock comes up however often it is asked for. All slots that are elsewhere are one sweep.
#[derive(Clone, Debug, Default)]
pub(super) struct Sweeps {
    under_way: Option<(Sweep, Option<LockRef>)>,
    to_come: VecDeque<Sweep>,
}

impl Sweeps {
    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_none() && self.to_come.is_empty()
    }

    fn add(&mut self, sweep: Sweep) {
        match sweep {
            Sweep::Elsewhere(slots) => match self.to_come.iter_mut().find_map(Sweep::slots) {
                Some(others) => others.add(&slots),
                None => self.to_come.push_back(Sweep::Elsewhere(slots)),
            },
            sweep if self.to_come.contains(&sweep) => {}
            sweep => self.to_come.push_back(sweep),
        }
    }

    /// Where it is, for the model checker: the lock that was swept last.
    pub(super) fn position(&self, number: &dyn Fn(LockName<'_>) -> i64) -> [i64; 3] {
        let last = self.under_way.as_ref().and_then(|(_, last)| last.as_ref());
        let to_come = i64::try_from(self.to_come.len()).unwrap_or(i64::MAX);
        [self.under_way.is_some().into(), last.map_or(-1, |last| number(last.name())), to_come]
    }
}

impl Sweep {
    fn slots(&mut self) -> Option<&mut SlotSet> {
        match self {
            Self::Elsewhere(slots) => Some(slots),
            Self::Keys(..) | Self::Clock | Self::Periodic => None,
        }
    }

    fn databases(&self) -> Databases {
        match self {
            Self::Keys(databases, _) => *databases,
            Self::Elsewhere(_) | Self::Clock | Self::Periodic => Databases::All,
        }
    }
}

impl Locks {
    /// Schedules a check of many locks for this reason.
    pub fn sweep(&mut self, sweep: Sweep) {
        let keys_of = match &sweep {
            Sweep::Keys(databases, _) => Some(*databases),
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
            let next = || to_come.pop_front().map(|sweep| (sweep, None));
            let Some((sweep, after)) = under_way.take().or_else(next) else { return };
            let locks = self.next_swept(&sweep, after, left);
            left = left.saturating_sub(locks.weight);
            for lock in &locks.items {
                self.sweep_record(&sweep, lock.name(), now);
            }
            let last = locks.items.last().filter(|_| !locks.is_all).cloned();
            self.sweeps.under_way = last.map(|last| (sweep, Some(last)));
        }
    }

    /// The next locks for a sweep after this one, until they count `most`: only keys and slots concern locks that have no waiters.
    fn next_swept(&self, sweep: &Sweep, after: Option<LockRef>, most: usize) -> Taken<LockRef> {
        let (first, one) = match sweep.databases() {
            Databases::One(db) => (Bound::Included(LockName { db, key: b"" }), Some(db)),
            Databases::All => (Bound::Unbounded, None),
        };
        let here = |lock: &LockRef| one.is_none_or(|db| db == lock.db);
        if let Sweep::Keys(..) | Sweep::Elsewhere(_) = sweep {
            let from = after.as_ref().map_or(first, |after| Bound::Excluded(after.name()));
            return take_weighed(most, self.records.from(from).map(|(lock, _)| lock).take_while(here));
        }
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        take_weighed(most, self.awaited.range((from, Bound::Unbounded)).cloned())
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
            Sweep::Keys(_, cause) => {
                if read {
                    let name = self.shared_name(lock);
                    self.agenda.push(Job::RepairReads, name);
                }
                self.remove_void_ties(lock);
                if awaited { self.note_cause(lock, *cause) } else { self.end_count(lock) }
            }
            Sweep::Elsewhere(slots) if slots.has(lock.key) => self.forget_elsewhere(lock),
            Sweep::Elsewhere(_) => return,
            Sweep::Clock => {}
        }
        self.note_fair_change(lock);
        self.check_at(lock, Some(Due::At(now)));
    }

    /// A lock is on another server, with its holds and its fair list: they are forgotten. Its waiters leave when the lock is
    /// checked.
    fn forget_elsewhere(&mut self, lock: LockName<'_>) {
        self.untie_all(lock);
        self.forget_read_end(lock);
        self.set_yielding(lock, None);
        self.forget_all_departed(lock);
    }
}
