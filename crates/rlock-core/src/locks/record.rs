//! What memory knows of one lock.

use std::rc::Rc;

use super::counts::Counts;
use super::found::FoundReads;
use super::leaving::{Leaving, Walk};
use super::queue::Queue;
use super::rare::Rare;
use super::ties::Ties;
use super::undelivered::Undelivered;
use super::{LockRef, Yielding};
use crate::types::{Mode, MonoMs, UnixMs};

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
    /// The term of this server in which the record was last changed: see [`Records::known`](super::records::Records::known).
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

    /// The rare part, to change it.
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

    /// Whether a command on the lock must check this record. Readers alone need no check: their count ends by itself.
    pub(super) fn is_watched(&self, term: u64) -> bool {
        let Counts { watched, known, .. } = self.count(term);
        watched > 0 || known > 0
    }

    /// The last waiter has left; it wanted the lock in this mode.
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

    /// Whether time has ended a part of the record without an event; `doubts_lists`: whether any fair list is doubted.
    pub(super) fn is_old(&self, now: UnixMs, clock: MonoMs, doubts_lists: bool) -> bool {
        self.kept(now, clock) != (self.yielding, self.read_ends)
            || self.is_old_found(now)
            || self.rare().is_some_and(|rare| rare.is_capped) && !doubts_lists
    }

    /// Forgets what time has ended.
    pub(super) fn forget_old(&mut self, now: UnixMs, clock: MonoMs, doubts_lists: bool) {
        // Before the native end goes, which tells how long the others are known.
        if self.is_old_found(now) {
            self.found_reads = None;
        }
        (self.yielding, self.read_ends) = self.kept(now, clock);
        if let Some(rare) = &mut self.rare {
            rare.is_capped &= doubts_lists;
        }
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
pub(super) struct Edited {
    /// Its counts before and after.
    pub(super) counts: (Counts, Counts),
    /// The lock, if it has waiters now and had none, or the reverse.
    pub(super) name: Option<LockRef>,
    pub(super) is_empty: bool,
    /// Its ties of an earlier term.
    pub(super) old_ties: Option<Box<Ties>>,
}

impl LockRecord {
    pub(super) fn edit<T>(&mut self, db: i32, term: u64, change: impl FnOnce(&mut Self) -> T) -> (T, Edited) {
        let before = self.count(term);
        let old_ties = self.begin_term(term);
        let result = change(self);
        self.rare.take_if(|rare| rare.is_empty());
        let after = self.count(term);
        let name = (before.awaited != after.awaited).then(|| self.name(db));
        (result, Edited { counts: (before, after), name, is_empty: self.is_empty(), old_ties })
    }
}
