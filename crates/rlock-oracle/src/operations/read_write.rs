//! READ and WRITE, from docs/COMMANDS.md.

use super::commands::Ask;
use super::hash::{Hash, Leases, owners};
use super::op::{Count, Lock, Ms, Owner, Word};
use super::state::{Answer, Freed, Oracle, Value};

/// Why a call on a read/write lock cannot be answered, or the lock; nobody holds it where there is none.
type Found = Result<Option<Hash>, Answer>;

impl Oracle {
    /// The read/write lock of a key.
    fn hash(&self, lock: Lock) -> Found {
        match self.value(lock) {
            Value::Nothing => Ok(None),
            Value::ReadWrite(hash) => Ok(Some(hash)),
            Value::Held { .. } => Err(Answer::Error("WRONGLOCK")),
            Value::Other => Err(Answer::Error("WRONGTYPE")),
        }
    }

    /// When the owner's read lease ends, if it reads and lives.
    pub(super) fn reads_until(&self, lock: Lock, owner: Owner) -> Option<i64> {
        let Value::ReadWrite(hash) = self.value(lock) else { return None };
        hash.reads_until(&self.places[lock.0].leases, owner, self.now)
    }

    /// Whether nobody reads who lives.
    pub(super) fn all_are_dead(&self, lock: Lock, hash: &Hash) -> bool {
        hash.living(&self.places[lock.0].leases, self.now).is_empty()
    }

    /// The lease keys of those who read.
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

    /// The timer may put right the end of a key that somebody else has set before the end of the readers' leases: to
    /// the latest of these, and to nothing else.
    pub(super) fn mend_end(&mut self, lock: Lock, seen: &Value) {
        let (Value::ReadWrite(mut hash), Value::ReadWrite(seen)) = (self.value(lock), seen) else { return };
        let latest = hash.latest(&self.places[lock.0].leases, None, self.now);
        if !hash.writing && latest > hash.ends && hash.ends.is_some() && seen.ends == latest {
            hash.ends = latest;
            self.set(lock, Value::ReadWrite(hash));
        }
    }

    /// ACQUIRE with READ or WRITE.
    pub(super) fn acquire_read_write(&mut self, lock: Lock, owner: Owner, ask: Ask, token: i64) -> Answer {
        let hash = match self.hash(lock) {
            Ok(hash) => hash,
            Err(answer) => return answer,
        };
        let write = ask.word == Word::Write;
        let reads = self.reads_until(lock, owner);
        let writes = hash.is_some_and(|hash| hash.writes[owner.0] > 0);
        if write && ask.waits() && reads.is_some() && !writes {
            // It would wait for itself.
            return Answer::Error("ERR");
        }
        let holds_something = reads.is_some() || writes;
        if !holds_something && !self.accept {
            return Answer::Error("ERR");
        }
        let first = ask.holds.is_none_or(|n| n == 1);
        if !holds_something && !self.queue(lock).is_empty() {
            return if first { self.wait(lock, owner, ask) } else { Answer::Null };
        }
        let answer = match hash {
            // The first of all, also where those who read are dead.
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
            // Who counts on holds of before has lost them.
            return Answer::Null;
        }
        self.take_read_write(lock, owner, ask.word, ask.lease);
        Answer::Holds(1, ask.lease, 0)
    }

    /// Nobody held it.
    pub(super) fn take_read_write(&mut self, lock: Lock, owner: Owner, word: Word, lease: i64) {
        let ends = self.now + lease;
        let mut hash = Hash { writing: word == Word::Write, ends: Some(ends), ..Hash::default() };
        if hash.writing {
            hash.writes[owner.0] = 1;
        } else {
            hash.reads[owner.0] = 1;
            self.place(lock).leases.insert((owner, 1), ends);
        }
        self.set(lock, Value::ReadWrite(hash));
    }

    /// Others read, or the owner writes.
    pub(super) fn read_as_well(&mut self, lock: Lock, owner: Owner, lease: i64, mut hash: Hash) {
        let ends = self.now + lease;
        hash.reads[owner.0] = 1;
        hash.last_until(ends);
        self.place(lock).leases.insert((owner, 1), ends);
        self.set(lock, Value::ReadWrite(hash));
    }

    fn write_again(&mut self, lock: Lock, owner: Owner, ask: Ask, mut hash: Hash) -> Answer {
        let Some(arrives) = arrives(hash.writes[owner.0], ask.holds) else { return Answer::Null };
        hash.writes[owner.0] = arrives;
        hash.last_until(self.now + ask.lease);
        self.set(lock, Value::ReadWrite(hash));
        Answer::Holds(arrives, hash.ends.map_or(-1, |at| at - self.now), 0)
    }

    /// An owner that reads takes one more hold, or arrives at so many: how many it has then, and until when. 0 where
    /// holds were lost.
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
        let before = self.reads_until(lock, owner).unwrap_or(now);
        let ends = before.max(now + lease);
        hash.reads[owner.0] = arrives;
        hash.last_until(ends);
        if arrives > has || ends > before {
            self.place(lock).leases.insert((owner, arrives), ends);
        }
        self.set(lock, Value::ReadWrite(hash));
        (arrives, ends)
    }

    /// Which holds a call means that does not say.
    fn meant(&self, lock: Lock, owner: Owner, word: Word, hash: &Hash) -> Option<Word> {
        let (reads, writes) = (self.reads_until(lock, owner).is_some(), hash.writes[owner.0] > 0);
        match word {
            Word::None if reads && writes => None,
            Word::None if writes => Some(Word::Write),
            Word::None => Some(Word::Read),
            word => Some(word),
        }
    }

    /// RELEASE of a read/write lock.
    pub(super) fn release_read_write(
        &mut self,
        lock: Lock,
        owner: Owner,
        word: Word,
        down_to: Option<Count>,
        lease: Option<Ms>,
    ) -> Answer {
        let hash = match self.hash(lock) {
            Ok(Some(hash)) => hash,
            Ok(None) => return Answer::Null,
            Err(answer) => return answer,
        };
        let Some(word) = self.meant(lock, owner, word, &hash) else { return Answer::Error("ERR") };
        let until = self.reads_until(lock, owner);
        let holds = match word {
            Word::Write => hash.writes[owner.0],
            Word::None | Word::Read => until.map_or(0, |_| hash.reads[owner.0]),
        };
        if holds == 0 {
            return Answer::Null;
        }
        let left = down_to.map_or(holds - 1, |Count(n)| n.min(holds));
        let ends = lease.map(|Ms(ms)| self.now + ms);
        match (word, left) {
            (Word::Write, 0) => self.end_write(lock, owner, hash),
            (_, 0) => self.end_read(lock, owner, hash),
            (Word::Write, _) => self.fewer_writes(lock, owner, left, ends, hash),
            (..) => self.fewer_reads(lock, owner, left, ends, hash),
        }
        if left == 0 { Answer::One } else { Answer::Zero }
    }

    fn fewer_writes(&mut self, lock: Lock, owner: Owner, left: i64, ends: Option<i64>, mut hash: Hash) {
        hash.writes[owner.0] = left;
        if let Some(ends) = ends {
            hash.ends = Some(self.reads_until(lock, owner).map_or(ends, |reads| ends.max(reads)));
        }
        self.set(lock, Value::ReadWrite(hash));
    }

    fn fewer_reads(&mut self, lock: Lock, owner: Owner, left: i64, ends: Option<i64>, mut hash: Hash) {
        let until = ends.or(self.reads_until(lock, owner)).unwrap_or(self.now);
        let had = hash.reads[owner.0];
        let leases = &mut self.place(lock).leases;
        for hold in left + 1..=had {
            leases.remove(&(owner, hold));
        }
        // A lease that is asked for is that of every hold.
        for hold in if ends.is_some() { 1 } else { left }..=left {
            if left < had || ends.is_some() {
                leases.insert((owner, hold), until);
            }
        }
        hash.reads[owner.0] = left;
        hash.last_until(until);
        self.set(lock, Value::ReadWrite(hash));
    }

    /// The last read hold of an owner goes.
    pub(super) fn end_read(&mut self, lock: Lock, owner: Owner, mut hash: Hash) {
        for hold in 1..=hash.reads[owner.0] {
            self.place(lock).leases.remove(&(owner, hold));
        }
        hash.reads[owner.0] = 0;
        if hash.writes[owner.0] == 0 {
            if self.all_are_dead(lock, &hash) {
                return self.free(lock, Freed::Entirely);
            }
            // It lasts as long as somebody's lease, and not longer.
            let latest = hash.latest(&self.places[lock.0].leases, None, self.now);
            hash.ends = match (hash.ends, latest) {
                (Some(ends), Some(latest)) => Some(ends.min(latest)),
                (ends, latest) => latest.or(ends),
            };
        }
        self.set(lock, Value::ReadWrite(hash));
    }

    /// The last write hold of an owner goes; what it reads stays.
    pub(super) fn end_write(&mut self, lock: Lock, owner: Owner, mut hash: Hash) {
        let reads = self.reads_until(lock, owner);
        let others = hash.has_others(owner);
        if reads.is_none() && !others {
            return self.free(lock, Freed::Entirely);
        }
        hash.writes[owner.0] = 0;
        hash.writing = false;
        if !others {
            hash.ends = reads;
        }
        self.set(lock, Value::ReadWrite(hash));
        self.free(lock, Freed::ToReaders);
    }

    /// RENEW of a read/write lock.
    pub(super) fn renew_read_write(&mut self, lock: Lock, owner: Owner, word: Word, lease: Ms) -> Answer {
        let mut hash = match self.hash(lock) {
            Ok(Some(hash)) => hash,
            Ok(None) => return Answer::Zero,
            Err(answer) => return answer,
        };
        let ends = self.now + lease.0;
        let reads = self.reads_until(lock, owner);
        match self.meant(lock, owner, word, &hash) {
            None => return Answer::Error("ERR"),
            Some(Word::Write) if hash.writes[owner.0] > 0 => {
                hash.ends = Some(reads.map_or(ends, |reads| ends.max(reads)));
            }
            Some(Word::Read) if reads.is_some() => {
                for hold in 1..=hash.reads[owner.0] {
                    self.place(lock).leases.insert((owner, hold), ends);
                }
                hash.last_until(ends);
            }
            Some(_) => return Answer::Zero,
        }
        self.set(lock, Value::ReadWrite(hash));
        Answer::One
    }

    /// FORCERELEASE of a read/write lock.
    pub(super) fn force_read_write(&mut self, lock: Lock, owner: Option<Owner>, hash: Hash) -> Answer {
        let Some(owner) = owner else {
            self.free(lock, Freed::Entirely);
            return Answer::One;
        };
        if hash.writes[owner.0] > 0 {
            for hold in 1..=hash.reads[owner.0] {
                self.place(lock).leases.remove(&(owner, hold));
            }
            self.free(lock, Freed::Entirely);
            return Answer::One;
        }
        // The field of a dead reader may have been cleared away just before.
        let cleared = self.reads_until(lock, owner).is_none() && self.hint == Some(Answer::Zero);
        if hash.reads[owner.0] == 0 || cleared {
            return Answer::Zero;
        }
        self.end_read(lock, owner, hash);
        Answer::One
    }
}

/// How many holds an owner of so many comes to; `None` where holds were lost.
fn arrives(has: i64, wanted: Option<i64>) -> Option<i64> {
    match wanted {
        None => Some(has + 1),
        Some(n) if n <= has => Some(has),
        Some(n) => (n == has + 1).then_some(n),
    }
}
