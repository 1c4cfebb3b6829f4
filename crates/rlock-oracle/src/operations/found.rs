//! Unknown to a server after its promotion: read leases that the last primary granted, and the living entries of fair lists. From
//! docs/REDISSON.md.

use super::op::{Ground, Lock};
use super::state::Oracle;
use super::values::{Entry, Value};

/// The time after a promotion in which lists are met for the first time, in ms: an hour.
const DOUBTED_FOR: u64 = 3_600_000;

impl Oracle {
    /// This server is not the primary any more.
    pub(super) fn demoted(&mut self) {
        for place in &mut self.places {
            place.before.reads.append(&mut place.natives);
            (place.before.list_until, place.before.caps) = (None, false);
        }
    }

    /// Another server knew the waiters and readers.
    pub(super) fn promoted(&mut self) {
        let list_until = Some(self.clock + DOUBTED_FOR);
        for before in self.places.iter_mut().map(|place| &mut place.before) {
            (before.is_met, before.list_until, before.list_is_new) = (false, list_until, true);
        }
    }

    /// A command has met the lock, or another client has set its expiry: the leases of readers are found.
    pub(super) fn is_met(&mut self, lock: Lock) {
        let is_read = matches!(self.value(lock), Value::ReadWrite(hash) if !hash.writing);
        self.place(lock).before.is_met |= is_read && self.primary;
    }

    /// Once all due work is done, a primary's key lasts as long as each lease in a reply to a native reader, whatever other
    /// clients did to the key.
    pub(super) fn judge_read_end(&self, lock: Lock, story: &str) {
        let (Value::ReadWrite(hash), place) = (self.value(lock), &self.places[lock.0]) else { return };
        let before = place.before.reads.iter().filter(|_| place.before.is_met);
        let lasting = place.natives.iter().chain(before);
        let lasting = lasting.filter(|(owner, ends)| self.reads_until(lock, **owner) == Some(**ends));
        let latest = lasting.map(|(_, ends)| *ends).max();
        let lasts = !self.primary || hash.writing || hash.ends.is_none() || hash.ends >= latest;
        assert!(lasts, "{story}: {lock:?} ends at {:?}, and a native reads until {latest:?}", hash.ends);
    }

    /// A FAIR call, a release or another client has met a fair list with entries, or has emptied it.
    pub(super) fn list_is_met(&mut self, lock: Lock) {
        let (clock, primary) = (self.clock, self.primary);
        let before = &mut self.place(lock).before;
        let is_doubted = before.list_until.is_some_and(|until| clock < until);
        before.caps |= primary && is_doubted && std::mem::take(&mut before.list_is_new);
    }

    /// The messages of the latest step may have met fair lists.
    pub(super) fn note_messages(&mut self) {
        for lock in self.all_locks() {
            self.place(lock).before.list_is_new &= self.after.unlock_messages[lock.0] == 0;
        }
    }

    /// Whether the timer must cap the deadlines of a fair list.
    pub(super) fn must_cap(&self) -> bool {
        self.places.iter().any(|place| place.before.caps && !place.list.is_empty())
    }

    /// A deleted fair list needs no cap, but may get one later.
    pub(super) fn forget_empty_lists(&mut self) {
        for place in self.places.iter_mut().filter(|place| place.list.is_empty()) {
            place.before.caps = false;
        }
    }

    /// The timer has capped the fair lists that were met.
    pub(super) fn cap_lists(&mut self) {
        for lock in self.all_locks() {
            let met = std::mem::take(&mut self.place(lock).before.caps);
            let capped = self.capped(lock);
            // The timer may have met a fair list itself.
            if self.ground == Ground::Firm && (met || self.shows(lock, &capped)) {
                let place = self.place(lock);
                (place.list, place.before.list_until) = (capped, None);
            }
        }
    }

    /// Whether a fair list is seen to be capped.
    fn shows(&self, lock: Lock, capped: &[Entry]) -> bool {
        let may = self.places[lock.0].before.list_until.is_some_and(|until| self.clock < until);
        let mut lower = capped.iter().zip(self.list(lock)).filter(|(capped, entry)| capped != entry);
        may && lower.any(|(capped, _)| self.after.lists[lock.0].contains(capped))
    }
}
