//! What memory knows of one lock.

use std::collections::VecDeque;
use std::ops::Bound;

use super::found::FoundReads;
use super::leaving::{Leaving, Walk};
use super::ties::Ties;
use super::{Grant, LockName, LockRef, Locks, Queue, Yielding};
use crate::types::{Mode, MonoMs, UnixMs};
use crate::weight::Weighed;

/// What memory knows of one lock. A record that is empty is removed.
#[derive(Clone, Debug, Default)]
pub(super) struct LockRecord {
    /// The waiters; gone with the last one.
    pub(super) queue: Option<Box<Queue>>,
    /// The newest grants that may not have arrived yet: many where readers share the lock. They outlive the queue.
    pub(super) grants: VecDeque<Grant>,
    /// Grants whose clients disconnected before the reply.
    pub(super) revokes: VecDeque<Grant>,
    /// How the lock yields to Redisson clients; outlives the queue.
    pub(super) yielding: Option<Yielding>,
    /// When the latest read lease ends that was granted here; `None` where no native reads any more.
    pub(super) read_ends: Option<UnixMs>,
    /// What is known of other read leases.
    pub(super) found_reads: Option<FoundReads>,
    /// Owners that left the queue, and whose entries in the fair list have not been removed yet.
    pub(super) leaving: Option<Box<Leaving>>,
    /// How far the fair list was walked to bound the deadlines of entries that this server cannot tell alive from dead.
    pub(super) uncapped: Option<Walk>,
    /// Whether that was done, while the lists of other locks may still have unbounded entries.
    pub(super) is_capped: bool,
    /// The connections with which holds end.
    pub(super) ties: Option<Box<Ties>>,
    /// The term of this server in which the record was last changed: see [`Locks::known`].
    pub(super) term: u64,
}

impl LockRecord {
    fn is_empty(&self) -> bool {
        let Self { queue, grants, revokes, yielding, read_ends, found_reads, .. } = self;
        let Self { leaving, uncapped, is_capped, ties, .. } = self;
        let idle = ties.is_none() && queue.is_none() && grants.is_empty() && revokes.is_empty();
        let unread = read_ends.is_none() && found_reads.is_none();
        let unlisted = leaving.is_none() && uncapped.is_none() && !is_capped;
        idle && yielding.is_none() && unread && unlisted
    }

    /// Whether a command on the lock must check this record: not where the lock is only read, which ends its count by
    /// itself.
    pub(super) fn is_watched(&self, term: u64) -> bool {
        let Counts { watched, known, .. } = self.count(term);
        watched > 0 || known > 0
    }

    /// The last waiter has left, which wanted the lock in this mode.
    pub(super) fn end_queue(&mut self, mode: Mode) {
        self.queue = None;
        self.yielding = self.yielding.and_then(|yielding| yielding.left_by_last_waiter(mode));
    }

    /// The state that time has not ended without an event. A lock with waiters is served, which decides about its
    /// yielding.
    fn kept(&self, now: UnixMs, clock: MonoMs) -> (Option<Yielding>, Option<UnixMs>) {
        let is_kept = |state: &Yielding| self.queue.is_some() || !state.is_old(self.read_ends, now, clock);
        let yielding = self.yielding.filter(is_kept);
        let drains = matches!(yielding, Some(Yielding::Draining { .. }));
        (yielding, self.read_ends.filter(|ends| drains || *ends >= now))
    }

    /// The latest known end of a read lease.
    pub(super) fn read_end(&self) -> Option<UnixMs> {
        self.read_ends.max(self.found_reads.as_ref().and_then(|found| found.ends))
    }

    fn is_old_found(&self, now: UnixMs) -> bool {
        self.found_reads.as_ref().is_some_and(|found| found.is_old(self.read_ends, now))
    }

    /// Forgets what was known in an earlier term, and returns its ties: there may be a million.
    fn begin_term(&mut self, term: u64) -> Option<Box<Ties>> {
        if self.term == term {
            return None;
        }
        self.term = term;
        (self.yielding, self.read_ends, self.found_reads) = (None, None, None);
        (self.uncapped, self.is_capped) = (None, false);
        self.ties.take()
    }

    fn count(&self, term: u64) -> Counts {
        let awaited = self.queue.is_some();
        let kept = !self.grants.is_empty() || !self.revokes.is_empty() || self.leaving.is_some();
        let yields = self.yielding.is_some() && self.read_ends.is_none();
        let known = self.term == term && (yields || self.ties.is_some());
        let is_read = self.read_ends.is_some() || self.found_reads.is_some();
        Counts {
            awaited: awaited.into(),
            watched: (awaited || kept).into(),
            known: known.into(),
            read_ends: (self.term == term && is_read).into(),
        }
    }
}

/// In how many records there is what.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    awaited: usize,
    watched: usize,
    known: usize,
    pub(super) read_ends: usize,
}

impl Counts {
    fn replace(&mut self, before: Counts, after: Counts) {
        let replace =
            |sum: &mut usize, before, after| *sum = sum.saturating_sub(before).saturating_add(after);
        replace(&mut self.awaited, before.awaited, after.awaited);
        replace(&mut self.watched, before.watched, after.watched);
        replace(&mut self.known, before.known, after.known);
        replace(&mut self.read_ends, before.read_ends, after.read_ends);
    }

    /// Whether commands must check any record.
    pub(super) fn is_watched(self) -> bool {
        self.watched > 0 || self.known > 0
    }

    /// A term begins: see [`Locks::known`].
    pub(super) fn begin_term(&mut self) {
        (self.known, self.read_ends) = (0, 0);
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

    /// A lock's record, for what a primary knows better: its streak, its readers, its ties, and how far its fair list
    /// was walked. A record from before a demotion does not count, and is forgotten later, a few at a time.
    pub(super) fn known(&self, lock: LockName<'_>) -> Option<&LockRecord> {
        self.records.get(lock).filter(|record| record.term == self.term)
    }

    /// The same, to change it.
    pub(super) fn known_mut(&mut self, lock: LockName<'_>) -> Option<&mut LockRecord> {
        self.records.get_mut(lock).filter(|record| record.term == self.term)
    }

    /// All these records, in the order of their names.
    pub(super) fn all_known(&self) -> impl Iterator<Item = (LockName<'_>, &LockRecord)> {
        self.records.iter().filter(|(_, record)| record.term == self.term)
    }

    /// The lock's name as its record shares it, or a new one.
    pub(super) fn shared_name(&self, lock: LockName<'_>) -> LockRef {
        self.records.shared_name(lock).unwrap_or_else(|| lock.to_ref())
    }

    /// Changes a lock's record: makes it if it is missing, and removes it if the change leaves it empty.
    pub(super) fn edit<T>(&mut self, lock: LockName<'_>, change: impl FnOnce(&mut LockRecord) -> T) -> T {
        let record = match self.records.get_mut(lock) {
            Some(record) => record,
            None => self.records.get_or_insert(lock.to_ref()),
        };
        let before = record.count(self.term);
        let old = record.begin_term(self.term);
        let result = change(record);
        let after = record.count(self.term);
        self.sessions.forget_ties(old);
        self.note_changed(lock, before, after);
        result
    }

    /// Changes a lock's record if it exists, and removes it if the change leaves it empty.
    pub(super) fn edit_known<T>(
        &mut self,
        lock: LockName<'_>,
        change: impl FnOnce(&mut LockRecord) -> T,
    ) -> Option<T> {
        let record = self.records.get_mut(lock)?;
        let before = record.count(self.term);
        let old = record.begin_term(self.term);
        let result = change(record);
        let after = record.count(self.term);
        self.sessions.forget_ties(old);
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

    /// Forgets what time or a demotion has ended without an event: of records that count `most`, those after the last ones; and
    /// `most` ties.
    pub fn forget_old(&mut self, now: UnixMs, clock: MonoMs, most: usize) {
        let doubts_lists = self.forget_list_doubts(clock);
        let after = self.forgotten_up_to.take();
        let start = after.as_ref().map_or(Bound::Unbounded, |after| Bound::Excluded(after.name()));
        let (mut seen, mut last, mut old) = (0_usize, None, Vec::new());
        for (lock, record) in self.records.from(start) {
            if seen >= most {
                break;
            }
            let is_old = record.term != self.term
                || record.kept(now, clock) != (record.yielding, record.read_ends)
                || record.is_old_found(now)
                || record.is_capped && !doubts_lists;
            old.extend(is_old.then(|| lock.clone()));
            (seen, last) = (seen.saturating_add(lock.weight()), Some(lock));
        }
        self.forgotten_up_to = last.filter(|_| seen >= most);
        self.sessions.free_forgotten(most);
        for lock in old {
            self.edit_known(lock.name(), |record| {
                // Before the native end goes, which tells how long the others are known.
                if record.is_old_found(now) {
                    record.found_reads = None;
                }
                (record.yielding, record.read_ends) = record.kept(now, clock);
                record.is_capped &= doubts_lists;
            });
        }
    }
}
