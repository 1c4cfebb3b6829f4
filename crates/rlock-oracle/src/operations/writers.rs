//! Natives that have the lock in a row while those of Redisson's wait, from docs/REDISSON.md: how many, and since when, is seen.

use super::hash::{Hash, owners};
use super::op::{Lock, Owner, Word};
use super::options::Options;
use super::state::Oracle;
use super::values::Value;

/// Whether natives are kept waiting for those of Redisson's. What is `sure` has to be so, else it may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Gate {
    /// They are not.
    #[default]
    Open,
    /// New readers are, until the lock is free, or natives' leases have ended.
    UntilFree { sure: bool },
    /// All are until then, at the latest: the lock is free, and left to the other.
    Window { until: u64, sure: bool },
}

impl Gate {
    /// Somebody has the lock, or nobody is kept from it.
    pub(super) fn close_window(&mut self) {
        if matches!(self, Self::Window { .. }) {
            *self = Self::Open;
        }
    }

    /// It may have ended, or be shorter.
    fn doubt(&mut self) {
        if let Self::UntilFree { sure } | Self::Window { sure, .. } = self {
            *sure = false;
        }
    }
}

/// By how many natives in a row those of Redisson's were passed over at a lock, and since when.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turns {
    pub(super) gate: Gate,
    /// When somebody listened last, and a native read, while readers were kept out.
    pub(super) wanted_at: u64,
    /// By hand-offs at least.
    pub(super) handed: Option<(u32, u64)>,
    /// By readers at least, who has waited to write all the time.
    pub(super) least: Option<(u32, u64)>,
    /// By all of them at most.
    pub(super) most: Option<(u32, u64)>,
}

fn one_more(row: Option<(u32, u64)>, clock: u64) -> Option<(u32, u64)> {
    let (count, since) = row.unwrap_or((0, clock));
    Some((count + 1, since))
}

impl Oracle {
    /// Those who read, and nobody writes: the lock's hash.
    pub(super) fn read_by(&self, lock: Lock) -> Option<Hash> {
        match self.value(lock) {
            Value::ReadWrite(hash) if !hash.writing => Some(hash),
            _ => None,
        }
    }

    pub(super) fn is_read(&self, lock: Lock) -> bool {
        self.read_by(lock).is_some_and(|hash| !self.all_are_dead(lock, &hash))
    }

    /// Whether those of Redisson's were passed over for long enough.
    pub(super) fn is_due(&self, row: Option<(u32, u64)>) -> bool {
        let Options { turn_grants, turn_ms, .. } = self.options;
        row.is_some_and(|(count, since)| count >= turn_grants || self.clock - since >= turn_ms)
    }

    /// Whether a lease lasts that some native was given, which may have gone.
    pub(super) fn natives_may_read(&self, lock: Lock) -> bool {
        self.places[lock.0].longest_read > Some(self.now)
    }

    pub(super) fn natives_surely_read(&self, lock: Lock) -> bool {
        self.places[lock.0].natives.values().any(|ends| *ends > self.now)
    }

    /// A native has a lease to read from here.
    pub(super) fn leases_read(&mut self, lock: Lock, owner: Owner, ends: i64) {
        let primary = self.primary;
        let place = self.place(lock);
        place.longest_read = place.longest_read.max(Some(ends));
        // One that is not the primary, and may be written all the same, remembers nothing.
        if primary {
            place.natives.insert(owner, ends);
        }
    }

    /// A native reads on, or has a lease to read from here.
    pub(super) fn reads_on(&mut self, lock: Lock) {
        let clock = self.clock;
        self.place(lock).turns.most.get_or_insert((0, clock));
    }

    /// A native reads that did not, or, where it writes, reads as well.
    pub(super) fn passes(&mut self, lock: Lock, writes: bool) {
        if !writes {
            self.open(lock);
        }
        let (clock, listened) = (self.clock, self.listened);
        let turns = &mut self.place(lock).turns;
        turns.most = one_more(turns.most, clock);
        if listened && !writes {
            turns.least = one_more(turns.least, clock);
        }
    }

    /// The lock is handed on to a native; readers pass by themselves.
    pub(super) fn is_handed_on(&mut self, lock: Lock, word: Word) {
        let clock = self.clock;
        let turns = &mut self.place(lock).turns;
        turns.handed = one_more(turns.handed, clock);
        if word != Word::Read {
            turns.most = one_more(turns.most, clock);
        }
    }

    /// The lock was free for those of Redisson's.
    pub(super) fn row_ends(&mut self, lock: Lock) {
        let Turns { gate, wanted_at, .. } = self.places[lock.0].turns;
        self.place(lock).turns = Turns { gate, wanted_at, ..Turns::default() };
    }

    /// Nobody waits to write who has waited all the time, where nobody listens, or nobody has read for a moment. A turn may
    /// have ended then.
    pub(super) fn forget_passes(&mut self) {
        for lock in self.all_locks() {
            for owner in owners() {
                if self.reads_until(lock, owner).is_none() {
                    self.place(lock).natives.remove(&owner);
                }
            }
            let wanted = self.listened && self.is_read(lock);
            let (surely, may) = (self.natives_surely_read(lock), self.natives_may_read(lock));
            let (held, clock) = (self.value(lock) != Value::Nothing, self.clock);
            let turns = &mut self.place(lock).turns;
            if !wanted {
                turns.least = None;
            }
            match turns.gate {
                Gate::UntilFree { .. } if !wanted || !surely => turns.gate.doubt(),
                Gate::Window { .. } if held => turns.gate.doubt(),
                _ => {}
            }
            if wanted && may {
                turns.wanted_at = clock;
            }
        }
    }
}
