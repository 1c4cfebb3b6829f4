//! Release and renewal of read/write locks, from docs/COMMANDS.md.

use super::hash::Hash;
use super::op::{Count, Lock, Ms, Owner, Word};
use super::state::Oracle;
use super::values::{Answer, Freed, Value};

impl Oracle {
    /// The holds that a call means, READ or WRITE; `None` if it does not say, and the owner has both.
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
        self.is_met(lock);
        let hash = match self.hash(lock) {
            Ok(Some(hash)) => hash,
            Ok(None) => return Answer::Null,
            Err(answer) => return answer,
        };
        let Some(word) = self.meant(lock, owner, word, &hash) else { return Answer::Error("ERR") };
        let until = self.reads_until(lock, owner);
        let holds = match word {
            Word::Write => hash.writes[owner.0],
            Word::None | Word::Read | Word::Permit => until.map_or(0, |_| hash.reads[owner.0]),
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
        self.reads_on(lock);
        let had = hash.reads[owner.0];
        let leases = &mut self.place(lock).leases;
        for hold in left + 1..=had {
            leases.remove(&(owner, hold));
        }
        // A requested lease applies to every hold.
        for hold in if ends.is_some() { 1 } else { left }..=left {
            if left < had || ends.is_some() {
                leases.insert((owner, hold), until);
            }
        }
        if left < had || ends.is_some() {
            self.leases_read(lock, owner, until);
        }
        hash.reads[owner.0] = left;
        hash.last_until(until);
        self.set(lock, Value::ReadWrite(hash));
    }

    /// Ends all read holds of an owner.
    pub(super) fn end_read(&mut self, lock: Lock, owner: Owner, mut hash: Hash) {
        for hold in 1..=hash.reads[owner.0] {
            self.place(lock).leases.remove(&(owner, hold));
        }
        hash.reads[owner.0] = 0;
        if hash.writes[owner.0] == 0 {
            if self.all_are_dead(lock, &hash) {
                return self.free(lock, Freed::Entirely);
            }
            // The key lasts as long as the last read lease, and not longer.
            let latest = hash.latest(&self.places[lock.0].leases, None, self.now);
            hash.ends = match (hash.ends, latest) {
                (Some(ends), Some(latest)) => Some(ends.min(latest)),
                (ends, latest) => latest.or(ends),
            };
        }
        self.set(lock, Value::ReadWrite(hash));
    }

    /// Ends all write holds of an owner; its read holds stay.
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
        self.is_met(lock);
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
                self.reads_on(lock);
                for hold in 1..=hash.reads[owner.0] {
                    self.place(lock).leases.insert((owner, hold), ends);
                }
                self.leases_read(lock, owner, ends);
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
        let cleared = self.reads_until(lock, owner).is_none() && self.after.answer == Some(Answer::Zero);
        if hash.reads[owner.0] == 0 || cleared {
            return Answer::Zero;
        }
        self.end_read(lock, owner, hash);
        Answer::One
    }
}
