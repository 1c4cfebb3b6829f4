//! What memory knows of one lock.

use std::collections::VecDeque;
use std::ops::Bound;

use super::leaving::{Leaving, Walk};
use super::reads::Reading;
use super::ties::Ties;
use super::yielding::Streak;
use super::{Grant, LockName, LockRef, Locks, Queue};
use crate::types::{MonoMs, UnixMs};

/// What memory knows of one lock. A record that is empty is removed.
#[derive(Clone, Debug, Default)]
pub(super) struct LockRecord {
    /// The waiters; gone with the last one.
    pub(super) queue: Option<Box<Queue>>,
    /// The newest grants, while nobody knows that they arrived: many where readers share the lock. They outlive the queue.
    pub(super) grants: VecDeque<Grant>,
    /// Grants whose clients disconnected before the reply.
    pub(super) revokes: VecDeque<Grant>,
    /// The native grants since waiting Redisson clients last had their chance.
    pub(super) streak: Option<Streak>,
    /// When the latest read lease ends that was granted here; `None` where no native reads any more.
    pub(super) read_ends: Option<UnixMs>,
    /// What is known of native readers, whom others may join.
    pub(super) reading: Option<Reading>,
    /// Owners that left the queue, and whose entries in the fair list have not been removed yet.
    pub(super) leaving: Option<Box<Leaving>>,
    /// How far the fair list was walked to bound the deadlines of entries that this server cannot tell alive from dead.
    pub(super) uncapped: Option<Walk>,
    /// The connections with which holds end.
    pub(super) ties: Option<Box<Ties>>,
}

impl LockRecord {
    fn is_empty(&self) -> bool {
        let Self { queue, grants, revokes, streak, read_ends, reading, leaving, uncapped, ties } = self;
        let idle = ties.is_none() && queue.is_none() && grants.is_empty() && revokes.is_empty();
        let unread = read_ends.is_none() && reading.is_none();
        idle && streak.is_none() && unread && leaving.is_none() && uncapped.is_none()
    }

    /// Whether a command on the lock must look at this record: not where the lock is only read.
    pub(super) fn is_watched(&self) -> bool {
        let awaited = self.queue.is_some() || !self.grants.is_empty() || !self.revokes.is_empty();
        awaited || self.streak.is_some() || self.leaving.is_some() || self.ties.is_some()
    }

    fn is_old_reading(&self, now: UnixMs, clock: MonoMs) -> bool {
        self.reading.as_ref().is_some_and(|reading| reading.is_old(self.read_ends, now, clock))
    }

    fn count(&self) -> Counts {
        Counts {
            awaited: self.queue.is_some().into(),
            watched: self.is_watched().into(),
            streaks: self.streak.is_some().into(),
            read_ends: self.read_ends.is_some().into(),
            reading: self.reading.is_some().into(),
            uncapped: self.uncapped.is_some().into(),
            tied: self.ties.is_some().into(),
        }
    }
}

/// In how many records there is what.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    awaited: usize,
    pub(super) watched: usize,
    pub(super) streaks: usize,
    pub(super) read_ends: usize,
    reading: usize,
    uncapped: usize,
    tied: usize,
}

impl Counts {
    fn replace(&mut self, before: Counts, after: Counts) {
        let replace =
            |sum: &mut usize, before, after| *sum = sum.saturating_sub(before).saturating_add(after);
        replace(&mut self.awaited, before.awaited, after.awaited);
        replace(&mut self.watched, before.watched, after.watched);
        replace(&mut self.streaks, before.streaks, after.streaks);
        replace(&mut self.read_ends, before.read_ends, after.read_ends);
        replace(&mut self.reading, before.reading, after.reading);
        replace(&mut self.uncapped, before.uncapped, after.uncapped);
        replace(&mut self.tied, before.tied, after.tied);
    }

    /// Whether there is anything that a primary knows better.
    pub(super) fn forgotten_by_replicas(self) -> bool {
        let read = self.read_ends > 0 || self.reading > 0;
        self.streaks > 0 || read || self.uncapped > 0 || self.tied > 0
    }
}

impl Locks {
    /// A lock's waiters.
    pub(super) fn queue(&self, lock: LockName<'_>) -> Option<&Queue> {
        self.records.get(lock)?.queue.as_deref()
    }

    /// The same, to change them.
    pub(super) fn queue_mut(&mut self, lock: LockName<'_>) -> Option<&mut Queue> {
        self.records.get_mut(lock)?.queue.as_deref_mut()
    }

    /// The lock's name as its record shares it, or a new one.
    pub(super) fn shared_name(&self, lock: LockName<'_>) -> LockRef {
        self.records.shared_name(lock).unwrap_or_else(|| lock.to_ref())
    }

    /// Changes a lock's record, which is made if there is none, and removed if it is empty then.
    pub(super) fn edit<T>(&mut self, lock: LockName<'_>, change: impl FnOnce(&mut LockRecord) -> T) -> T {
        let record = match self.records.get_mut(lock) {
            Some(record) => record,
            None => self.records.get_or_insert(lock.to_ref()),
        };
        let before = record.count();
        let result = change(record);
        let after = record.count();
        self.note_changed(lock, before, after);
        result
    }

    /// Changes a lock's record, if there is one, and removes it if it is empty then.
    pub(super) fn edit_known<T>(
        &mut self,
        lock: LockName<'_>,
        change: impl FnOnce(&mut LockRecord) -> T,
    ) -> Option<T> {
        let record = self.records.get_mut(lock)?;
        let before = record.count();
        let result = change(record);
        let after = record.count();
        self.note_changed(lock, before, after);
        Some(result)
    }

    /// A record was changed: the counts and the index follow, and an empty record goes.
    fn note_changed(&mut self, lock: LockName<'_>, before: Counts, after: Counts) {
        self.counts.replace(before, after);
        if before.awaited < after.awaited {
            self.awaited.insert(self.shared_name(lock));
        } else if before.awaited > after.awaited {
            self.awaited.remove(&self.shared_name(lock));
        }
        if self.records.get(lock).is_some_and(LockRecord::is_empty) {
            self.records.remove(lock);
        }
    }

    /// Changes all records but their queues, and removes those that are empty then.
    pub(super) fn edit_all(&mut self, mut change: impl FnMut(&mut LockRecord)) {
        let counts = &mut self.counts;
        self.records.retain(|record| {
            let before = record.count();
            change(record);
            counts.replace(before, record.count());
            !record.is_empty()
        });
    }

    /// Forgets what time has ended without an event: of `most` records, those after the last ones.
    pub fn forget_old(&mut self, now: UnixMs, clock: MonoMs, most: usize) {
        let after = self.forgotten_up_to.take();
        let start = after.as_ref().map_or(Bound::Unbounded, |after| Bound::Excluded(after.name()));
        let (mut seen, mut last, mut old) = (0_usize, None, Vec::new());
        for (lock, record) in self.records.from(start).take(most) {
            let is_old =
                record.streak.is_some_and(|streak| streak.is_old(clock)) || record.is_old_reading(now, clock);
            old.extend(is_old.then(|| lock.clone()));
            (seen, last) = (seen.saturating_add(1), Some(lock));
        }
        self.forgotten_up_to = last.filter(|_| seen == most);
        for lock in old {
            self.edit_known(lock.name(), |record| {
                record.streak = record.streak.filter(|streak| !streak.is_old(clock));
                if record.is_old_reading(now, clock) {
                    (record.read_ends, record.reading) = (None, None);
                }
            });
        }
    }
}
