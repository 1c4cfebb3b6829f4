//! Locks that are read by owners from here.
//!
//! Redisson's renewal of a reader sets the end of the lock's key to that of its own lease, and so would end a longer one
//! of ours: so it is known how long those last. And natives that read, the next always coming before the last has
//! gone, would keep one of Redisson's from writing: so they are counted.

use super::departures::Walk;
use super::{LockId, Queues, Turns};
use crate::types::{MonoMs, UnixMs};

/// A lock that owners from here read, or have read lately.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    /// When the longest read lease ends that was given here; `None` where nobody reads any more.
    pub(super) ends: Option<UnixMs>,
    /// How many came to read since foreign writers last had their chance.
    pub(super) came: u32,
    /// Since when.
    pub(super) since: MonoMs,
    /// Whether those who come to read are kept waiting.
    pub(super) closed: Option<Closed>,
}

/// Those who come to read are kept waiting, for one of Redisson's that waits to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// Until the lock is free, or the leases have ended that natives were given: those of Redisson's go on joining each
    /// other.
    UntilFree {
        /// Then it is looked whether anybody still waits.
        look_at: MonoMs,
    },
    /// The lock is free, and left to the other.
    ForAMoment {
        /// Until then.
        until: MonoMs,
    },
}

/// Of so many releases beside many readers one looks at a few of them: each look costs more than the release.
const RELEASES_PER_LOOK: u8 = 8;

impl Queues {
    /// Whether a release is to look at other readers.
    pub fn is_turn_to_look(&mut self) -> bool {
        self.releases = self.releases.wrapping_add(1);
        self.releases.is_multiple_of(RELEASES_PER_LOOK)
    }

    /// Whether a lock is read by owners from here, and so is known to be one.
    pub fn is_known_to_be_read(&self, lock: &LockId) -> bool {
        self.reading.get(lock).is_some_and(|reading| reading.ends.is_some())
    }

    /// When the longest read lease ends that is known.
    pub fn read_end(&self, lock: &LockId) -> Option<UnixMs> {
        self.reading.get(lock)?.ends
    }

    /// A read lease was given that ends then.
    pub fn note_read_end(&mut self, lock: &LockId, ends: UnixMs, clock: MonoMs) {
        match self.reading.get_mut(lock) {
            Some(reading) => reading.ends = reading.ends.max(Some(ends)),
            None => {
                let reading = Reading { ends: Some(ends), came: 0, since: clock, closed: None };
                self.reading.insert(lock.clone(), reading);
            }
        }
    }

    /// One has come to read who did not.
    pub fn count_reader(&mut self, lock: &LockId) {
        if let Some(reading) = self.reading.get_mut(lock) {
            reading.came = reading.came.saturating_add(1);
        }
    }

    /// Nobody reads the lock any more. Where those who come to read were kept waiting, they are until then.
    pub fn forget_read_end(&mut self, lock: &LockId, until: Option<MonoMs>) {
        self.read_changed.remove(lock);
        match (self.reading.get_mut(lock), until) {
            (Some(reading), Some(until)) if reading.closed.is_some() => {
                reading.ends = None;
                // Who has had its moment has no other one.
                if matches!(reading.closed, Some(Closed::UntilFree { .. })) {
                    reading.closed = Some(Closed::ForAMoment { until });
                }
            }
            _ => drop(self.reading.remove(lock)),
        }
    }

    /// Forgets those that have passed.
    pub fn forget_old_read_ends(&mut self, now: UnixMs, clock: MonoMs) {
        self.reading.retain(|_, reading| {
            let moment = matches!(reading.closed, Some(Closed::ForAMoment { until }) if until > clock);
            moment || reading.ends.is_some_and(|ends| ends > now)
        });
    }

    /// Whether any is known.
    pub fn knows_read_ends(&self) -> bool {
        !self.reading.is_empty()
    }

    /// Whether those who wait by Redisson's protocol to write, if there are any, have been passed over for long enough.
    pub fn writers_turn_is_due(&self, lock: &LockId, turns: Turns, clock: MonoMs) -> bool {
        self.reading.get(lock).is_some_and(|reading| {
            reading.came >= turns.after_grants || clock.0.saturating_sub(reading.since.0) >= turns.after_ms
        })
    }

    /// Whether those who come to read are kept waiting.
    pub fn closed_to_readers(&self, lock: &LockId) -> Option<Closed> {
        self.reading.get(lock)?.closed
    }

    /// Whether a lock that is free is left to foreign writers: not where they have had their moment.
    pub fn is_left_to_writers(&self, lock: &LockId, clock: MonoMs) -> bool {
        match self.closed_to_readers(lock) {
            None => false,
            Some(Closed::UntilFree { .. }) => true,
            Some(Closed::ForAMoment { until }) => until > clock,
        }
    }

    /// Those who come to read are kept waiting.
    pub fn close_to_readers(&mut self, lock: &LockId, closed: Closed) {
        if let Some(reading) = self.reading.get_mut(lock) {
            reading.closed = Some(closed);
        }
    }

    /// Foreign writers have had their chance, or there are none: those who come to read are counted anew.
    pub fn open_to_readers(&mut self, lock: &LockId, clock: MonoMs) {
        match self.reading.get_mut(lock) {
            Some(reading) if reading.ends.is_some() => {
                (reading.came, reading.since, reading.closed) = (0, clock, None);
            }
            _ => drop(self.reading.remove(lock)),
        }
    }

    /// Somebody else has changed a lock's key: true if its end is to be looked at.
    pub fn note_read_change(&mut self, lock: &LockId) -> bool {
        self.is_known_to_be_read(lock) && self.read_changed.insert(lock.clone())
    }

    /// The next lock whose key's end is to be looked at, and the latest end that it is to have.
    pub fn next_read_change(&mut self) -> Option<(LockId, UnixMs)> {
        while let Some(lock) = self.read_changed.pop_first() {
            if let Some(ends) = self.reading.get(&lock).and_then(|reading| reading.ends) {
                return Some((lock, ends));
            }
        }
        None
    }

    /// It could not be looked at now.
    pub fn look_at_reads_later(&mut self, lock: LockId) {
        self.read_changed.insert(lock);
    }

    /// It is not to be written here, or not yet: its slot is on its way.
    pub fn reads_are_moving(&mut self, lock: &LockId) {
        self.reads_moving.insert(lock.clone());
    }

    /// What could not be written is to be looked at again; false if there is nothing.
    pub fn look_at_what_moves(&mut self) -> bool {
        let some = !self.reads_moving.is_empty() || !self.lists_moving.is_empty();
        self.read_changed.append(&mut self.reads_moving);
        let lists = std::mem::take(&mut self.lists_moving);
        self.fair_unknown.extend(lists.into_iter().map(|lock| (lock, Walk::default())));
        some
    }
}
