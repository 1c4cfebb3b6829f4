//! The view of a lock, of whatever kind: the facts that a rule decides on.

use crate::decision::Decision;
use crate::facts::Permits;
use crate::shape::Fields;
pub use crate::shape::Kind;
use crate::types::{Expiry, Holds, Mode, UnixMs};

/// The holds of one owner in one mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Their number.
    pub holds: Holds,
    /// Their lease end.
    pub until: Expiry,
}

/// The known facts about other owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// The lock has no other owner.
    None,
    /// The lock has this number of fields of other owners, including dead readers: the look did not check them.
    NotAsked(usize),
    /// All of them are dead readers.
    Dead,
    /// At least one of them holds the lock.
    Live {
        /// The lease end of one of them.
        until: Expiry,
        /// The latest lease end, if the look checked all of them.
        last_end: Option<Expiry>,
    },
    /// The look did not check all of them: one may hold the lock.
    InDoubt,
    /// The lock has permits of others, and at least one of them is alive.
    Permits {
        /// Their number, including ended ones that are still in the set.
        members: u32,
        /// The number of living ones, if the look counted them.
        living: Option<u32>,
        /// When the first living one ends.
        first_end: UnixMs,
        /// When the last one ends.
        last_end: UnixMs,
    },
}

/// A lock as one owner sees it; without an owner, as an owner without holds sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// The kind of the lock.
    pub kind: Kind,
    /// The owner's exclusive holds: of a plain lock, or write holds.
    pub sole: Option<Hold>,
    /// The owner's shared holds, if they are alive: read holds, or a permit.
    pub shared: Option<Hold>,
    /// The owner's shared holds that the key still shows after their end: read holds, or an ended permit.
    pub dead: Option<Holds>,
    /// The known facts about other owners.
    pub others: Others,
    /// The expiry of the key.
    pub key_end: Expiry,
}

/// What a rule asks of a look. A look never asks for more than a rule needs: lease keys of other owners cost most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The number of the owner's own holds. A release without LEASE needs no more, so that in its view a plain lock never ends.
    Holds,
    /// The owner's own holds.
    Own,
    /// Whether any other owner holds the lock.
    AnyOther,
    /// The latest lease end of the other owners.
    LastOther,
    /// How many other owners have living permits.
    Room,
}

/// The result of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The rule has decided.
    Done(Decision),
    /// The rule needs to know more, and must be asked again.
    Look(Need),
}

impl View {
    /// The view of a lock before lease keys and scores are read: shared holds count as dead.
    pub fn of(fields: &Fields) -> Self {
        let Fields { kind, sole, shared, others, key_end } = *fields;
        let others = match others {
            0 => Others::None,
            // A plain lock ends with its key.
            _ if kind == Kind::Mutex => Others::Live { until: key_end, last_end: Some(key_end) },
            count => Others::NotAsked(count),
        };
        let sole = sole.map(|holds| Hold { holds, until: key_end });
        Self { kind, sole, shared: None, dead: shared, others, key_end }
    }

    /// Adds the scores of the permits to the view.
    pub(crate) fn add_permits(&mut self, permits: &Permits, now: UnixMs) {
        if let Some(own) = permits.own.filter(|own| *own > now) {
            self.shared = Some(Hold { holds: Holds::ONE, until: Expiry::At(own) });
            self.dead = None;
        }
        let members = if let Others::NotAsked(count) = self.others {
            u32::try_from(count).unwrap_or(u32::MAX)
        } else {
            0
        };
        self.others = match (permits.first_end, permits.last_end) {
            (Some(first_end), Some(last_end)) => {
                Others::Permits { members, living: None, first_end, last_end }
            }
            _ if members > 0 => Others::Dead,
            _ => Others::None,
        };
    }

    /// Whether the owner's holds are still the same, whatever became of other readers. Permits may all have ended meanwhile.
    pub(crate) fn is_still(&self, fields: &Fields) -> bool {
        let sole = self.sole.map(|hold| hold.holds);
        let same = (self.kind, sole, self.shared_holds()) == (fields.kind, fields.sole, fields.shared);
        same || self.kind == Kind::Permits && fields.kind == Kind::Abandoned
    }

    /// Whether the lock is a read/write lock with holders, alive or dead.
    pub(crate) fn is_read_write(&self) -> bool {
        matches!(self.kind, Kind::Reading | Kind::Writing)
    }

    /// The owner's shared holds, alive or dead: the read holds that its field counts, or a permit.
    pub fn shared_holds(&self) -> Option<Holds> {
        self.shared.map(|hold| hold.holds).or(self.dead)
    }

    /// Whether the owner holds the lock in any mode.
    pub(crate) fn holds_any(&self) -> bool {
        self.sole.is_some() || self.shared.is_some()
    }

    /// The owner's holds in this mode.
    pub(crate) fn held_in(&self, mode: Mode) -> Option<Hold> {
        match mode {
            Mode::Mutex | Mode::Write => self.sole,
            Mode::Read | Mode::Permit => self.shared,
        }
    }

    /// Whether the lock has no hold in the way of this mode. To a writer a lock whose readers are all dead is free.
    pub(crate) fn is_free_for(&self, mode: Mode) -> bool {
        match self.kind {
            Kind::Free | Kind::Abandoned => true,
            Kind::Reading if mode == Mode::Write => {
                self.shared.is_none() && matches!(self.others, Others::None | Others::Dead)
            }
            Kind::Mutex | Kind::Reading | Kind::Writing | Kind::Permits => false,
        }
    }
}
