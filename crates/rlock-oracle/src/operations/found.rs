//! Knowledge that a server lacks after a promotion: read leases that end after their lock's key, from docs/REDISSON.md, and
//! entries of fair lists that may be alive or dead.
//!
//! When a list is met is left open where it is by a message, and then taken from the real thing.

use std::collections::BTreeMap;

use super::hash::owners;
use super::op::{Ground, Lock, Owner};
use super::state::Oracle;
use super::values::Value;

/// The time after a promotion in which lists are met for the first time, in ms. The contract says no number.
const DOUBTED_FOR: u64 = 3_600_000;

/// The read leases of a lock that its key must outlast.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownReads {
    /// Their ends.
    ends: BTreeMap<Owner, i64>,
    /// The latest of all, those of owners that have gone too; `None` until they are found.
    until: Option<i64>,
    /// Whether the timer is to find them.
    is_sought: bool,
    /// Whether the timer must check the key's end.
    is_due: bool,
}

/// What is known of the dead in a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sight {
    /// Nothing, and it was not met.
    #[default]
    Doubted,
    /// It was met, and will be bounded.
    Met,
    /// It is bounded.
    Bounded,
}

impl Oracle {
    /// A native has a lease to read from here.
    pub(super) fn must_outlast(&mut self, lock: Lock, owner: Owner, ends: i64) {
        let known = &mut self.place(lock).known_reads;
        known.ends.insert(owner, ends);
        known.until = known.until.map(|until| until.max(ends));
    }

    /// A native reads alone: there are no other leases.
    pub(super) fn all_reads_are_known(&mut self, lock: Lock) {
        let known_reads = KnownReads { until: Some(i64::MIN), ..KnownReads::default() };
        self.place(lock).known_reads = known_reads;
    }

    /// A command has met the lock, or another client has set its expiry: if it is read and its leases are unknown, they are sought.
    pub(super) fn is_met(&mut self, lock: Lock) {
        let is_read = matches!(self.value(lock), Value::ReadWrite(hash) if !hash.writing);
        if !is_read || !self.primary {
            return;
        }
        let now = self.now;
        let known = &mut self.place(lock).known_reads;
        known.is_sought |= known.until.is_none_or(|until| until <= now);
    }

    /// The key was written.
    pub(super) fn key_is_written(&mut self, lock: Lock, ends_before: Option<i64>) {
        let ends = if let Value::ReadWrite(hash) = self.value(lock) { hash.ends } else { None };
        if ends.is_some() && ends != ends_before {
            self.is_met(lock);
        }
        self.place(lock).known_reads.is_due = self.primary;
    }

    /// The timer finds what is sought.
    pub(super) fn find_reads(&mut self) {
        for lock in self.all_locks() {
            if !std::mem::take(&mut self.place(lock).known_reads.is_sought) {
                continue;
            }
            let living = owners().filter_map(|owner| Some((owner, self.reads_until(lock, owner)?)));
            let living: Vec<_> = living.collect();
            let known = &mut self.place(lock).known_reads;
            known.until = Some(known.until.unwrap_or(i64::MIN));
            known.is_due = true;
            living.into_iter().for_each(|(owner, ends)| self.must_outlast(lock, owner, ends));
        }
    }

    /// Whether a key ends before a lease that it must outlast.
    fn ends_early(&self, lock: Lock) -> bool {
        let Value::ReadWrite(hash) = self.value(lock) else { return false };
        let ends = self.places[lock.0].known_reads.ends.iter();
        let lasts = ends.filter_map(|(owner, ends)| Some(self.reads_until(lock, *owner)?.min(*ends)));
        !hash.writing && lasts.max().is_some_and(|last| hash.ends.is_some_and(|ends| ends < last))
    }

    /// Whether a key ends before a lease of any reader.
    fn ends_before_any(&self, lock: Lock) -> bool {
        let Value::ReadWrite(hash) = self.value(lock) else { return false };
        let last = owners().filter_map(|owner| self.reads_until(lock, owner)).max();
        !hash.writing && last.is_some_and(|last| hash.ends.is_some_and(|ends| ends < last))
    }

    /// When the timer must check keys: now, if one ends too early.
    pub(super) fn reads_due(&self) -> Option<u64> {
        let is_due = |lock: Lock| {
            let known = &self.places[lock.0].known_reads;
            known.is_due && self.ends_early(lock) || known.is_sought && self.ends_before_any(lock)
        };
        let may = self.primary && self.ground != Ground::Moved;
        (may && self.all_locks().any(is_due)).then_some(self.clock)
    }

    /// The timer has checked the keys, if it could write.
    pub(super) fn judge_ends(&mut self, told: &str) {
        for lock in self.all_locks() {
            match self.ground {
                Ground::Paused | Ground::Refused => continue,
                Ground::Firm => {
                    let due = self.places[lock.0].known_reads.is_due;
                    assert!(!due || !self.ends_early(lock), "{told}: a key ends before a lease to read");
                }
                Ground::Moved => {}
            }
            self.place(lock).known_reads.is_due = false;
        }
    }

    /// Another server knew the waiters.
    pub(super) fn doubt_lists(&mut self) {
        self.lists_doubted_until = self.clock + DOUBTED_FOR;
        self.places.iter_mut().for_each(|place| place.list_is_met = false);
    }

    fn is_doubted(&self, lock: Lock) -> bool {
        self.clock < self.lists_doubted_until && !self.places[lock.0].list_is_met
    }

    /// A list was met that has entries, or had: if it is doubted, the timer sets bounds.
    pub(super) fn list_is_met(&mut self, lock: Lock) {
        if self.primary && self.is_doubted(lock) {
            self.place(lock).list_is_met = true;
            self.place(lock).list_found = true;
        }
    }

    /// The timer has fired, and the real thing has bounded a list that it has met in that.
    pub(super) fn list_may_be_met(&mut self, lock: Lock) {
        if self.seen_sights[lock.0] == Sight::Bounded {
            self.list_is_met(lock);
        }
    }

    /// A step is over: a message of a release may have met a list.
    pub(super) fn judge_sights(&mut self) {
        for lock in self.all_locks() {
            if self.seen_sights[lock.0] == Sight::Met {
                self.list_is_met(lock);
            }
        }
    }
}
