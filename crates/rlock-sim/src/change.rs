//! Applies a decided change to the keys, as the module does in a server.

use std::collections::BTreeMap;

use rlock_core::effects::Effects;
use rlock_core::facts::{self, FairEntry, Holder};
use rlock_core::locks::LockRef;
use rlock_core::{Change, Error, Expiry, Fields, Holds, Kind, LeaseMs, Mode, UnixMs};

use crate::world::{Hold, Permits, ReadWrite, Value, World};

impl ReadWrite {
    /// The lock as this owner sees it.
    pub(crate) fn fields(&self, owner: Option<&[u8]>) -> Fields {
        let of = |holds: &BTreeMap<Box<[u8]>, Holds>| owner.and_then(|owner| holds.get(owner).copied());
        let (reads, writes) = (of(&self.reads), of(&self.writes));
        let all = self.reads.len() + self.writes.len();
        if all == 0 {
            return Fields::ABANDONED;
        }
        let others = all - usize::from(reads.is_some()) - usize::from(writes.is_some());
        let kind = if self.writing { Kind::Writing } else { Kind::Reading };
        Fields { kind, sole: writes, shared: reads, others, key_end: self.expiry }
    }

    /// The holds in this mode.
    fn fields_in(&mut self, mode: Mode) -> &mut BTreeMap<Box<[u8]>, Holds> {
        if mode == Mode::Write { &mut self.writes } else { &mut self.reads }
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

    /// Applies a change.
    pub(crate) fn change(&mut self, lock: &LockRef, owner: &[u8], change: &Change) {
        change.each_effect(&mut Applied { world: self, lock, owner, mode: change.mode });
        let leases = change.leases();
        if let Some((first, last)) = leases.gone {
            for hold in first..=last {
                self.read_leases.remove(&(lock.clone(), owner.into(), hold));
            }
        }
        if let Some((first, last, at)) = leases.set {
            for hold in first..=last {
                self.read_leases.insert((lock.clone(), owner.into(), hold), Expiry::At(at));
            }
        }
        if let Some(token) = change.token {
            self.tokens.insert(lock.clone(), Some(token.get()));
        }
    }
}

/// The effects of a change, applied to the lock's key.
struct Applied<'w> {
    world: &'w mut World,
    lock: &'w LockRef,
    owner: &'w [u8],
    mode: Mode,
}

impl Effects for Applied<'_> {
    fn bury(&mut self, dead: &[Holder]) {
        for Holder { owner, .. } in dead {
            match self.world.keys.get_mut(self.lock) {
                Some(Value::ReadWrite(value)) => drop(value.reads.remove(owner)),
                Some(Value::Permits(value)) => drop(value.ends.remove(owner)),
                Some(Value::Lock(_) | Value::Other) | None => {}
            }
        }
    }

    fn delete(&mut self) {
        self.world.keys.remove(self.lock);
    }

    fn set_fields(&mut self, becomes: Option<Mode>, holds: Option<Holds>) {
        let owner = self.owner.into();
        if self.mode == Mode::Mutex {
            if let Some(holds) = holds {
                let hold = Hold { owner, holds, expiry: self.world.key_end(self.lock) };
                self.world.keys.insert(self.lock.clone(), Value::Lock(hold));
            }
            return;
        }
        let new = || {
            let (reads, writes) = (BTreeMap::new(), BTreeMap::new());
            Value::ReadWrite(ReadWrite { writing: false, reads, writes, expiry: Expiry::Never })
        };
        if let Value::ReadWrite(value) = self.world.keys.entry(self.lock.clone()).or_insert_with(new) {
            value.writing = becomes.map_or(value.writing, |mode| mode == Mode::Write);
            if let Some(holds) = holds {
                value.fields_in(self.mode).insert(owner, holds);
            }
        }
    }

    fn set_permit(&mut self, end: UnixMs) {
        let new = || Value::Permits(Permits { ends: BTreeMap::new(), expiry: Expiry::Never });
        if let Value::Permits(value) = self.world.keys.entry(self.lock.clone()).or_insert_with(new) {
            value.ends.insert(self.owner.into(), end);
        }
    }

    fn remove(&mut self) {
        match self.world.keys.get_mut(self.lock) {
            Some(Value::ReadWrite(value)) => drop(value.fields_in(self.mode).remove(self.owner)),
            Some(Value::Permits(value)) => drop(value.ends.remove(self.owner)),
            Some(Value::Lock(_) | Value::Other) | None => self.delete(),
        }
    }

    fn expire(&mut self, at: UnixMs) {
        match self.world.keys.get_mut(self.lock) {
            Some(Value::Lock(hold)) => hold.expiry = Expiry::At(at),
            Some(Value::ReadWrite(value)) => value.expiry = Expiry::At(at),
            Some(Value::Permits(value)) => value.expiry = Expiry::At(at),
            Some(Value::Other) | None => {}
        }
    }
}
