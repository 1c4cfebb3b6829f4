//! Applies a decided change to the keys, as the module does in a server.

use rlock_core::facts::{self, FairEntry, Holder};
use rlock_core::locks::LockRef;
use rlock_core::{Change, Error, Expiry, Fields, HashChange, Holds, Kind, LeaseMs, Mode, UnixMs};

use crate::world::{Hold, Permits, ReadWrite, Value, World};

impl ReadWrite {
    /// The lock as this owner sees it.
    pub(crate) fn fields(&self, owner: Option<&[u8]>) -> Fields {
        let of = |holds: &std::collections::BTreeMap<Box<[u8]>, Holds>| {
            owner.and_then(|owner| holds.get(owner).copied())
        };
        let (reads, writes) = (of(&self.reads), of(&self.writes));
        let all = self.reads.len() + self.writes.len();
        if all == 0 {
            return Fields::ABANDONED;
        }
        let others = all - usize::from(reads.is_some()) - usize::from(writes.is_some());
        let kind = if self.writing { Kind::Writing } else { Kind::Reading };
        Fields { kind, sole: writes, reads, others, key_end: self.expiry }
    }

    /// The readers, also dead ones; at most this many.
    pub(crate) fn readers(&self, most: usize) -> Vec<Holder> {
        let readers = self.reads.iter().take(most);
        readers.map(|(owner, holds)| Holder { owner: owner.clone(), holds: *holds }).collect()
    }
}

impl Permits {
    /// The lock as this owner sees it.
    pub(crate) fn fields(&self, owner: Option<&[u8]>, now: UnixMs) -> Result<Fields, Error> {
        let Expiry::At(key_end) = self.expiry else { return Err(Error::NotPermits) };
        match self.ends.values().max() {
            Some(last) if *last > key_end || *last <= now && *last != key_end => Err(Error::NotPermits),
            Some(last) if *last <= now => Ok(Fields::ABANDONED),
            Some(_) => {
                let own = owner.is_some_and(|owner| self.ends.contains_key(owner));
                Ok(Fields::permits(self.ends.len(), own, self.expiry))
            }
            None => Err(Error::NotPermits),
        }
    }

    /// The permits as this owner sees them.
    pub(crate) fn seen_by(&self, owner: Option<&[u8]>, now: UnixMs) -> facts::Permits {
        let others = || self.ends.iter().filter(|(other, _)| owner != Some(&***other));
        let living = || others().map(|(_, end)| *end).filter(|end| *end > now);
        let ended = others().filter(|(_, end)| **end <= now);
        let ended = ended.map(|(owner, _)| Holder { owner: owner.clone(), holds: Holds::ONE });
        facts::Permits {
            own: owner.and_then(|owner| self.ends.get(owner).copied()),
            first_end: living().min(),
            last_end: living().max(),
            ended: ended.take(facts::MOST_ENDED).collect(),
        }
    }
}

impl World {
    /// An owner's entry in a fair list.
    pub(crate) fn fair_entry(&mut self, lock: &LockRef, owner: &[u8]) -> Option<&mut FairEntry> {
        self.fair.get_mut(lock)?.iter_mut().find(|entry| *entry.owner == *owner)
    }

    /// Puts an owner at the end of the fair list, as Redisson's script does.
    pub(crate) fn fair_join(&mut self, lock: &LockRef, owner: &[u8], budget: LeaseMs, lease_ends: Expiry) {
        if self.fair_entry(lock, owner).is_some() {
            return;
        }
        let (now, list) = (self.now, self.fair.entry(lock.clone()).or_default());
        let before = match (list.back().and_then(|last| last.deadline), lease_ends) {
            (Some(last), _) => last,
            (None, Expiry::At(at)) => at.max(now),
            (None, Expiry::Never) => now,
        };
        list.push_back(FairEntry { owner: owner.into(), deadline: Some(before.after(budget)) });
    }

    /// Removes the fields of dead readers.
    pub(crate) fn bury(&mut self, lock: &LockRef, dead: &[Holder]) {
        if let Some(Value::ReadWrite(value)) = self.keys.get_mut(lock) {
            for reader in dead {
                value.reads.remove(&reader.owner);
            }
        }
    }

    pub(crate) fn change_mutex(&mut self, lock: &LockRef, owner: &[u8], change: &Change) {
        match change.hash {
            HashChange::Delete | HashChange::Remove => {
                self.keys.remove(lock);
            }
            HashChange::Set(holds) | HashChange::Replace(holds) => {
                let before = match self.keys.remove(lock) {
                    Some(Value::Lock(hold)) if change.hash == HashChange::Set(holds) => hold.expiry,
                    _ => Expiry::Never,
                };
                let hold = Hold { owner: owner.into(), holds, expiry: before };
                self.keys.insert(lock.clone(), Value::Lock(hold));
            }
            HashChange::Keep => {}
        }
        if let (Some(at), Some(Value::Lock(hold))) = (change.expire_at, self.keys.get_mut(lock)) {
            hold.expiry = Expiry::At(at);
        }
    }

    pub(crate) fn change_permits(&mut self, lock: &LockRef, owner: &[u8], change: &Change) {
        let mut value = match self.keys.remove(lock) {
            Some(Value::Permits(value)) if !matches!(change.hash, HashChange::Replace(_)) => value,
            _ => Permits { ends: Default::default(), expiry: Expiry::Never },
        };
        if change.hash == HashChange::Delete {
            return;
        }
        for ended in change.buried() {
            value.ends.remove(&ended.owner);
        }
        if change.hash == HashChange::Remove {
            value.ends.remove(owner);
        }
        if let Some(end) = change.permit_end() {
            value.ends.insert(owner.into(), end);
        }
        value.expiry = change.expire_at.map_or(value.expiry, Expiry::At);
        self.keys.insert(lock.clone(), Value::Permits(value));
    }

    pub(crate) fn change_read_write(&mut self, lock: &LockRef, owner: &[u8], change: &Change) {
        let value = match self.keys.remove(lock) {
            Some(Value::ReadWrite(value)) if !matches!(change.hash, HashChange::Replace(_)) => value,
            _ => ReadWrite {
                writing: false,
                reads: Default::default(),
                writes: Default::default(),
                expiry: Expiry::Never,
            },
        };
        if let Some(value) = changed(value, owner, change) {
            self.keys.insert(lock.clone(), Value::ReadWrite(value));
        }
        if let Some((first, last)) = change.leases().gone {
            for hold in first..=last {
                self.read_leases.remove(&(lock.clone(), owner.into(), hold));
            }
        }
        if let Some((first, last, at)) = change.leases().set {
            for hold in first..=last {
                self.read_leases.insert((lock.clone(), owner.into(), hold), Expiry::At(at));
            }
        }
    }
}

/// The hash after a change; `None` if it is deleted.
fn changed(mut value: ReadWrite, owner: &[u8], change: &Change) -> Option<ReadWrite> {
    let fields = if change.mode == Mode::Write { &mut value.writes } else { &mut value.reads };
    match change.hash {
        HashChange::Delete => return None,
        HashChange::Remove => {
            fields.remove(owner);
        }
        HashChange::Set(holds) | HashChange::Replace(holds) => {
            fields.insert(owner.into(), holds);
        }
        HashChange::Keep => {}
    }
    if let Some(mode) = change.becomes {
        value.writing = mode == Mode::Write;
    }
    if let Some(at) = change.expire_at {
        value.expiry = Expiry::At(at);
    }
    Some(value)
}
