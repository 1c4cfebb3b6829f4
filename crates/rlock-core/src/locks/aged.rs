//! Knowledge that time or a demotion has ended without an event.

use std::ops::Bound;

use super::Locks;
use crate::types::{MonoMs, UnixMs};
use crate::weight::Weighed;

impl Locks {
    /// Forgets what time or a demotion has ended without an event: in the next records, up to a weight of `most`, and in `most`
    /// ties.
    pub fn forget_old(&mut self, now: UnixMs, clock: MonoMs, most: usize) {
        let doubts_lists = self.role.forget_list_doubts(clock);
        let start = self.walks.forgotten.last().map_or(Bound::Unbounded, |last| Bound::Excluded(last.name()));
        let (mut seen, mut last, mut old) = (0_usize, None, Vec::new());
        for (lock, record) in self.records.from(start) {
            if seen >= most {
                break;
            }
            let is_old = self.records.is_of_earlier_term(record) || record.is_old(now, clock, doubts_lists);
            old.extend(is_old.then(|| lock.clone()));
            (seen, last) = (seen.saturating_add(lock.weight()), Some(lock));
        }
        self.walks.forgotten.set(last.filter(|_| seen >= most));
        self.records.free_old_ties(most);
        self.sessions.free_forgotten(most);
        for lock in old {
            self.records.edit_known(lock.name(), |record| record.forget_old(now, clock, doubts_lists));
        }
    }
}
