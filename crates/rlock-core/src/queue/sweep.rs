//! Reasons to check many locks: keys that changed without an event for each, a step of the clock, the slow check of fair
//! lists. They are processed a few locks at a time.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use super::{Cause, LockId, Queues};
use crate::types::UnixMs;

/// One database or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Databases {
    /// All of them.
    All,
    /// The database with this number.
    One(i32),
}

/// Why many locks must be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// Keys of these databases were created or removed without an event for each.
    Keys(Databases, Cause),
    /// The wall clock was set forward or back.
    Clock,
    /// Fair lists may have changed without an event.
    FairLists,
}

/// What is to be gone through, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// The streaks of locks that nobody waits for.
    #[default]
    Streaks,
    /// Locks that natives read.
    Reads,
    /// Locks with waiters.
    Queues,
}

/// The sweeps that are under way or to come, none of them twice: one that is asked for again while it is under way is
/// done once more after that, so that each lock comes up however often it is asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Sweeps {
    under_way: Option<(Sweep, Stage, Option<LockId>)>,
    to_come: VecDeque<Sweep>,
}

impl Sweeps {
    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_none() && self.to_come.is_empty()
    }

    /// Where it is, for the model checker.
    pub(super) fn position(&self) -> [i64; 2] {
        let stage = self.under_way.as_ref().map_or(-1, |(_, stage, _)| *stage as i64);
        [stage, i64::try_from(self.to_come.len()).unwrap_or(i64::MAX)]
    }
}

impl Sweep {
    fn databases(self) -> Databases {
        match self {
            Self::Keys(databases, _) => databases,
            Self::Clock | Self::FairLists => Databases::All,
        }
    }

    fn first(self) -> Stage {
        if matches!(self, Self::Keys(..)) { Stage::Streaks } else { Stage::Queues }
    }
}

/// The next of these locks that are meant, at most `most`, after the one that was last, and whether they were the last ones.
fn next_of<K, V>(
    locks: &BTreeMap<K, V>,
    databases: Databases,
    after: Option<LockId>,
    most: usize,
    is_meant: impl Fn(&V) -> bool,
) -> (Vec<LockId>, bool)
where
    K: Ord + std::borrow::Borrow<LockId>,
{
    let first = match databases {
        Databases::One(db) => Some(LockId { db, key: Box::default() }),
        Databases::All => None,
    };
    let from = match (&after, &first) {
        (Some(after), _) => Bound::Excluded(after),
        (None, Some(first)) => Bound::Included(first),
        (None, None) => Bound::Unbounded,
    };
    let is_in = |lock: &LockId| first.as_ref().is_none_or(|first| first.db == lock.db);
    let here =
        locks.range::<LockId, _>((from, Bound::Unbounded)).take_while(|(lock, _)| is_in((*lock).borrow()));
    let some = here.filter(|(_, value)| is_meant(value)).map(|(lock, _)| lock.borrow().clone());
    let some: Vec<_> = some.take(most).collect();
    let done = some.len() < most;
    (some, done)
}

impl Queues {
    /// Schedules a check of many locks for this reason.
    pub fn sweep(&mut self, sweep: Sweep) {
        if !self.sweeps.to_come.contains(&sweep) {
            self.sweeps.to_come.push_back(sweep);
        }
        if matches!(sweep, Sweep::Keys(..)) {
            self.disturb_all_walks();
        }
    }

    /// Continues the sweeps of [`Self::sweep`] with `most` locks at most, and schedules their check for `now`. A sweep slows
    /// down while as many locks are due as one event-loop cycle checks: a lock that becomes due later comes behind them.
    pub fn continue_sweeps(&mut self, now: UnixMs, most: usize) {
        let mut left = most.saturating_sub(self.count_due(now, most)).max(1);
        while left > 0 {
            let Sweeps { under_way, to_come } = &mut self.sweeps;
            let next = || to_come.pop_front().map(|sweep| (sweep, sweep.first(), None));
            let Some((sweep, stage, after)) = under_way.take().or_else(next) else { return };
            let databases = sweep.databases();
            let (locks, done) = match stage {
                Stage::Streaks => next_of(&self.streaks, databases, after, left, |_| true),
                Stage::Reads => next_of(&self.reading, databases, after, left, |_| true),
                Stage::Queues => {
                    next_of(&self.records, databases, after, left, |record| record.queue.is_some())
                }
            };
            left = left.saturating_sub(locks.len());
            let last = locks.last().cloned();
            locks.into_iter().for_each(|lock| self.sweep_lock(sweep, stage, lock, now));
            self.sweeps.under_way = match (done, stage) {
                (false, _) => Some((sweep, stage, last)),
                (true, Stage::Streaks) => Some((sweep, Stage::Reads, None)),
                (true, Stage::Reads) => Some((sweep, Stage::Queues, None)),
                (true, Stage::Queues) => None,
            };
        }
    }

    fn sweep_lock(&mut self, sweep: Sweep, stage: Stage, lock: LockId, now: UnixMs) {
        match (stage, sweep) {
            (Stage::Streaks, _) => {
                if self.queue(&lock).is_none() {
                    self.end_streak(&lock);
                }
            }
            (Stage::Reads, _) => {
                self.read_changed.insert(lock);
            }
            (Stage::Queues, Sweep::FairLists) => {
                if self.note_fair_change(&lock) {
                    self.check_at(&lock, Some(now));
                }
            }
            (Stage::Queues, _) => {
                if let Sweep::Keys(_, cause) = sweep {
                    self.note_cause(&lock, cause);
                }
                self.note_fair_change(&lock);
                self.check_at(&lock, Some(now));
            }
        }
    }
}
