//! READ and WRITE, from docs/COMMANDS.md.

use super::hash::{Hash, Leases, owners};
use super::op::{Lock, Owner, Wait, Word};
use super::state::Oracle;
use super::values::{Answer, Ask, Value};

/// A read/write lock, `None` if it is free; or the error of a call on a key that holds another value.
type Found = Result<Option<Hash>, Answer>;

impl Oracle {
    /// The read/write lock of a key.
    pub(super) fn hash(&self, lock: Lock) -> Found {
        match self.value(lock) {
            Value::Nothing => Ok(None),
            Value::ReadWrite(hash) => Ok(Some(hash)),
            Value::Held { .. } | Value::Permits(..) => Err(Answer::Error("WRONGLOCK")),
            Value::Other => Err(Answer::Error("WRONGTYPE")),
        }
    }

    /// When the owner's read lease ends, if it reads and lives.
    pub(super) fn reads_until(&self, lock: Lock, owner: Owner) -> Option<i64> {
        let Value::ReadWrite(hash) = self.value(lock) else { return None };
        hash.reads_until(&self.places[lock.0].leases, owner, self.now)
    }

    /// Whether no live owner reads.
    pub(super) fn all_are_dead(&self, lock: Lock, hash: &Hash) -> bool {
        owners().all(|owner| hash.reads_until(&self.places[lock.0].leases, owner, self.now).is_none())
    }

    /// The lease keys of the readers.
    pub(super) fn leases(&self, lock: Lock) -> Leases {
        let leases = self.places[lock.0].leases.iter().filter(|(_, at)| **at >= self.now);
        leases.map(|(key, at)| (*key, *at)).collect()
    }

    /// The fields of dead readers may be cleared away at any time, while there are others.
    pub(super) fn clear_away(&mut self, lock: Lock, seen: &Value) {
        let (Value::ReadWrite(mut hash), Value::ReadWrite(seen)) = (self.value(lock), seen) else { return };
        for owner in owners() {
            let dead = self.reads_until(lock, owner).is_none();
            if dead && seen.reads[owner.0] == 0 && hash.has_others(owner) {
                hash.reads[owner.0] = 0;
            }
        }
        self.place(lock).value = Value::ReadWrite(hash);
    }

    /// The timer may correct the end of a key that another client has set before the end of the readers' leases: to the
    /// latest of these, and to no other time. After that, a waiter may join the readers, for longer.
    pub(super) fn mend_end(&mut self, lock: Lock, seen: &Value) {
        let (Value::ReadWrite(mut hash), Value::ReadWrite(seen)) = (self.value(lock), seen) else { return };
        let latest = hash.latest(&self.places[lock.0].leases, None, self.now);
        if !hash.writing && latest > hash.ends && hash.ends.is_some() && seen.ends >= latest {
            hash.ends = latest;
            self.set(lock, Value::ReadWrite(hash));
        }
    }

    /// ACQUIRE with READ or WRITE.
    #[expect(clippy::too_many_lines, reason = "one decision, as plainly as possible")]
    pub(super) fn acquire_read_write(&mut self, lock: Lock, owner: Owner, ask: Ask, token: i64) -> Answer {
        self.is_met(lock);
        let hash = match self.hash(lock) {
            Ok(hash) => hash,
            Err(answer) => return answer,
        };
        let write = ask.word == Word::Write;
        let reads = self.reads_until(lock, owner);
        let writes = hash.is_some_and(|hash| hash.writes[owner.0] > 0);
        if write && ask.wait != Wait::No && reads.is_some() && !writes {
            // It would wait for itself.
            return Answer::Error("ERR");
        }
        let holds_something = reads.is_some() || writes;
        let first = ask.holds.is_none_or(|n| n == 1);
        let may = first && self.accept;
        let kept_out = !holds_something && self.queue(lock).is_empty() && self.hold_back(lock, ask.word, may);
        if !holds_something && !self.accept {
            return Answer::Error("ERR");
        }
        if !holds_something && (!self.queue(lock).is_empty() || kept_out) {
            return if first { self.wait(lock, owner, ask) } else { Answer::Null };
        }
        let answer = match hash {
            // The first holder, also if all readers are dead.
            None => self.first(lock, owner, ask),
            Some(hash) if write && !hash.writing && self.all_are_dead(lock, &hash) => {
                self.first(lock, owner, ask)
            }
            Some(hash) if write && writes => self.write_again(lock, owner, ask, hash),
            Some(hash) if !write && reads.is_some() => {
                match self.read_again(lock, owner, ask.lease, ask.holds, hash) {
                    (0, _) => Answer::Null,
                    (holds, ends) => Answer::Holds(holds, ends - self.now, 0),
                }
            }
            Some(hash) if !write && first && (!hash.writing || writes) => {
                self.read_as_well(lock, owner, ask.lease, hash);
                Answer::Holds(1, ask.lease, 0)
            }
            Some(_) => Answer::Null,
        };
        if let Answer::Holds(holds, left, _) = answer {
            self.use_token(lock, token);
            return Answer::Holds(holds, left, token);
        }
        if first { self.wait(lock, owner, ask) } else { Answer::Null }
    }

    fn first(&mut self, lock: Lock, owner: Owner, ask: Ask) -> Answer {
        if ask.holds.is_some_and(|n| n > 1) {
            // A caller that counts on earlier holds has lost them.
            return Answer::Null;
        }
        self.row_ends(lock);
        self.take_read_write(lock, owner, ask.word, ask.lease);
        Answer::Holds(1, ask.lease, 0)
    }

    /// Acquires a lock without holders.
    pub(super) fn take_read_write(&mut self, lock: Lock, owner: Owner, word: Word, lease: i64) {
        let ends = self.now + lease;
        let mut hash = Hash { writing: word == Word::Write, ends: Some(ends), ..Hash::default() };
        self.place(lock).longest_read = None;
        if hash.writing {
            hash.writes[owner.0] = 1;
        } else {
            self.passes(lock, false);
            hash.reads[owner.0] = 1;
            self.place(lock).leases.insert((owner, 1), ends);
            self.leases_read(lock, owner, ends);
        }
        self.set(lock, Value::ReadWrite(hash));
    }

    /// Acquires the first read hold of an owner, while others read or the owner itself writes.
    pub(super) fn read_as_well(&mut self, lock: Lock, owner: Owner, lease: i64, mut hash: Hash) {
        self.passes(lock, hash.writing);
        let ends = self.now + lease;
        hash.reads[owner.0] = 1;
        hash.last_until(ends);
        self.place(lock).leases.insert((owner, 1), ends);
        self.leases_read(lock, owner, ends);
        self.set(lock, Value::ReadWrite(hash));
    }

    fn write_again(&mut self, lock: Lock, owner: Owner, ask: Ask, mut hash: Hash) -> Answer {
        let Some(arrives) = arrives(hash.writes[owner.0], ask.holds) else { return Answer::Null };
        hash.writes[owner.0] = arrives;
        hash.last_until(self.now + ask.lease);
        self.set(lock, Value::ReadWrite(hash));
        Answer::Holds(arrives, hash.ends.map_or(-1, |at| at - self.now), 0)
    }

    /// A reader acquires one more hold, or arrives at the number of holds that it wants. Returns its holds and their
    /// end; 0 if holds were lost.
    pub(super) fn read_again(
        &mut self,
        lock: Lock,
        owner: Owner,
        lease: i64,
        wanted: Option<i64>,
        mut hash: Hash,
    ) -> (i64, i64) {
        let (has, now) = (hash.reads[owner.0], self.now);
        let Some(arrives) = arrives(has, wanted) else { return (0, now) };
        self.reads_on(lock);
        let before = self.reads_until(lock, owner).unwrap_or(now);
        let ends = before.max(now + lease);
        hash.reads[owner.0] = arrives;
        hash.last_until(ends);
        if arrives > has || ends > before {
            self.place(lock).leases.insert((owner, arrives), ends);
            self.leases_read(lock, owner, ends);
        }
        self.set(lock, Value::ReadWrite(hash));
        (arrives, ends)
    }
}

/// The holds of an owner after it acquires again; `None` if holds were lost.
pub(super) fn arrives(has: i64, wanted: Option<i64>) -> Option<i64> {
    match wanted {
        None => Some(has + 1),
        Some(n) if n <= has => Some(has),
        Some(n) => (n == has + 1).then_some(n),
    }
}
