//! The records of all locks.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;

use super::record::LockRecord;
use super::{LockName, LockRef, Queue};

/// The records, found by name without a copy of it, and ordered by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Records(BTreeMap<i32, BTreeMap<Rc<[u8]>, LockRecord>>);

impl Records {
    /// A lock's record.
    pub(super) fn get(&self, lock: LockName<'_>) -> Option<&LockRecord> {
        self.0.get(&lock.db)?.get(lock.key)
    }

    /// The same, to change it.
    pub(super) fn get_mut(&mut self, lock: LockName<'_>) -> Option<&mut LockRecord> {
        self.0.get_mut(&lock.db)?.get_mut(lock.key)
    }

    /// The lock's name as its record shares it; `None` without a record.
    pub(super) fn shared_name(&self, lock: LockName<'_>) -> Option<LockRef> {
        let (key, _) = self.0.get(&lock.db)?.get_key_value(lock.key)?;
        Some(LockRef { db: lock.db, key: Rc::clone(key) })
    }

    /// A lock's waiters, and its name as its record shares it.
    pub(super) fn named_queue(&mut self, lock: LockName<'_>) -> Option<(LockRef, &mut Queue)> {
        let name = self.shared_name(lock)?;
        Some((name, self.get_mut(lock)?.queue.as_deref_mut()?))
    }

    /// A lock's record, which is made if it is missing.
    pub(super) fn get_or_insert(&mut self, lock: LockRef) -> &mut LockRecord {
        self.0.entry(lock.db).or_default().entry(lock.key).or_default()
    }

    /// Removes a lock's record.
    pub(super) fn remove(&mut self, lock: LockName<'_>) {
        let Some(records) = self.0.get_mut(&lock.db) else { return };
        records.remove(lock.key);
        if records.is_empty() {
            self.0.remove(&lock.db);
        }
    }

    /// All records, in the order of their names.
    pub(super) fn iter(&self) -> impl Iterator<Item = (LockName<'_>, &LockRecord)> {
        self.0
            .iter()
            .flat_map(|(db, records)| records.iter().map(|(key, record)| (LockName { db: *db, key }, record)))
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
            some.map(|(key, record)| (LockRef { db: *db, key: Rc::clone(key) }, record))
        })
    }

    /// Takes all records.
    pub(super) fn into_iter(self) -> impl Iterator<Item = (LockRef, LockRecord)> {
        self.0.into_iter().flat_map(|(db, records)| {
            records.into_iter().map(move |(key, record)| (LockRef { db, key }, record))
        })
    }
}
