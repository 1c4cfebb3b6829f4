//! The records of all locks by their names.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};
use std::ops::Bound;
use std::rc::Rc;

use super::record::LockRecord;
use super::{LockName, LockRef};

/// The records, found by name without a copy of it, and ordered by name. Boxed, since a tree that grows at its end is half full.
#[derive(Clone, Default)]
pub(super) struct RecordMap(BTreeMap<i32, BTreeMap<Rc<[u8]>, Box<LockRecord>>>);

impl Debug for RecordMap {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl RecordMap {
    /// A lock's record.
    pub(super) fn get(&self, lock: LockName<'_>) -> Option<&LockRecord> {
        self.0.get(&lock.db)?.get(lock.key).map(Box::as_ref)
    }

    /// A lock's record, to change it.
    pub(super) fn get_mut(&mut self, lock: LockName<'_>) -> Option<&mut LockRecord> {
        self.0.get_mut(&lock.db)?.get_mut(lock.key).map(Box::as_mut)
    }

    /// A lock's record, which is made if it is missing.
    pub(super) fn get_or_insert(&mut self, lock: LockRef) -> &mut LockRecord {
        let new = || Box::new(LockRecord::of(Rc::clone(&lock.key)));
        self.0.entry(lock.db).or_default().entry(Rc::clone(&lock.key)).or_insert_with(new)
    }

    /// Removes a lock's record. The empty tree of the only database stays, or the next lock would allocate it
    /// again.
    pub(super) fn remove(&mut self, lock: LockName<'_>) {
        let Some(records) = self.0.get_mut(&lock.db) else { return };
        records.remove(lock.key);
        if records.is_empty() && self.0.len() > 1 {
            self.0.remove(&lock.db);
        }
    }

    /// All records, in the order of their names.
    pub(super) fn iter(&self) -> impl Iterator<Item = (LockName<'_>, &LockRecord)> {
        self.0.iter().flat_map(|(db, records)| {
            records.iter().map(|(key, record)| (LockName { db: *db, key }, &**record))
        })
    }

    /// The records from this name on.
    pub(super) fn from(&self, start: Bound<LockName<'_>>) -> impl Iterator<Item = (LockRef, &LockRecord)> {
        let databases = match start {
            Bound::Included(name) | Bound::Excluded(name) => self.0.range(name.db..),
            Bound::Unbounded => self.0.range(..),
        };
        databases.flat_map(move |(db, records)| {
            let from = match start {
                Bound::Included(name) if name.db == *db => Bound::Included(name.key),
                Bound::Excluded(name) if name.db == *db => Bound::Excluded(name.key),
                _ => Bound::Unbounded,
            };
            let some = records.range::<[u8], _>((from, Bound::Unbounded));
            some.map(|(key, record)| (LockRef { db: *db, key: Rc::clone(key) }, &**record))
        })
    }

    /// Takes all records.
    pub(super) fn into_iter(self) -> impl Iterator<Item = (LockRef, LockRecord)> {
        self.0.into_iter().flat_map(|(db, records)| {
            records.into_iter().map(move |(key, record)| (LockRef { db, key }, *record))
        })
    }
}
