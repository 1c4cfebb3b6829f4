//! A view after a change, without another look.

use crate::decision::{Change, KeyChange};
use crate::shape::Fields;
use crate::types::{Expiry, Holds, Mode};
use crate::view::{Hold, Kind, Others, View};

impl View {
    /// The lock as the same owner sees it once this change is made. The simulated server compares this view with a fresh one
    /// after each of its changes.
    #[must_use]
    pub fn after(&self, change: &Change) -> Self {
        if change.key == KeyChange::Delete {
            return Self::of(&Fields::FREE);
        }
        let base = if change.key.deletes() { Self::of(&Fields::FREE) } else { *self };
        let key_end = change.expire_at.map_or(base.key_end, Expiry::At);
        let mut after = Self { key_end, others: base.others.without(change.buried().len()), ..base };
        after.kind = kind_after(&base, change);
        match change.mode {
            Mode::Mutex | Mode::Write => after.change_sole(change.key),
            Mode::Read => after.change_reads(change),
            Mode::Permit => after.change_permit(change.key),
        }
        after.sole = after.sole.map(|hold| Hold { until: key_end, ..hold });
        if after.kind == Kind::Mutex && after.sole.is_none() {
            after.others = Others::Live { until: key_end, last_end: Some(key_end) };
        }
        after
    }

    fn change_sole(&mut self, key: KeyChange) {
        self.sole = match key {
            KeyChange::Keep => self.sole,
            _ => key.holds().map(|holds| Hold { holds, until: self.key_end }),
        };
    }

    fn change_reads(&mut self, change: &Change) {
        let holds = match change.key {
            KeyChange::Keep => self.shared_holds(),
            key => key.holds(),
        };
        // The newest hold has the longest lease.
        let set = change.leases().set.map(|(_, _, until)| Expiry::At(until));
        let until = set.or(self.shared.map(|hold| hold.until));
        self.shared = holds.zip(until).map(|(holds, until)| Hold { holds, until });
        self.dead = holds.filter(|_| until.is_none());
    }

    fn change_permit(&mut self, key: KeyChange) {
        if key != KeyChange::Keep {
            self.shared = key.permit_end().map(|end| Hold { holds: Holds::ONE, until: Expiry::At(end) });
            self.dead = None;
        }
    }
}

impl Others {
    /// This view without this number of dead readers, or of ended permits.
    fn without(self, buried: usize) -> Self {
        match self {
            Self::NotAsked(count) if count <= buried => Self::None,
            Self::NotAsked(count) => Self::NotAsked(count.saturating_sub(buried)),
            Self::Permits { members, living, first_end, last_end } => {
                let buried = u32::try_from(buried).unwrap_or(u32::MAX);
                Self::Permits { members: members.saturating_sub(buried), living, first_end, last_end }
            }
            Self::None | Self::Dead | Self::Live { .. } | Self::InDoubt => self,
        }
    }
}

fn kind_after(before: &View, change: &Change) -> Kind {
    match (change.mode, change.becomes) {
        (_, Some(Mode::Write)) => Kind::Writing,
        (_, Some(Mode::Read)) => Kind::Reading,
        (Mode::Mutex, _) if change.key.holds().is_some() => Kind::Mutex,
        _ if change.key.permit_end().is_some() => Kind::Permits,
        _ => before.kind,
    }
}
