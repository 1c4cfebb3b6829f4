//! What memory knows of one lock.

use std::ops::Bound;
use std::rc::Rc;

use super::counts::Counts;
use super::found::FoundReads;
use super::leaving::{Leaving, Walk};
use super::rare::Rare;
use super::ties::Ties;
use super::undelivered::Undelivered;
use super::{LockName, LockRef, Locks, Queue, Yielding};
use crate::types::{Mode, MonoMs, UnixMs};
use crate::weight::Weighed;

/// What memory knows of one lock. A record that is empty is removed.
#[derive(Clone, Debug)]
pub(super) struct LockRecord {
    /// The key of the lock; what points at the lock shares it.
    key: Rc<[u8]>,
    /// The waiters; gone with the last one.
    pub(super) queue: Option<Box<Queue>>,
    /// The newest grants that may not have arrived yet: many where readers share the lock. They outlive the queue.
    pub(super) grants: Undelivered,
    /// How the lock yields to Redisson clients; outlives the queue.
    pub(super) yielding: Option<Yielding>,
    /// When the latest read lease ends that was granted here; `None` where no native reads any more.
    pub(super) read_ends: Option<UnixMs>,
    /// What is known of other read leases.
    pub(super) found_reads: Option<Box<FoundReads>>,
    /// Owners that left the queue, and whose entries in the fair list have not been removed yet.
    pub(super) leaving: Option<Box<Leaving>>,
    /// The connections with which holds end.
    pub(super) ties: Option<Box<Ties>>,
    /// The rare part: `None` while all of it is empty.
    rare: Option<Box<Rare>>,
    /// The term of this server in which the record was last changed: see [`Locks::known`].
    pub(super) term: u64,
}

impl LockRecord {
    /// An empty record.
    pub(super) fn of(key: Rc<[u8]>) -> Self {
        Self {
            key,
            queue: None,
            grants: Undelivered::None,
            yielding: None,
            read_ends: None,
            found_reads: None,
            leaving: None,
            ties: None,
            rare: None,
            term: 0,
        }
    }

    /// The name of its lock in this database.
    pub(super) fn name(&self, db: i32) -> LockRef {
        LockRef { db, key: Rc::clone(&self.key) }
    }

    /// The rare part; `None` while all of it is empty.
    pub(super) fn rare(&self) -> Option<&Rare> {
        self.rare.as_deref()
    }

    /// The same, to change it.
    pub(super) fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// The walk that bounds deadlines in the fair list, if one is under way.
    pub(super) fn uncapped_mut(&mut self) -> Option<&mut Walk> {
        self.rare.as_mut()?.uncapped.as_mut()
    }

    fn is_empty(&self) -> bool {
        let Self { queue, grants, yielding, read_ends, found_reads, leaving, ties, rare, .. } = self;
        let idle = ties.is_none() && queue.is_none() && grants.is_empty() && rare.is_none();
        let unread = read_ends.is_none() && found_reads.is_none();
        idle && yielding.is_none() && unread && leaving.is_none()
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
        if let Some(rare) = &mut self.rare {
            (rare.uncapped, rare.is_capped) = (None, false);
        }
        self.ties.take()
    }

    fn count(&self, term: u64) -> Counts {
        let awaited = self.queue.is_some();
        let revokes = self.rare().is_some_and(|rare| !rare.revokes.is_empty());
        let kept = !self.grants.is_empty() || revokes || self.leaving.is_some();
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

/// The difference that a change made to a record.
struct Edited {
    /// Its counts before and after.
    counts: (Counts, Counts),
    /// The lock, if it has waiters now and had none, or the reverse.
    name: Option<LockRef>,
    is_empty: bool,
    /// Its ties of an earlier term.
    old_ties: Option<Box<Ties>>,
}

impl LockRecord {
    fn edit<T>(&mut self, db: i32, term: u64, change: impl FnOnce(&mut Self) -> T) -> (T, Edited) {
        let before = self.count(term);
        let old_ties = self.begin_term(term);
        let result = change(self);
        self.rare.take_if(|rare| rare.is_empty());
        let after = self.count(term);
        let name = (before.awaited != after.awaited).then(|| self.name(db));
        (result, Edited { counts: (before, after), name, is_empty: self.is_empty(), old_ties })
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
        self.records.get(lock).map_or_else(|| lock.to_ref(), |record| record.name(lock.db))
    }

    /// Changes a lock's record: makes it if it is missing, and removes it if the change leaves it empty.
    pub(super) fn edit<T>(&mut self, lock: LockName<'_>, change: impl FnOnce(&mut LockRecord) -> T) -> T {
        let record = match self.records.get_mut(lock) {
            Some(record) => record,
            None => self.records.get_or_insert(lock.to_ref()),
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
        let (result, edited) = self.records.get_mut(lock)?.edit(lock.db, self.term, change);
        self.note_edited(lock, edited);
        Some(result)
    }

    /// A record was changed: the counts and the index follow, and an empty record goes.
    fn note_edited(&mut self, lock: LockName<'_>, edited: Edited) {
        let Edited { counts: (before, after), name, is_empty, old_ties } = edited;
        self.sessions.forget_ties(old_ties);
        self.counts.replace(before, after);
        if let Some(name) = name {
            if after.awaited > 0 {
                self.awaited.insert(name)
            } else {
                self.awaited.remove(&name)
            };
        }
        if is_empty {
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
                || record.rare().is_some_and(|rare| rare.is_capped) && !doubts_lists;
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
                if let Some(rare) = &mut record.rare {
                    rare.is_capped &= doubts_lists;
                }
            });
        }
    }
}
