//! The passing of waiting Redisson clients by natives, counted from outside.

use super::hash::{Hash, owners};
use super::op::{Lock, Owner, Word};
use super::options::Options;
use super::row::{Row, Yielding};
use super::state::Oracle;
use super::values::Value;

fn one_more(row: Option<(u32, u64)>, clock: u64) -> Option<(u32, u64)> {
    let (count, since) = row.unwrap_or((0, clock));
    Some((count + 1, since))
}

impl Oracle {
    /// The hash of a lock in read mode.
    pub(super) fn read_by(&self, lock: Lock) -> Option<Hash> {
        match self.value(lock) {
            Value::ReadWrite(hash) if !hash.writing => Some(hash),
            _ => None,
        }
    }

    pub(super) fn is_read(&self, lock: Lock) -> bool {
        self.read_by(lock).is_some_and(|hash| !self.all_are_dead(lock, &hash))
    }

    /// Whether enough natives have passed waiting Redisson clients.
    pub(super) fn is_due(&self, row: Option<(u32, u64)>) -> bool {
        let Options { turn_grants, turn_ms, .. } = self.options;
        row.is_some_and(|(count, since)| count >= turn_grants || self.clock - since >= turn_ms)
    }

    /// Whether a native read lease may last; its owner may have released.
    pub(super) fn natives_may_read(&self, lock: Lock) -> bool {
        self.places[lock.0].longest_read > Some(self.now)
    }

    pub(super) fn natives_surely_read(&self, lock: Lock) -> bool {
        self.places[lock.0].natives.values().any(|ends| *ends > self.now)
    }

    /// A native received a read lease.
    pub(super) fn leases_read(&mut self, lock: Lock, owner: Owner, ends: i64) {
        let primary = self.primary;
        let place = self.place(lock);
        place.longest_read = place.longest_read.max(Some(ends));
        // A writable replica remembers nothing.
        if primary {
            place.natives.insert(owner, ends);
        }
    }

    /// A native reader remains, or received a read lease.
    pub(super) fn reads_on(&mut self, lock: Lock) {
        let clock = self.clock;
        self.place(lock).row.most.get_or_insert((0, clock));
    }

    /// A new native reader; `writes`: its owner is the writer.
    pub(super) fn passes(&mut self, lock: Lock, writes: bool) {
        if !writes {
            self.open(lock);
        }
        let (clock, listened) = (self.clock, self.listened);
        let row = &mut self.place(lock).row;
        row.most = one_more(row.most, clock);
        if listened && !writes {
            row.least = one_more(row.least, clock);
        }
    }

    /// A hand-off to a native; a reader is counted by `passes`.
    pub(super) fn is_handed_on(&mut self, lock: Lock, word: Word) {
        let clock = self.clock;
        let row = &mut self.place(lock).row;
        row.handed = one_more(row.handed, clock);
        if word != Word::Read {
            row.most = one_more(row.most, clock);
        }
    }

    /// The lock was free for Redisson clients.
    pub(super) fn row_ends(&mut self, lock: Lock) {
        let Row { yielding, wanted_at, left_until, .. } = self.places[lock.0].row;
        self.place(lock).row = Row { yielding, wanted_at, left_until, ..Row::default() };
    }

    /// No Redisson writer has waited through the readers where none listens, or the lock was without a reader for a moment. Yielding may
    /// have ended in it.
    pub(super) fn forget_passes(&mut self) {
        for lock in self.all_locks() {
            self.note_read_end(lock);
            for owner in owners() {
                if self.reads_until(lock, owner).is_none() {
                    self.place(lock).natives.remove(&owner);
                }
            }
            let wanted = self.listened && self.is_read(lock);
            let (surely, may) = (self.natives_surely_read(lock), self.natives_may_read(lock));
            let (held, clock) = (self.value(lock) != Value::Nothing, self.clock);
            let row = &mut self.place(lock).row;
            if !wanted {
                row.least = None;
            }
            match row.yielding {
                Yielding::Draining { .. } if !wanted || !surely => row.yielding.doubt(),
                Yielding::Window { .. } if held => row.yielding.doubt(),
                _ => {}
            }
            if wanted && may {
                row.wanted_at = clock;
            }
            if held {
                row.left_until = 0;
            }
        }
    }

    /// Notices that the key of a lock has ended together with a native read lease, which held new readers back.
    fn note_read_end(&mut self, lock: Lock) {
        let place = &self.places[lock.0];
        let (Value::ReadWrite(hash), Value::Nothing) = (place.value, self.value(lock)) else { return };
        let natives = place.natives.values().max();
        if let Some(ends) = hash.ends.filter(|ends| !hash.writing && natives >= Some(ends)) {
            self.must_be_left(lock, self.clock.saturating_sub(self.now.abs_diff(ends)));
        }
    }

    /// A lock is free since this time. If new readers were surely held back until then, it is left to Redisson clients.
    fn must_be_left(&mut self, lock: Lock, since: u64) {
        let window = self.options.window;
        let row = &mut self.place(lock).row;
        if row.yielding == (Yielding::Draining { sure: true }) {
            row.left_until = since + window;
        }
    }
}
