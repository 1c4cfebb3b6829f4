//! Turns of those of Redisson's that wait, among natives that have the lock in a row: from docs/COMMANDS.md. When a turn
//! begins and ends the contract leaves open, within bounds. So it is taken from the real thing where it leaves the lock to
//! others, and judged: not too early and not too late, for somebody, and not for ever.

use super::hash::{Hash, owners};
use super::op::{Lock, Owner, Word};
use super::options::{Kinds, Options};
use super::state::Oracle;
use super::values::Value;

/// It is seen so soon that nobody listens any more, in ms. The contract says no more than that it is seen.
const SEEN_WITHIN: u64 = 1_000;

/// Whether natives are kept waiting for those of Redisson's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Gate {
    /// They are not.
    #[default]
    Open,
    /// New readers are, until the lock is free, or natives' leases have ended; at times it is looked who listens.
    UntilFree { look_at: u64 },
    /// All are until then: the lock is free, and left to the other.
    Window { until: u64 },
}

impl Gate {
    /// Somebody has the lock, or nobody is kept from it.
    pub(super) fn close_window(&mut self) {
        if matches!(self, Self::Window { .. }) {
            *self = Self::Open;
        }
    }
}

/// By how many natives in a row those of Redisson's were passed over at a lock, and since when.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turns {
    pub(super) gate: Gate,
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
    fn read_by(&self, lock: Lock) -> Option<Hash> {
        match self.value(lock) {
            Value::ReadWrite(hash) if !hash.writing => Some(hash),
            _ => None,
        }
    }

    fn is_read(&self, lock: Lock) -> bool {
        self.read_by(lock).is_some_and(|hash| !self.all_are_dead(lock, &hash))
    }

    /// Whether one who reads nothing yet is kept from reading with others.
    pub(super) fn is_kept_out(&self, lock: Lock) -> bool {
        match self.places[lock.0].turns.gate {
            // Those who took the lock in a window may be joined.
            Gate::Open | Gate::Window { .. } => false,
            Gate::UntilFree { look_at } => {
                let (gate, seen) = (self.places[lock.0].turns.gate, self.seen_gates[lock.0]);
                let not_looked = self.clock <= look_at && seen == gate;
                // What is remembered of the leases of those who have gone is left open.
                let natives =
                    self.natives_surely_read(lock) || self.natives_may_read(lock) && seen != Gate::Open;
                self.clock < look_at || not_looked || self.listened && self.is_read(lock) && natives
            }
        }
    }

    /// It is looked whether the first who waits can read: if it is kept waiting for nobody any more, nobody is.
    pub(super) fn is_looked_at_by_a_reader(&mut self, lock: Lock) {
        let reads = self.queue(lock).first().is_some_and(|head| head.word == Word::Read);
        if reads && self.read_by(lock).is_some() && !self.is_kept_out(lock) {
            self.open(lock);
        }
    }

    /// When it has to be seen at the latest that those who wait to read are kept waiting for nobody.
    pub(super) fn seen_at(&self, lock: Lock) -> Option<u64> {
        let reads = self.queue(lock).first().is_some_and(|head| head.word == Word::Read);
        match self.places[lock.0].turns.gate {
            Gate::UntilFree { look_at } if reads && self.read_by(lock).is_some() => Some(look_at + 1),
            _ => None,
        }
    }

    /// The same for one who comes to a lock that nobody waits for.
    pub(super) fn holds_back(&mut self, lock: Lock, word: Word) -> bool {
        let others = self.read_by(lock).filter(|hash| word == Word::Read || !self.all_are_dead(lock, hash));
        match (self.value(lock), others) {
            // Those who read are in the way of a writer anyway.
            (_, Some(_)) if word == Word::Write => return false,
            (_, Some(_)) => self.begins(lock),
            (Value::ReadWrite(hash), None) if hash.writing => return false,
            (_, None) => self.is_free_now(lock),
        }
        let kept_out =
            if others.is_some() { self.is_kept_out(lock) } else { self.window_ends(lock).is_some() };
        if !kept_out {
            self.open(lock);
        }
        kept_out
    }

    /// Whether those of Redisson's were passed over for long enough.
    pub(super) fn is_due(&self, row: Option<(u32, u64)>) -> bool {
        let Options { turn_grants, turn_ms, .. } = self.options;
        row.is_some_and(|(count, since)| count >= turn_grants || self.clock - since >= turn_ms)
    }

    /// One comes to read beside others: it may be the turn of the one that waits to write now, or has to be.
    fn begins(&mut self, lock: Lock) {
        let Turns { gate, least, most, .. } = self.places[lock.0].turns;
        if gate != Gate::Open {
            return;
        }
        let natives = self.natives_may_read(lock);
        let for_somebody = self.listened && self.options.window > 0 && self.is_read(lock) && natives;
        let sure = self.natives_surely_read(lock);
        if !sure {
            // It may have been its turn, which is over at once where no lease of a native lasts on.
            self.place(lock).turns.least = None;
        }
        if self.is_due(most) && !(for_somebody && sure) {
            self.place(lock).turns.handed = None;
        }
        match self.seen_gates[lock.0] {
            Gate::UntilFree { look_at } => {
                assert!(for_somebody, "who comes to read is kept waiting for nobody");
                assert!(self.is_due(most), "who comes to read is kept waiting too early: {most:?}");
                self.place(lock).turns = Turns { gate: Gate::UntilFree { look_at }, ..Turns::default() };
            }
            _ => assert!(
                !for_somebody || !sure || !self.is_due(least),
                "who waits to write is passed over: {least:?}"
            ),
        }
    }

    /// Whether a lease lasts that some native was given, which may have gone.
    fn natives_may_read(&self, lock: Lock) -> bool {
        self.places[lock.0].longest_read > Some(self.now)
    }

    fn natives_surely_read(&self, lock: Lock) -> bool {
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

    /// Nobody holds the lock, or waits for it here: if that was for the one that waits to write, it is left free.
    pub(super) fn is_free_now(&mut self, lock: Lock) {
        let until = self.clock + self.options.window;
        let turns = &mut self.place(lock).turns;
        if matches!(turns.gate, Gate::UntilFree { .. }) {
            turns.gate = Gate::Window { until };
        }
    }

    /// Until when a lock that is free is left to those of Redisson's.
    pub(super) fn window_ends(&self, lock: Lock) -> Option<u64> {
        match self.places[lock.0].turns.gate {
            Gate::Window { until } if self.clock < until => Some(until),
            _ => None,
        }
    }

    /// Natives are kept waiting no more.
    pub(super) fn open(&mut self, lock: Lock) {
        let anew = self.read_by(lock).map(|_| (0, self.clock));
        let turns = &mut self.place(lock).turns;
        match turns.gate {
            Gate::Open => {}
            // Those who read on are counted anew from now.
            Gate::UntilFree { .. } => *turns = Turns { most: anew, ..Turns::default() },
            Gate::Window { .. } => turns.gate = Gate::Open,
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
        let gate = self.places[lock.0].turns.gate;
        self.place(lock).turns = Turns { gate, ..Turns::default() };
    }

    /// Nothing is known any more of who was passed over.
    pub(super) fn forget_gate(&mut self, lock: Lock) {
        let most = self.places[lock.0].turns.most;
        self.place(lock).turns = Turns { most, ..Turns::default() };
    }

    /// Nobody waits to write who has waited all the time, where nobody listens, or nobody has read for a moment.
    pub(super) fn forget_passes(&mut self) {
        for lock in self.all_locks() {
            for owner in owners() {
                if self.reads_until(lock, owner).is_none() {
                    self.place(lock).natives.remove(&owner);
                }
            }
            if !self.listened || !self.is_read(lock) {
                self.place(lock).turns.least = None;
            }
        }
    }

    /// A step is over: where the real thing has begun or ended a turn, it may have.
    pub(super) fn judge_gates(&mut self, told: &str) {
        self.forget_passes();
        for lock in self.all_locks() {
            let (before, seen) = (self.places[lock.0].turns.gate, self.seen_gates[lock.0]);
            let held = self.value(lock) != Value::Nothing;
            let ends = match (before, seen) {
                _ if before == seen => continue,
                // It was looked whether anybody listens.
                (Gate::UntilFree { .. }, Gate::UntilFree { look_at }) => {
                    let soon = look_at <= self.clock + SEEN_WITHIN && self.natives_may_read(lock);
                    soon && self.listened && self.is_read(lock)
                }
                // Nobody listens any more, or the lock was free.
                (Gate::UntilFree { .. }, Gate::Open) => !self.is_kept_out(lock) || !self.is_read(lock),
                (Gate::UntilFree { .. }, Gate::Window { until }) => {
                    !self.is_read(lock) && until <= self.clock + self.options.window
                }
                (Gate::Window { until }, Gate::Open) => {
                    let left = self.options.kinds == Kinds::Mixed && self.queue(lock).is_empty();
                    held || self.clock >= until || left
                }
                _ => false,
            };
            assert!(ends, "{told}: the turn to write was {before:?}, and is {seen:?} now");
            if seen == Gate::Open {
                self.open(lock);
            }
            self.place(lock).turns.gate = seen;
        }
    }
}
