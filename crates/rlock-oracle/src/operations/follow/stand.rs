//! The state of a lock at an instant: its holders, and when their holds end.

use super::super::hash::Leases;
use super::super::op::{Owner, WORDS, Word};
use super::super::values::Value;

/// A lock's keys at an instant.
pub(super) struct Stand {
    pub(super) value: Value,
    pub(super) leases: Leases,
    pub(super) now: i64,
}

impl Stand {
    /// When a hold ends, if ever: the last ms at which it exists.
    pub(super) fn ends(&self, owner: Owner, word: Word) -> Option<i64> {
        match (self.value, word) {
            (Value::ReadWrite(hash), Word::Read) => hash.reads_until(&self.leases, owner, self.now),
            (Value::ReadWrite(hash), _) => hash.ends,
            (Value::Held { ends, .. }, _) => ends,
            // A permit has ended when its time has come.
            (Value::Permits(ends, _), Word::Permit) => Some(ends[owner.0].map_or(i64::MIN, |at| at - 1)),
            (Value::Permits(..) | Value::Nothing | Value::Other, _) => Some(i64::MIN),
        }
    }

    pub(super) fn holds(&self, owner: Owner, word: Word) -> bool {
        match (self.value, word) {
            (Value::Held { by, .. }, Word::None) => by == owner,
            (Value::ReadWrite(hash), Word::Read) => hash.reads_until(&self.leases, owner, self.now).is_some(),
            (Value::ReadWrite(hash), Word::Write) => hash.writing && hash.writes[owner.0] > 0,
            (Value::Permits(ends, _), Word::Permit) => ends[owner.0].is_some_and(|at| at > self.now),
            _ => false,
        }
    }

    /// An owner's holds, and when they end.
    pub(super) fn of(&self, owner: Owner, word: Word) -> Option<(i64, Option<i64>)> {
        let count = match (self.value, word) {
            (Value::Held { holds, .. }, _) => holds,
            (Value::ReadWrite(hash), Word::Read) => hash.reads[owner.0],
            (Value::ReadWrite(hash), _) => hash.writes[owner.0],
            _ => 1,
        };
        self.holds(owner, word).then(|| (count, self.ends(owner, word)))
    }

    /// Whether an owner holds it in any way.
    pub(super) fn is_held_by(&self, owner: Owner) -> bool {
        WORDS.into_iter().any(|(word, _)| self.holds(owner, word))
    }
}
