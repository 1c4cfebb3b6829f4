//! The records of all locks, with what follows from them.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::counts::Counts;
use super::forgotten::free;
use super::queue::Queue;
use super::record::{Edited, LockRecord};
use super::record_map::RecordMap;
use super::ties::Ties;
use super::walks::Cursor;
use super::{LockName, LockRef, Waiter};
use crate::types::MonoMs;
use crate::weight::take_weighed;

/// The records of all locks, with what follows from them: each change of a record goes through [`Self::edit`], or leaves the
/// index and the counts as they are.
#[derive(Clone, Debug, Default)]
pub struct Records {
    map: RecordMap,
    /// The locks with waiters: there may be a million other records.
    awaited: BTreeSet<LockRef>,
    counts: Counts,
    /// How often the server was demoted: see [`Self::known`].
    term: u64,
    /// How often the key of a lock with a record was changed, by a turn or by another client.
    changes: u64,
    /// The ties of before a demotion, which are still in memory.
    pub(super) old_ties: Vec<Ties>,
}

impl Records {
    /// A lock's record.
    pub(super) fn get(&self, lock: LockName<'_>) -> Option<&LockRecord> {
        self.map.get(lock)
    }

    /// A lock's record, to change what neither counts nor decides whether the record is empty.
    pub(super) fn get_mut(&mut self, lock: LockName<'_>) -> Option<&mut LockRecord> {
        self.map.get_mut(lock)
    }

    /// A lock's waiters.
    pub(super) fn queue(&self, lock: LockName<'_>) -> Option<&Queue> {
        self.get(lock)?.queue.as_deref()
    }

    /// A lock's waiters, to change them.
    pub(super) fn queue_mut(&mut self, lock: LockName<'_>) -> Option<&mut Queue> {
        self.get_mut(lock)?.queue.as_deref_mut()
    }

    /// A lock's record, for what a primary knows better: its streak, its readers, its ties, and how far its fair list
    /// was walked. A record from before a demotion does not count, and is forgotten later, a few at a time.
    pub(super) fn known(&self, lock: LockName<'_>) -> Option<&LockRecord> {
        self.get(lock).filter(|record| record.term == self.term)
    }

    /// As [`Self::known`], to change the record.
    pub(super) fn known_mut(&mut self, lock: LockName<'_>) -> Option<&mut LockRecord> {
        self.map.get_mut(lock).filter(|record| record.term == self.term)
    }

    /// Whether a record is from before a demotion.
    pub(super) fn is_of_earlier_term(&self, record: &LockRecord) -> bool {
        record.term != self.term
    }

    /// All records, in the order of their names.
    pub(super) fn iter(&self) -> impl Iterator<Item = (LockName<'_>, &LockRecord)> {
        self.map.iter()
    }

    /// All records that are not from before a demotion, in the order of their names.
    pub(super) fn all_known(&self) -> impl Iterator<Item = (LockName<'_>, &LockRecord)> {
        self.iter().filter(|(_, record)| !self.is_of_earlier_term(record))
    }

    /// The records from this name on.
    pub(super) fn from(&self, start: Bound<LockName<'_>>) -> impl Iterator<Item = (LockRef, &LockRecord)> {
        self.map.from(start)
    }

    /// Takes all records.
    pub(super) fn into_iter(self) -> impl Iterator<Item = (LockRef, LockRecord)> {
        self.map.into_iter()
    }

    /// The lock's name as its record shares it, or a new one.
    pub(super) fn shared_name(&self, lock: LockName<'_>) -> LockRef {
        self.get(lock).map_or_else(|| lock.to_ref(), |record| record.name(lock.db))
    }

    /// Changes a lock's record: makes it if it is missing, and removes it if the change leaves it empty.
    pub(super) fn edit<T>(&mut self, lock: LockName<'_>, change: impl FnOnce(&mut LockRecord) -> T) -> T {
        let record = match self.map.get_mut(lock) {
            Some(record) => record,
            None => self.map.get_or_insert(lock.to_ref()),
        };
        let (result, edited) = record.edit(lock.db, self.term, change);
        self.note_edited(lock, edited);
        result
    }

    /// Changes a lock's record if it exists, and removes it if the change leaves it empty.
    pub(super) fn edit_known<T>(
        &mut self,
        lock: LockName<'_>,
        change: impl FnOnce(&mut LockRecord) -> T,
    ) -> Option<T> {
        let (result, edited) = self.map.get_mut(lock)?.edit(lock.db, self.term, change);
        self.note_edited(lock, edited);
        Some(result)
    }

    /// A record was changed: the counts and the index follow, and an empty record is removed.
    fn note_edited(&mut self, lock: LockName<'_>, edited: Edited) {
        let Edited { counts: (before, after), name, is_empty, old_ties } = edited;
        self.old_ties.extend(old_ties.map(|ties| *ties));
        self.counts.replace(before, after);
        if let Some(name) = name {
            if after.awaited > 0 {
                self.awaited.insert(name)
            } else {
                self.awaited.remove(&name)
            };
        }
        if is_empty {
            self.map.remove(lock);
        }
    }

    /// The server was demoted. There may be a million records: none is read here.
    pub(super) fn begin_term(&mut self) {
        self.term = self.term.wrapping_add(1);
        self.counts.begin_term();
    }

    /// Frees the memory of `most` ties of before a demotion.
    pub(super) fn free_old_ties(&mut self, most: usize) {
        free(&mut self.old_ties, most, |ties| ties.holds.pop_first());
    }
}

/// Facts about all locks, for commands.
impl Records {
    /// Whether commands must check any record.
    pub(super) fn is_watched(&self) -> bool {
        self.counts.is_watched()
    }

    /// Whether a command on this lock must check its record.
    pub(super) fn watches(&self, lock: LockName<'_>) -> bool {
        self.get(lock).is_some_and(|record| record.is_watched(self.term))
    }

    /// Whether anything is known of this lock.
    pub fn knows(&self, lock: LockName<'_>) -> bool {
        self.get(lock).is_some()
    }

    /// Whether any read end is known.
    pub fn knows_read_ends(&self) -> bool {
        self.counts.read_ends > 0
    }

    /// How often the key of a lock with a record was changed: the knowledge of a turn is out of date after that.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// The key of a lock with a record was changed.
    pub(crate) fn key_changed(&mut self) {
        self.changes = self.changes.wrapping_add(1);
    }
}

/// Waiters.
impl Records {
    /// The number of waiters for a lock.
    pub fn waiting_for(&self, lock: LockName<'_>) -> usize {
        self.queue(lock).map_or(0, |queue| queue.waiters.len())
    }

    /// The first waiter.
    pub fn head(&self, lock: LockName<'_>) -> Option<&Waiter> {
        self.queue(lock)?.waiters.first().map(|(_, head)| head)
    }

    /// All waiters for a lock, in order.
    pub fn in_order<'a>(&'a self, lock: LockName<'_>) -> impl Iterator<Item = &'a Waiter> + use<'a> {
        self.queue(lock).into_iter().flat_map(|queue| queue.waiters.iter())
    }

    /// The locks with waiters after this one.
    pub(super) fn awaited_after(&self, after: Option<&LockRef>) -> impl Iterator<Item = &LockRef> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.awaited.range::<LockRef, _>((start, Bound::Unbounded))
    }

    /// The next locks with waiters of a walk, up to a weight of `most`.
    pub(super) fn next_awaited(&self, walk: &mut Cursor, most: usize) -> Vec<LockRef> {
        let some = take_weighed(most, self.awaited_after(walk.last()).cloned());
        walk.set(some.items.last().filter(|_| !some.is_all).cloned());
        some.items
    }

    /// Up to `most` locks of a database with waiters, in the order of their keys, after this key: their number of waiters,
    /// and the start of the first waiter's wait.
    pub fn waited_for(&self, db: i32, after: Option<&[u8]>, most: usize) -> Vec<(&[u8], usize, MonoMs)> {
        let from = LockRef { db, key: after.unwrap_or_default().into() };
        let start = if after.is_some() { Bound::Excluded(from) } else { Bound::Included(from) };
        let here = self.awaited.range((start, Bound::Unbounded)).take_while(|lock| lock.db == db);
        let queues = here.filter_map(|lock| {
            let queue = self.queue(lock.name())?;
            Some((&*lock.key, queue.waiters.len(), queue.waiters.first()?.1.since))
        });
        queues.take(most).collect()
    }
}
